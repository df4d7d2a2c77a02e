// Tempomat-doctor shows what tempomat-proxy knows of its clients: which of them wait,
// which use the CPUs, which are in debt. It is the client of the proxy's admin API, and of
// tempomat-master's.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/config"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal does not wait for what is read from a pipe
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Environ())
	stop()
	os.Exit(code)
}

// doctor is what all commands share.
type doctor struct {
	out            bytes.Buffer // printed when the command has succeeded
	stdout, stderr io.Writer
	env            []string
	sockets        []string // the flag
	token          string   // the flag
	wholeFleet     bool     // the flag
	asked          *fleet   // nil: none is
}

// run does what args say and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env []string) int {
	d := &doctor{stdout: stdout, stderr: stderr, env: env}
	err := daemon.Execute(ctx, d.tree(), args, &d.out, stderr)
	if err == nil {
		_, err = d.out.WriteTo(stdout)
		err = errors.Join(err, d.asked.missing())
	}
	if err != nil && !errors.As(err, new(daemon.UsageError)) {
		err = fmt.Errorf("tempomat-doctor: %w", err)
	}
	return daemon.Status(err, harmless{stderr})
}

// harmless writes messages on: what answers at a socket may say anything.
type harmless struct{ io.Writer }

func (h harmless) Write(message []byte) (int, error) {
	_, err := io.WriteString(h.Writer, view.Lines(string(message)))
	return len(message), err
}

// tree is all commands.
func (d *doctor) tree() *cobra.Command {
	root := d.tables()
	root.AddCommand(d.top(), d.explain(), d.forgive(), d.pin(), d.status(), d.reload(), d.replay(), d.report(), d.master())
	f := root.PersistentFlags()
	f.StringSliceVar(&d.sockets, "socket", nil, "the admin `socket`, or the URL of admin.web; several, to ask all of them (default $"+
		listenVariable+", or "+config.Default().Admin.Listen+"; of a master "+config.DefaultMaster().Admin.Listen+")")
	f.BoolVar(&d.wholeFleet, "fleet", false, "ask all instances that this one shares with (needs coordination.secret and admin.web)")
	f.StringVar(&d.token, "token", "", "the `file` of the token that admin.web asks for (default "+usualFile+")")
	// The original's word and ours mean the same.
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "class" {
			name = "bucket"
		}
		return pflag.NormalizedName(name)
	})
	return root
}

// asJSON is the flag that has a command print what it got.
func asJSON(c *cobra.Command, p *bool) {
	c.Flags().BoolVar(p, "json", false, "print the admin API's JSON document")
}

// answer asks for a document and has it printed: as it came, or, once it is in reply, by print.
func (d *doctor) answer(ctx context.Context, of func(context.Context) (*fleet, error), path string, query url.Values, document bool, reply any, print func()) error {
	f, err := of(ctx)
	if err != nil {
		return err
	}
	if document {
		answers, err := f.ask(ctx, http.MethodGet, path, query, nil)
		if err != nil {
			return err
		}
		return d.printDocuments(f, answers)
	}
	if err := f.Get(ctx, path, query, reply); err != nil {
		return err
	}
	print()
	return nil
}

// printDocuments prints what came: of several instances a list.
func (d *doctor) printDocuments(f *fleet, answers []answer) error {
	if len(f.all) == 1 {
		fmt.Fprintln(&d.out, daemon.PlainJSON(answers[0].body))
		return nil
	}
	type of struct {
		Instance string          `json:"instance"`
		Answer   json.RawMessage `json:"answer"`
	}
	all := make([]of, len(answers))
	for i, a := range answers {
		all[i] = of{a.from.name, a.body}
	}
	return d.printJSON(all)
}

// printJSON prints a document of our own.
func (d *doctor) printJSON(document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return err
	}
	fmt.Fprintln(&d.out, daemon.PlainJSON(body))
	return nil
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

// complete has the shell know what a flag may be. The flag is there: otherwise the mistake is ours, and
// the tests find it.
func complete(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}
