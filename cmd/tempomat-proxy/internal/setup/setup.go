// Package setup puts tempomat-proxy before the web server of a machine, and takes that
// back: "tempomat-proxy setup".
//
// # What it does
//
// Gather describes the machine, Decide makes of that a Plan, Show prints it, and with
// -write it is carried out. Only Gather, and carrying out, touch the machine; what is
// decided, is decided by pure functions, which tables test.
//
// The web server (Apache or nginx, in Debian's layout) leaves the port where the public
// asks for one on the loopback, and tempomat-proxy takes it. The lines of listening are
// exchanged and nothing else, in place, so that a person can read what was done and
// other programs still find the files as they know them. One new file lets the server
// see the clients' addresses.
//
// Apache's sites lose their port (<VirtualHost *:80> becomes <VirtualHost *>), as Apache
// would write the port of the loopback into its own redirects otherwise; nginx is told
// port_in_redirect off, for the same reason.
//
// # TLS
//
// If there are sites with TLS, tempomat-proxy ends it, with the certificate files that
// the server's configuration names, and asks the server over TLS again, on the loopback.
// The two other ways are worse for a machine that nobody watches:
//
//   - The server ends TLS and sends requests to tempomat-proxy, which sends them back to
//     it. With Apache each request that waits then holds one of Apache's workers, and a
//     crowd that waits takes all of them: the pages that are to run find none. That is
//     the failure which tempomat-proxy is there for.
//   - tempomat-proxy asks the server without TLS, and names the scheme in a header. Then
//     everything that looks whether TLS is there finds none: "RewriteCond %{HTTPS} off" in
//     an .htaccess, fastcgi_param HTTPS, $scheme. Each is a redirect in a circle, and
//     setup sees only some of them. Over TLS the site sees what it saw before; on the
//     loopback, and with connections kept, that costs little.
//
// The port for plain requests stays with the server then. Mostly nothing but redirects to
// https is served there, and Debian's 000-default; setup names sites whose pages go past the
// proxy that way. So certbot's own ways to renew (apache, nginx, webroot) go on as before: they need the
// server on port 80. The proxy is not root, and reads the keys by its group; certbot keeps
// group and mode of a key when it renews.
//
// # All or nothing
//
// A journal with all former texts, modes and links is written before the first change
// (/etc/tempomat/setup.json). If a step fails, if the server's own check, or
// tempomat-proxy -check, says no, or if a site does not answer afterwards as it did
// before, everything is taken back by the journal; -undo does the same later, also after
// a crash. Files that were edited since lose only setup's own lines, which are found by what
// stands around them. What cannot be put back is named, and the rest is done.
//
// The servers are reloaded, not restarted, and the proxy is only asked to end: so requests
// under way finish, and the port has no listener for as long as one of them needs to take it
// over. -undo does that last, and only once the server's check has passed and the server
// would listen on the port; until then, and otherwise, the proxy serves on.
//
// Without systemd the files are changed and the commands for switching over are printed; -undo switches over
// itself, and ends the proxy that listens on the port. For sites that are added later, setup is taken back and
// done again, or they are written for the address on the loopback: -undo gives these the public port as well.
//
// What setup does not understand it does not touch: an Obstacle says what, why, and what
// to do instead.
package setup

import (
	"context"
	"errors"
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
	// IsDefault tells whether a configuration of tempomat changes no default.
	IsDefault func(file string) bool
	IsRoot    bool
}

// Summary is the command in one line of a help.
const Summary = "Show the changes that put the proxy in front of this machine's web server; -write makes them, -undo reverts them"

// Do shows what it would change, makes the changes, or takes them back. It is an error if it could
// not do what was asked for.
func (c Command) Do(ctx context.Context, write, undo bool, stdout io.Writer) error {
	if (write || undo) && !c.IsRoot {
		return errors.New("only root may change this machine's configuration. Run setup without -write to see the changes")
	}
	w := &worker{place: c.Place, run: c.Run, ask: probe, sockets: host.Listeners, out: stdout}
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
		fmt.Fprintln(stdout, "\nNothing is changed yet. To make these changes: tempomat-proxy setup -write")
		return nil
	}
	fmt.Fprintln(stdout, "\nDoing it:")
	if err := w.apply(ctx, p); err != nil {
		return err
	}
	if !m.Systemd {
		fmt.Fprintf(stdout, "The files are changed and valid. Without systemd, switch over yourself. Run this as root, all at once, because no program\nlistens on the site's port in between:\n\n%s\n", byHandStart(p))
	} else {
		fmt.Fprintln(stdout, "Done: the site is served through tempomat-proxy, which only observes. To see which clients use the CPU: tempomat-doctor top")
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
		fmt.Fprintln(w.out, "Nothing to undo: setup changed nothing here.")
		return nil
	}
	if err != nil {
		return err
	}
	j.Systemd = j.Systemd && exists(systemdRuns(w.place)) // it may be a chroot now
	fmt.Fprintln(w.out, "Undoing:")
	if err := w.undo(ctx, j); err != nil {
		return fmt.Errorf("%w\nNothing was switched over, so the site is served as before. Correct this, and run setup -undo again", err)
	}
	port := j.public()
	runs := slices.ContainsFunc(w.sockets(port), func(s host.Listening) bool { return s.Program == j.Server })
	if !runs && !j.Systemd {
		fmt.Fprintf(w.out, "Done: all files are as they were. %s does not run; when it is started it listens on port %d.\n", j.Server, port)
	} else {
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
	return Command{Place: Standard(), Run: Local{}, IsDefault: isDefault, IsRoot: os.Geteuid() == 0}
}
