// Package setup puts tempomat-proxy in front of a machine's Apache, and can undo this change. It is the command
// "tempomat-proxy setup".
//
// # What it does
//
// Gather describes the machine, Decide converts the description to a Plan, Show prints the plan, and -write carries
// it out. Only the first and the last of these access the machine. Decide is a pure function, so tests of it need no
// machine.
//
// Apache, in Debian's layout, moves from the public port to a port on the loopback interface, and
// tempomat-proxy takes the public port. setup replaces only the lines about listening, in place, so the
// changes are easy to review, and other programs still find the files in their usual form. A new file makes
// Apache use the clients' addresses.
//
// The port is removed from Apache's sites (<VirtualHost *:80> becomes <VirtualHost *>). Otherwise Apache
// would write the port on the loopback interface into its redirects.
//
// # TLS
//
// If there are sites with TLS, tempomat-proxy terminates TLS with the certificate files that Apache's
// configuration names, and connects to Apache by TLS again. There are two alternatives, which are worse on a
// machine that no administrator watches:
//
//   - Apache could terminate TLS and send requests to tempomat-proxy, which sends them back to Apache. But each
//     waiting request would then hold one of Apache's workers, and many waiting requests would hold all of
//     them. tempomat-proxy is meant to prevent exactly this failure.
//   - tempomat-proxy could connect to Apache without TLS, and name the scheme in a header. But every check for
//     TLS would then fail, such as "RewriteCond %{HTTPS} off" in an .htaccess file, or $_SERVER['HTTPS'] in
//     PHP. Each of these checks could cause a redirect loop, and setup can't find all of them. With TLS on the
//     loopback interface, nothing changes for the site. The connections are kept open, so TLS costs little.
//
// If there are sites with TLS, Apache keeps the port for plain requests. On this port, it usually only redirects to
// https, and serves Debian's 000-default. setup lists the sites whose pages bypass the proxy on this port. certbot's
// methods of renewal (apache, webroot) need the web server on port 80, and work as before. The proxy isn't root, and
// reads the keys with its group's permissions. When certbot renews a key, it keeps the group and mode.
//
// # All or nothing
//
// Before the first change, setup writes a journal to /etc/tempomat/setup.json. It contains all previous
// texts, modes and links. setup uses it to undo everything if a step fails, if Apache's own check or
// tempomat-proxy -check fails, or if a site answers differently after the changes. -undo does the same later, even
// after a crash. If a file has been edited since then, -undo only reverts setup's own lines, which it finds by the
// lines around them. It reports lines that it can't restore, and restores the rest.
//
// Apache is reloaded, not restarted, and the proxy is asked to end, so requests in progress finish. While
// one server takes over the port from the other, no program listens on it for a moment. -undo switches the servers
// last, and only if Apache's check succeeds and Apache would listen on the port. Otherwise the proxy
// continues to serve.
//
// Without systemd, -write changes the files and prints the commands that switch to the proxy. -undo switches back
// without such commands, and ends the proxy that listens on the port. To add a site later, undo setup and run it
// again, or write the site without a port (<VirtualHost *>). -undo also adds the public port to such
// sites.
//
// If setup finds an obstacle, it changes nothing. An Obstacle says what setup can't handle, why it can't, and what to
// do instead.
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
	// IsDefault reports whether a configuration file of tempomat sets only default values.
	IsDefault func(file string) bool
	IsRoot    bool
}

// Summary describes the command in the help.
const Summary = "Show the changes that put the proxy in front of this machine's web server; -write makes them, -undo reverts them"

// Do shows the changes that setup would make, makes them, or undoes them. It returns an error if it can't do what was
// requested.
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
		return errors.New("nothing was changed, for the reasons above")
	case !write:
		fmt.Fprintln(stdout, "\nNothing has been changed yet. To make these changes: tempomat-proxy setup -write")
		return nil
	}
	fmt.Fprintln(stdout, "\nMaking the changes:")
	if err := w.apply(ctx, p); err != nil {
		return err
	}
	if !m.Systemd {
		fmt.Fprintf(stdout, "The files are changed and valid. Without systemd, you must switch over yourself. Run these commands as root, all at once, because\nno program listens on the site's port in between:\n\n%s\n", byHandStart(p))
	} else {
		fmt.Fprintln(stdout, "Done: the site is served through tempomat-proxy, which only observes. To see which clients use the CPU: tempomat-doctor top")
	}
	return nil
}

// byHandStart returns the commands that switch to the proxy on a machine without systemd. They use the same
// user, directories, capability and restarts as the unit.
func byHandStart(p Plan) string {
	return indent("install -d -o " + proxyGroup + " -g " + proxyGroup + " -m 750 /var/lib/tempomat && install -d -o " + proxyGroup + " -g " + proxyGroup + " /run/tempomat\n" +
		strings.Join(byHandReload(p.Server), " ") + "\n" +
		"setsid sh -c 'until setpriv --reuid=" + proxyGroup + " --regid=" + proxyGroup + " --init-groups --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \\\n" +
		"    " + unitName + " -config " + p.Config + "; do sleep 0.2; done' </dev/null >>/var/log/" + unitName + ".log 2>&1 &")
}

// takeBack undoes the changes in the journal.
func (w *worker) takeBack(ctx context.Context) error {
	j, err := loadJournal(journalFile(w.place))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(w.out, "Nothing to undo: setup has changed nothing on this machine.")
		return nil
	}
	if err != nil {
		return err
	}
	j.Systemd = j.Systemd && exists(systemdRuns(w.place)) // setup may now be running in a chroot
	fmt.Fprintln(w.out, "Undoing:")
	if err := w.undo(ctx, j); err != nil {
		return fmt.Errorf("%w\nNothing was switched over, so the site is served as before. Correct this, and run setup -undo again", err)
	}
	port := j.public()
	runs := slices.ContainsFunc(w.sockets(port), func(s host.Listening) bool { return s.Program == j.Server })
	if !runs && !j.Systemd {
		fmt.Fprintf(w.out, "Done: all files are restored. %s is not running; when it starts, it will listen on port %d.\n", j.Server, port)
	} else {
		fmt.Fprintf(w.out, "Done: all changes are undone, and %s serves port %d.\n", j.Server, port)
	}
	return nil
}

// closeSocket makes systemd close the port if systemd itself listens on it for the proxy. Otherwise the web
// server couldn't use the port.
func (w *worker) closeSocket(ctx context.Context) error {
	for _, is := range []string{"is-active", "is-enabled"} {
		if _, err := w.run.Run(ctx, "systemctl", "--quiet", is, unitName+".socket"); err == nil {
			return w.command("systemctl", "disable", "--now", unitName+".socket").do(ctx)
		}
	}
	return nil
}

// OnThisMachine returns the command for this machine.
func OnThisMachine(isDefault func(file string) bool) Command {
	return Command{Place: Standard(), Run: Local{}, IsDefault: isDefault, IsRoot: os.Geteuid() == 0}
}
