package setup

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"tempomat/proxy/host"
)

// Command is "tempomat-proxy setup".
type Command struct {
	Place Place
	Run   Runner
	Ask   Prober
	// IsDefault tells whether a configuration of tempomat changes no default.
	IsDefault func(file string) bool
	IsRoot    bool
}

// Summary is the command in one line of a help.
const Summary = "look at this machine and show, or with -write make, what puts the proxy before its web server; -undo takes it back"

// Main runs the command and returns its exit status: 0 if it did what was asked for, or
// nothing was to do; 1 if it could not; 2 for a wrong command line.
func (c Command) Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tempomat-proxy setup", flag.ContinueOnError)
	flags.SetOutput(stderr)
	write := flags.Bool("write", false, "make the changes, all or none of them")
	undo := flags.Bool("undo", false, "take back what -write did")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "tempomat-proxy: setup takes no arguments; %q is one\n", flags.Arg(0))
		return 2
	case *write && *undo:
		fmt.Fprintln(stderr, "tempomat-proxy: setup takes -write or -undo, not both")
		return 2
	}
	err := c.act(ctx, *write, *undo, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "tempomat-proxy: setup:", err)
		return 1
	}
	return 0
}

func (c Command) act(ctx context.Context, write, undo bool, stdout io.Writer) error {
	if (write || undo) && !c.IsRoot {
		return errors.New("only root may change this machine's configuration; without -write it is only shown")
	}
	w := &worker{place: c.Place, run: c.Run, ask: c.Ask, sockets: host.Listeners, out: stdout}
	if undo {
		return w.takeBack(ctx)
	}
	m := Gather(ctx, c.Place, c.Run, c.IsDefault)
	p := Decide(m)
	Show(stdout, p)
	switch {
	case p.Done:
		return nil
	case len(p.Obstacles) > 0:
		return errors.New("nothing is changed, for the reasons above")
	case !write:
		fmt.Fprintln(stdout, "\nNothing is changed yet. tempomat-proxy setup -write does all that.")
		return nil
	}
	fmt.Fprintln(stdout, "\nDoing it:")
	if err := w.apply(ctx, p); err != nil {
		return err
	}
	switch {
	case m.Journal != nil:
		fmt.Fprintln(stdout, "Done: these sites are served through tempomat-proxy, too.")
	case !m.Systemd:
		fmt.Fprintf(stdout, "The files are changed and valid. Without systemd what runs is left to you: as root, and at once, since no program\nlistens on the site's port in between:\n\n%s\n", byHandStart(p))
	default:
		fmt.Fprintln(stdout, "Done: the site is served through tempomat-proxy, which only observes. Who costs what: tempomat-doctor top")
	}
	return nil
}

// byHandStart are the commands that switch over on a machine without systemd: with the user,
// the directories, the right and the restarts that the unit has.
func byHandStart(p Plan) string {
	return indent("install -d -o " + proxyGroup + " -g " + proxyGroup + " -m 750 /var/lib/tempomat && install -d -o " + proxyGroup + " -g " + proxyGroup + " /run/tempomat\n" +
		strings.Join(byHandReload(p.Server), " ") + "\n" +
		"setsid sh -c 'until setpriv --reuid=" + proxyGroup + " --regid=" + proxyGroup + " --init-groups --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \\\n" +
		"    " + unitName + " -config " + p.Config + "; do sleep 0.2; done' </dev/null >>/var/log/" + unitName + ".log 2>&1 &")
}

// takeBack undoes what the journal tells.
func (w *worker) takeBack(ctx context.Context) error {
	j, err := loadJournal(journalFile(w.place))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(w.out, "Nothing to take back: setup has changed nothing here.")
		return nil
	}
	if err != nil {
		return err
	}
	j.Systemd = j.Systemd && exists(systemdRuns(w.place)) // it may be a chroot now
	fmt.Fprintln(w.out, "Taking back:")
	if err := w.undo(ctx, j); err != nil {
		return fmt.Errorf("%w\nWhat runs was not switched over, so the site is served as before. Put that right, and run setup -undo again", err)
	}
	port, _ := j.public()
	switch running := w.sockets(port); {
	case !slices.ContainsFunc(running, func(s host.Listening) bool { return s.Program == j.Server }) && !j.Systemd:
		fmt.Fprintf(w.out, "Done: all files are as they were. %s does not run; when it is started it listens on port %d.\n", j.Server, port)
	default:
		fmt.Fprintf(w.out, "Done: everything is as it was, and %s serves port %d.\n", j.Server, port)
	}
	return nil
}

// closeSocket has systemd give up the port where it listens there for the proxy: the web
// server could not have it back otherwise.
func (w *worker) closeSocket(ctx context.Context) error {
	for _, is := range []string{"is-active", "is-enabled"} {
		if _, err := w.run.Run(ctx, "systemctl", "--quiet", is, unitName+".socket"); err == nil {
			return w.command("systemctl", "disable", "--now", unitName+".socket").do(ctx)
		}
	}
	return nil
}

// OnThisMachine is the command for the machine itself.
func OnThisMachine(isDefault func(file string) bool) Command {
	return Command{Place: Standard(), Run: Local{}, Ask: Local{}, IsDefault: isDefault, IsRoot: os.Geteuid() == 0}
}
