// Command tempomat-doctor shows which clients of tempomat-proxy wait, use the CPUs or are in debt. It uses the admin
// APIs of the proxy and of tempomat-master.
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
	context.AfterFunc(ctx, stop) // a second signal ends the program even while it reads from a pipe
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Environ())
	stop()
	os.Exit(code)
}

// doctor is the state that all commands share.
type doctor struct {
	out            bytes.Buffer // printed only if the command succeeds
	stdout, stderr io.Writer
	env            []string
	sockets        []string // value of the flag
	token          string   // value of the flag
	wholeFleet     bool     // value of the flag
	asked          *fleet   // the instances; nil until they are looked up
}

// run runs the command in args and returns the exit status.
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

// harmless escapes messages before it writes them, because the program at the other end of the socket may
// send anything.
type harmless struct{ io.Writer }

func (h harmless) Write(message []byte) (int, error) {
	_, err := io.WriteString(h.Writer, view.Lines(string(message)))
	return len(message), err
}

// tree returns the root command with all others below it.
func (d *doctor) tree() *cobra.Command {
	root := d.tables()
	root.AddCommand(d.top(), d.explain(), d.forgive(), d.pin(), d.status(), d.reload(), d.report(), d.dashboard(), d.master())
	f := root.PersistentFlags()
	f.StringSliceVar(&d.sockets, "socket", nil, "the admin `socket`, or the URL of admin.web; repeat the flag to ask several instances (default $"+
		listenVariable+", or "+config.Default().Admin.Listen+"; for a master "+config.DefaultMaster().Admin.Listen+")")
	f.BoolVar(&d.wholeFleet, "fleet", false, "ask all instances that share accounts with this one (needs coordination.secret and admin.web)")
	f.StringVar(&d.token, "token", "", "the `file` with the token that admin.web asks for (default "+usualFile+")")
	// --class is another name of --bucket, the original's flag.
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "class" {
			name = "bucket"
		}
		return pflag.NormalizedName(name)
	})
	return root
}

// asJSON adds the flag --json, which prints the document of the admin API.
func asJSON(c *cobra.Command, p *bool) {
	c.Flags().BoolVar(p, "json", false, "print the admin API's JSON document")
}

// answer requests a document. It either prints the document unchanged, or decodes it into reply and calls print.
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

// printDocuments prints the documents unchanged: a single one as it is, several as a list.
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
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	fmt.Fprintln(&d.out, daemon.PlainJSON(body))
	return nil
}

// variable returns the value of an environment variable, or "" if there is none.
func variable(env []string, name string) string {
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// complete gives the shell the values of a flag. It panics if there is no such flag, which tests would detect.
func complete(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}
