// Command tempomat-proxy is a sidecar: a reverse proxy before one backend that
// charges each request what it costs, and lets nobody take more than their
// share of the server.
//
// Usage:
//
//	tempomat-proxy [-config FILE]          run
//	tempomat-proxy -check [-v] [-config FILE]
//	                                       read the configuration and say what it means
//	tempomat-proxy -demo                   run before a backend of its own
//	tempomat-proxy -demo-attack            show what the gate does against a crawler
//	tempomat-proxy -version
//	tempomat-proxy help                    print all options and commands
//
// A first argument without a dash is a command; commands() has them all.
// SIGHUP reads the configuration again, SIGUSR2 has a new process take this one's place,
// SIGTERM and SIGINT finish what is under way; with SIGINT systemd keeps no
// socket over that.
// The exit status is 0 after a signal or a sound configuration, 1 after a
// failure, 2 for a wrong command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-proxy/internal/demo"
	"tempomat/cmd/tempomat-proxy/internal/setup"
	"tempomat/config"
	"tempomat/proxy/handover"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal does not wait for the drain
	status := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// The files that are looked for when none is named; the second is the original's.
const (
	usualFile    = "/etc/tempomat/tempomat.yaml"
	originalFile = "/etc/tempomat.json"
)

// run is the program. It returns the exit status.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		c, rest := findCommand(commands(), args)
		if c == nil {
			return unknownCommand(commands(), args, stderr)
		}
		return c.run(ctx, invocation{env: env, stdin: os.Stdin, stdout: stdout, stderr: stderr}, rest)
	}
	o, status, done := parseFlags(args, stderr)
	if done {
		return status
	}
	source := source{file: findFile(o.file), env: env}
	switch {
	case o.version:
		fmt.Fprintln(stdout, version)
		return 0
	case o.check:
		return daemon.Status(source.check(ctx, stdout, o.verbose), stderr)
	case o.attack:
		return daemon.Status(runDemoAttack(ctx, source, demo.Times{Settle: 6 * time.Second, Measure: 16 * time.Second}, stdout, stderr), stderr)
	case o.demo:
		return daemon.Status(runDemo(ctx, source, stdout, stderr), stderr)
	}
	in, err := handover.Inherit()
	store := newFDStore()
	if in.From == nil {
		store.adopt(in.Sockets)
	}
	var cfg *config.Config
	if err == nil {
		cfg, err = source.load()
	}
	if err != nil {
		in.Close()
		store.giveUp()
		return daemon.Status(withNextStep(err), stderr)
	}
	replaced, err := serve(ctx, cfg, source, in, store, stderr)
	if status := daemon.Status(err, stderr); !replaced || os.Getpid() != 1 {
		return status
	}
	return outlive()
}

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

// printUsage prints what the program can be asked for.
func printUsage(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprint(w, "usage: tempomat-proxy [options]\n       tempomat-proxy command\n\ncommands\n")
	for _, c := range commands() {
		if c.summary != "" {
			fmt.Fprintf(w, "  %s\n    \t%s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
		}
	}
	fmt.Fprintln(w, "\noptions, without a command")
	flags.PrintDefaults()
}

// options are what the flags ask for.
type options struct {
	file                string
	check, demo, attack bool
	verbose, version    bool
}

// newFlags makes the flags of the program without a command.
func newFlags(output io.Writer) (*flag.FlagSet, *options) {
	o := &options{}
	flags := flag.NewFlagSet("tempomat-proxy", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() { printUsage(flags.Output(), flags) }
	flags.StringVar(&o.file, "config", "", "configuration `file` (default "+usualFile+", else "+originalFile+", else none)")
	flags.BoolVar(&o.check, "check", false, "read the configuration, say in short what it means, and do nothing else")
	flags.BoolVar(&o.verbose, "v", false, "with -check: tell every key, and what each class may use")
	flags.BoolVar(&o.demo, "demo", false, "run before a demo backend of its own")
	flags.BoolVar(&o.attack, "demo-attack", false, "show what a crawler does to a demo site without the gate, and with it")
	flags.BoolVar(&o.version, "version", false, "print the version")
	return flags, o
}

// parseFlags reads the flags. If it is done with them, the status is what the program
// ends with.
func parseFlags(args []string, stderr io.Writer) (o *options, status int, done bool) {
	flags, o := newFlags(stderr)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0, true
	case err != nil:
		return nil, 2, true
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "tempomat-proxy: unexpected argument %q", flags.Arg(0))
		if c, _ := findCommand(commands(), flags.Args()); c != nil {
			fmt.Fprint(stderr, "; a command stands before all options")
		}
		fmt.Fprintln(stderr)
		return nil, 2, true
	case o.verbose && !o.check:
		fmt.Fprintln(stderr, "tempomat-proxy: -v goes with -check only; -version prints the version")
		return nil, 2, true
	}
	return o, 0, false
}

// setUp puts the proxy before the web server of this machine.
func setUp(ctx context.Context, in invocation, args []string) int {
	return setup.OnThisMachine(changesNothing).Main(ctx, args, in.stdout, in.stderr)
}

// changesNothing tells whether a configuration leaves everything at its default, as
// the one that the package brings.
func changesNothing(file string) bool {
	c, err := config.Load(file, nil)
	if err != nil {
		return false
	}
	defaults, err := config.Parse(nil, "defaults", nil)
	return err == nil && reflect.DeepEqual(c, defaults)
}
