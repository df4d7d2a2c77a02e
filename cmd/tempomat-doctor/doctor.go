package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/config"
)

// The exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

// doctor is what all subcommands share.
type doctor struct {
	stdout, stderr io.Writer
	env            []string
	socket         string // the flag; "" if it was not given
	understood     bool   // the command line was: what fails now is no usage error
}

// tree is all commands.
func (d *doctor) tree() *cobra.Command {
	root := d.tables()
	root.AddCommand(d.top(), d.explain(), d.forgive(), d.pin(), d.pins(), d.status(), d.reload(),
		d.replay(), d.report(), d.robots(), d.master(), d.man())
	root.PersistentFlags().StringVar(&d.socket, "socket", "",
		"the admin `socket` (default $"+listenVariable+", or "+config.Default().Admin.Listen+
			"; of a master "+config.DefaultMaster().Admin.Listen+")")
	// The original's word and ours mean the same.
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "class" {
			name = "bucket"
		}
		return pflag.NormalizedName(name)
	})
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRun = func(*cobra.Command, []string) { d.understood = true }
	return root
}

// goneCommand names what to use in place of a command that there was; nil: it is none.
func goneCommand(name string) error {
	use := map[string]string{
		"queue": "tempomat-doctor top --once --pane queue",
		"gate":  "tempomat-doctor top --once --pane gate, and for costs and the kernel's help tempomat-doctor status",
		"key":   "tempomat-doctor explain CLASS KEY",
		"share": "tempomat-doctor status",
		"check": "tempomat-proxy -check -config FILE",
	}[name]
	if use == "" {
		return nil
	}
	return fmt.Errorf("the command %s is gone; use %s", name, use)
}

// run does what args say and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env []string) int {
	d := &doctor{stdout: stdout, stderr: stderr, env: env}
	root := d.tree()
	root.SetArgs(withTwoDashes(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	err := d.execute(ctx, root, args)
	switch {
	case err == nil:
		return 0
	case d.understood:
		fmt.Fprintf(stderr, "tempomat-doctor: %s\n", harmless.Lines(err.Error()))
		return exitFailed
	default:
		fmt.Fprintf(stderr, "tempomat-doctor: %s\nSee tempomat-doctor --help.\n", harmless.Lines(err.Error()))
		return exitUsage
	}
}

// execute does what args say. What shells ask to complete a word is answered with as many
// dashes as the word has.
func (d *doctor) execute(ctx context.Context, root *cobra.Command, args []string) error {
	if !completing(args) {
		return root.ExecuteContext(ctx)
	}
	var suggestions bytes.Buffer
	root.SetOut(&suggestions)
	err := root.ExecuteContext(ctx)
	_, write := d.stdout.Write(oneDash(args, suggestions.Bytes()))
	return errors.Join(err, write)
}

// withTwoDashes lets flags begin with one dash, as the original's did:
// -bucket=Slash24. There are no flags of one letter but -h and -v.
func withTwoDashes(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}

// variable returns an environment variable, "" if there is none.
func variable(env []string, name string) string {
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
