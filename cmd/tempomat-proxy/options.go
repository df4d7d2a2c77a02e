package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

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
	file                         string
	check, replace, demo, attack bool
	verbose, version             bool
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
	flags.BoolVar(&o.replace, "replace", false, "take over from the process that runs with the same configuration and refuse\nnobody meanwhile; if none runs, just start")
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
	case o.replace && (o.check || o.demo || o.attack):
		fmt.Fprintln(stderr, "tempomat-proxy: -replace goes with -config only")
		return nil, 2, true
	}
	return o, 0, false
}
