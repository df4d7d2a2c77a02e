package setup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tempomat/proxy/host"
)

// worker carries out a plan, or takes it back.
type worker struct {
	place Place
	run   Runner
	ask   func(ctx context.Context, p Probe) (status int, err error)
	// sockets lists what listens on this machine, or only on some ports.
	sockets func(ports ...int) []host.Listening
	out     io.Writer // says what it does
}

// step is one thing to do. Whatever fails, all that was done is taken back.
type step struct {
	name string
	do   func(ctx context.Context) error
}

// apply does what a plan says, all of it or nothing. If something fails it takes back
// what was done, and its error tells both.
func (w *worker) apply(ctx context.Context, p Plan) error {
	for _, c := range p.Changes {
		if err := ready(c); err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
	}
	return w.carryOut(ctx, &p.journal, w.steps(&p.journal))
}

func (w *worker) carryOut(ctx context.Context, j *journal, steps []step) error {
	for _, s := range steps {
		fmt.Fprintln(w.out, "  "+s.name)
		if err := s.do(ctx); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			fmt.Fprintf(w.out, "%v\nUndoing everything:\n", err)
			// Begun work is undone also after an interrupt.
			if back := w.undo(context.WithoutCancel(ctx), j); back != nil {
				return errors.Join(err, fmt.Errorf("and taking it back failed; \"tempomat-proxy setup -undo\" tries again: %w", back))
			}
			return fmt.Errorf("%w; everything is as it was", err)
		}
	}
	return nil
}

// steps are all of a plan: first the files, then the checks, and only then what
// people notice.
func (w *worker) steps(j *journal) (steps []step) {
	file := journalFile(w.place)
	before := map[Probe]int{}
	steps = append(steps, step{"writing " + file + ", for -undo", func(ctx context.Context) error {
		for _, p := range j.Probes {
			before[p], _ = w.ask(ctx, p) // 0: there is no answer today either
		}
		return w.begin(j)
	}})
	for _, c := range j.Changes {
		steps = append(steps, step{"changing " + c.Path, func(context.Context) error { return put(c) }})
	}
	for _, c := range j.checks() {
		steps = append(steps, w.command(c...))
	}
	for _, c := range j.switching() {
		steps = append(steps, w.command(c...))
		if c[1] == reload {
			steps = append(steps, step{"waiting until " + j.Server + " has left the port", func(ctx context.Context) error {
				return w.until(ctx, j.Server+" listens there still", func() bool {
					return !slices.ContainsFunc(w.sockets(j.ports()...), func(s host.Listening) bool { return s.Program == j.Server })
				})
			}})
		}
	}
	if !j.Systemd {
		return steps
	}
	for _, p := range j.Probes {
		steps = append(steps, step{fmt.Sprintf("asking port %d for %s", p.Port, p.Host), func(ctx context.Context) error {
			return w.sameAnswer(ctx, p, before[p])
		}})
	}
	return steps
}

// reload has systemd reload a server, whose requests go on in the meantime, or start it.
const reload = "reload-or-restart"

// reloadByHand reloads a server that runs without systemd.
func (w *worker) reloadByHand(server string) []step {
	if !slices.ContainsFunc(w.sockets(), func(s host.Listening) bool { return s.Program == server }) {
		return nil
	}
	return []step{w.command(byHandReload(server)...)}
}

// byHandReload is the command that has a server read its configuration again and lets its
// requests end.
func byHandReload(server string) []string {
	if server == "nginx" {
		return []string{"nginx", "-s", "reload"}
	}
	return []string{"apache2ctl", "graceful"}
}

// until waits for something as long as patience lasts. otherwise says what is wrong then.
func (w *worker) until(ctx context.Context, otherwise string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return errors.New(otherwise)
		case <-time.After(2 * time.Millisecond): // until then, connections may be refused
		}
	}
	return nil
}

// begin makes the directories that are missing, and writes the journal.
func (w *worker) begin(j *journal) error {
	file := journalFile(w.place)
	for _, name := range append([]string{file}, paths(j.Changes)...) {
		for _, dir := range missingDirectories(name) {
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as the rest of /etc: the proxy, which is not root, reads there
				return err
			}
			j.Directories = append(j.Directories, dir)
		}
	}
	return j.save(file)
}

func paths(changes []Change) (list []string) {
	for _, c := range changes {
		list = append(list, c.Path)
	}
	return list
}

func (w *worker) command(argv ...string) step {
	return step{strings.Join(argv, " "), func(ctx context.Context) error {
		if text, err := w.run.Run(ctx, argv...); err != nil {
			return errors.New(lastLines(text, err))
		}
		return nil
	}}
}

// patience is how long the site may take to answer after all was started again.
const patience = 20 * time.Second

