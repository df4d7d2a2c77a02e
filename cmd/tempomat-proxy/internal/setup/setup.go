// Package setup puts tempomat-proxy in front of a machine's web server, and undoes that:
// "tempomat-proxy setup".
//
// # What it does
//
// Gather describes the machine, Decide turns that into a Plan, Show prints it, and -write
// carries it out. Only Gather and carrying out touch the machine; decisions are pure functions,
// tested by tables.
//
// The web server (Apache or nginx, in Debian's layout) moves from the public port to one on the
// loopback, and tempomat-proxy takes the public port. Only the lines about listening are
// replaced, in place, so a person can read the changes and other programs still find the files
// in their usual form. One new file lets the server see the clients' addresses.
//
// Apache's sites lose their port (<VirtualHost *:80> becomes <VirtualHost *>), because Apache
// would otherwise write the loopback's port into its own redirects; for the same reason nginx
// gets port_in_redirect off.
//
// # TLS
//
// If there are sites with TLS, tempomat-proxy ends it, with the certificate files that the
// server's configuration names, and asks the server over TLS again, on the loopback. The two
// other ways are worse for an unattended machine:
//
//   - The server ends TLS and sends requests to tempomat-proxy, which sends them back to it.
//     With Apache each waiting request then holds one of Apache's workers, and many waiting
//     requests take all of them: pages that may run find none. That is the failure that
//     tempomat-proxy prevents.
//   - tempomat-proxy asks the server without TLS, and names the scheme in a header. Then every
//     check for TLS finds none: "RewriteCond %{HTTPS} off" in an .htaccess, fastcgi_param
//     HTTPS, $scheme. Each of these then redirects in a circle, and setup sees only some of
//     them. Over TLS the site sees what it saw before; on the loopback, and with connections
//     kept, that costs little.
//
// The port for plain requests stays with the server then. Mostly nothing but redirects to https is
// served there, and Debian's 000-default; setup names sites whose pages go past the proxy that way. So
// certbot's own ways to renew (apache, nginx, webroot) work as before: they need the server on port 80.
// The proxy is not root, and reads the keys by its group; certbot keeps group and mode of a key when it
// renews.
//
// # All or nothing
//
// A journal with all former texts, modes and links is written before the first change
// (/etc/tempomat/setup.json). If a step fails, if the server's own check or tempomat-proxy
// -check fails, or if a site then answers differently, everything is undone by the journal;
// -undo does the same later, also after a crash. Files that were edited since lose only setup's
// own lines, which are found by their surroundings. What can't be restored is named, and the
// rest is done.
//
// The servers are reloaded, not restarted, and the proxy is only asked to end: so requests
// under way finish, and the port has no listener for as long as one of them needs to take it
// over. -undo does that last, and only once the server's check has passed and the server
// would listen on the port; until then, and otherwise, the proxy serves on.
//
// Without systemd the files are changed and the commands for switching over are printed; -undo switches over
// itself, and ends the proxy that listens on the port. For sites that are added later, undo setup and run it
// again, or write them for the address on the loopback: -undo gives these the public port as well.
//
// setup does not touch what it does not understand: an Obstacle says what, why, and what to do
// instead.
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
	// IsDefault reports whether a configuration of tempomat changes no default.
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
