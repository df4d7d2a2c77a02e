package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-proxy/internal/demo"
	"tempomat/cmd/tempomat-proxy/internal/setup"
	"tempomat/config"
)

// invocation is what a command is given beside its arguments.
type invocation struct {
	env            []string // "NAME=value", as os.Environ has it
	stdin          io.Reader
	stdout, stderr io.Writer
}

// command is a subcommand: it is asked for by arguments before any that begins with
// a dash, such as config docs.
type command struct {
	name    string // its words, parted by one space
	args    string // what may follow, as the help shows it
	summary string // what it does, in one line of the help; empty: the help does not show it
	// run does it and returns the exit status. args are those after the name; for
	// wrong ones it says on stderr what is wrong, and returns 2.
	run func(ctx context.Context, in invocation, args []string) int
}

// commands are all subcommands, in the order of the help.
func commands() []command {
	return []command{
		{name: "config docs", summary: "print the reference of the configuration, as Markdown", run: configDocs},
		{name: "config schema", summary: "print the configuration's JSON Schema, for editors", run: configSchema},
		{name: "help", summary: "print this text", run: help},
		{name: "priorities", args: "-restore [-config FILE]", summary: "put back priorities of the backend's processes that a killed proxy left behind", run: restorePriorities},
		{name: "setup", args: "[-write | -undo]", summary: setup.Summary, run: setUp},
		{name: demo.SiteCommand, run: demoSiteProcess},
		{name: startCommand, run: startSuccessor},
	}
}

// findCommand finds the command that the arguments begin with, and the arguments that
// are left for it. It is nil if there is none.
func findCommand(all []command, args []string) (*command, []string) {
	for _, c := range all {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return &c, args[len(words):]
		}
	}
	return nil, args
}

// unknownCommand tells which commands there are: those of the group that args begin
// with, or all.
func unknownCommand(all []command, args []string, stderr io.Writer) int {
	var names, group []string
	for _, c := range all {
		if c.summary == "" {
			continue
		}
		names = append(names, c.name)
		if strings.HasPrefix(c.name, args[0]+" ") {
			group = append(group, c.name)
		}
	}
	given := args[0]
	if len(group) > 0 {
		names = group
		if len(args) > 1 {
			given += " " + args[1]
		}
	}
	fmt.Fprintf(stderr, "tempomat-proxy: unknown command %q; there are: %s. \"tempomat-proxy help\" tells more\n",
		given, strings.Join(names, ", "))
	return 2
}

// noArguments is true if there are none, and else says that there may be none.
func noArguments(name string, args []string, stderr io.Writer) bool {
	if len(args) == 0 {
		return true
	}
	fmt.Fprintf(stderr, "tempomat-proxy: %s takes no arguments; %q is one\n", name, args[0])
	return false
}

func help(_ context.Context, in invocation, args []string) int {
	if !noArguments("help", args, in.stderr) {
		return 2
	}
	flags, _ := newFlags(in.stdout)
	flags.Usage()
	return 0
}

func demoSiteProcess(ctx context.Context, in invocation, args []string) int {
	if !noArguments(demo.SiteCommand, args, in.stderr) {
		return 2
	}
	return daemon.Status(demo.ServeSite(ctx, in.stdin, in.stdout), in.stderr)
}

func configDocs(_ context.Context, in invocation, args []string) int {
	if !noArguments("config docs", args, in.stderr) {
		return 2
	}
	config.Reference(in.stdout)
	return 0
}

func configSchema(_ context.Context, in invocation, args []string) int {
	if !noArguments("config schema", args, in.stderr) {
		return 2
	}
	return daemon.Status(config.Schema(in.stdout), in.stderr)
}