// sameAnswer waits until a site answers as it did before. A site that did not answer
// then only has to answer.
func (w *worker) sameAnswer(ctx context.Context, p Probe, before int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var status int
	var err error
	for {
		status, err = w.ask(ctx, p)
		if err == nil && (status == before || before == 0 && status < 500) {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("no answer: %w", err)
			}
			return fmt.Errorf("it answers %d, and before %d", status, before)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// undo reverts the changes of a journal, made or not. It names what can't be reverted, and goes
// on. The running servers switch over last, and only if the web server can serve then;
// otherwise the site is served as before.
func (w *worker) undo(ctx context.Context, j *journal) error {
	steps := w.restoring(j, j.serverFile)
	steps = append(steps, step{"looking for sites that came since", func(ctx context.Context) error { return w.adopt(ctx, j) }})
	// The proxy's own files go once it is sure that it will not be needed: it may be restarted.
	ready := len(steps) + 1
	steps = slices.Concat(steps, []step{w.command(j.Check...)}, w.restoring(j, func(c Change) bool { return !j.serverFile(c) }), w.switchBack(j))
	var errs []error
	for i, s := range steps {
		if i >= ready && len(errs) > 0 {
			break
		}
		fmt.Fprintln(w.out, "  "+s.name)
		if err := s.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return w.forget(j)
}

// restoring takes back those of the changes that are meant, the last one first.
func (w *worker) restoring(j *journal, meant func(Change) bool) (steps []step) {
	for _, c := range slices.Backward(j.Changes) {
		if meant(c) {
			steps = append(steps, step{"restoring " + c.Path, func(context.Context) error {
				told, err := restore(c)
				for _, line := range told {
					fmt.Fprintln(w.out, "    "+line)
				}
				return err
			}})
		}
	}
	return steps
}

// switchBack has the proxy leave the port and the web server take it, in as short a time as
// they can. The requests that the proxy has come to their end in the meantime.
func (w *worker) switchBack(j *journal) (steps []step) {
	if !j.Systemd {
		return append([]step{w.leave(j, w.run.Terminate)}, w.reloadByHand(j.Server)...)
	}
	if j.Reread {
		steps = append(steps, w.command("systemctl", "daemon-reload"))
	}
	if j.Before.Active {
		steps = append(steps, w.command("systemctl", "--no-block", "restart", unitName), w.leave(j, nil))
	} else {
		steps = append(steps, step{"ending " + unitName + ".socket, if it listens", w.closeSocket})
		if !j.Before.Enabled {
			steps = append(steps, w.command("systemctl", "disable", unitName))
		}
		steps = append(steps, step{interrupt, w.interrupt}, w.command("systemctl", "--no-block", "stop", unitName), w.leave(j, nil))
	}
	return append(steps, w.command("systemctl", reload, j.Server))
}

// interrupt is a signal on which the proxy has systemd keep none of its sockets. At a stop
// systemd keeps them until requests have finished.
const interrupt = "systemctl kill --kill-who=main --signal=INT " + unitName

func (w *worker) interrupt(ctx context.Context) error {
	_, _ = w.run.Run(ctx, strings.Fields(interrupt)...) // it may not run
	return nil
}

// leave waits until the proxy has left the public's ports. end, if there is one, is asked to
// end each process that has one.
func (w *worker) leave(j *journal, end func(pid int) error) step {
	return step{"waiting until " + unitName + " has left the port", func(ctx context.Context) error {
		var ended []int
		return w.until(ctx, "another program than "+j.Server+" listens there still; end it, and run setup -undo again", func() bool {
			there := 0
			for _, s := range w.sockets(j.ports()...) {
				if s.Program == j.Server {
					continue
				}
				there++
				if s.Program == unitName && end != nil && !slices.Contains(ended, s.Process) {
					fmt.Fprintf(w.out, "    ending process %d, %s\n", s.Process, unitName)
					_ = end(s.Process) // that it goes on is seen
					ended = append(ended, s.Process)
				}
			}
			return there == 0
		})
	}}
}

// forget removes the journal, and the directories that setup made, if they are empty.
func (w *worker) forget(j *journal) error {
	if err := remove(journalFile(w.place)); err != nil {
		return err
	}
	for _, dir := range slices.Backward(j.Directories) {
		_ = os.Remove(dir) // another program's file may be there
	}
	return nil
}

// Local starts this machine's own programs.
type Local struct{}

// Run implements Runner.
func (Local) Run(ctx context.Context, argv ...string) (string, error) {
	text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // the commands of this package
	return string(text), err
}

// Terminate implements Runner.
func (Local) Terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// probe asks a site of this machine for its first page, and returns the status of the answer. The
// certificate is not looked at: it is the site's own affair.
func probe(ctx context.Context, p Probe) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	scheme := "http"
	if p.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s/", scheme, p.Host), nil)
	if err != nil {
		return 0, err
	}
	t := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)))
		},
	}
	defer t.CloseIdleConnections()
	res, err := t.RoundTrip(req) // follows no redirect
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
