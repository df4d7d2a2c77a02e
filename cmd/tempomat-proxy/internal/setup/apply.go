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

// worker carries out a plan, or undoes it.
type worker struct {
	place Place
	run   Runner
	ask   func(ctx context.Context, p Probe) (status int, err error)
	// sockets returns the sockets that listen on this machine, or only those on the given ports.
	sockets func(ports ...int) []host.Listening
	out     io.Writer // receives a line for each step
}

// step is one thing to do. If it fails, all steps so far are undone.
type step struct {
	name string
	do   func(ctx context.Context) error
}

// apply carries out the whole plan or nothing. If a step fails, it undoes the steps so far. The error says which
// step failed, and whether undoing also failed.
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
			// WithoutCancel is needed, because the steps must also be undone after an interrupt.
			if back := w.undo(context.WithoutCancel(ctx), j); back != nil {
				return errors.Join(err, fmt.Errorf("the changes could not be undone: %w. To try again: tempomat-proxy setup -undo", back))
			}
			return fmt.Errorf("%w; all changes were undone", err)
		}
	}
	return nil
}

// steps returns all steps of a plan: first the changes of files, then the checks, and last the steps that
// visitors could notice.
func (w *worker) steps(j *journal) (steps []step) {
	file := journalFile(w.place)
	before := map[Probe]int{}
	steps = append(steps, step{"writing " + file + ", for -undo", func(ctx context.Context) error {
		for _, p := range j.Probes {
			before[p], _ = w.ask(ctx, p) // 0: the site doesn't answer before the change
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
			steps = append(steps, step{"waiting until " + j.Server + " has released the port", func(ctx context.Context) error {
				return w.until(ctx, j.Server+" still listens there", func() bool {
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

// reload is the systemctl command that reloads a server without interrupting its requests, or starts it if it
// isn't running.
const reload = "reload-or-restart"

// reloadByHand returns the step that reloads a server on a machine without systemd, or no step if the server isn't
// running.
func (w *worker) reloadByHand(server string) []step {
	if !slices.ContainsFunc(w.sockets(), func(s host.Listening) bool { return s.Program == server }) {
		return nil
	}
	return []step{w.command(byHandReload(server)...)}
}

// byHandReload returns the command that makes a server read its configuration again without interrupting its
// requests.
func byHandReload(server string) []string {
	if server == "nginx" {
		return []string{"nginx", "-s", "reload"}
	}
	return []string{"apache2ctl", "graceful"}
}

// until waits until done returns true, but no longer than patience. After that, it returns an error with the
// text otherwise.
func (w *worker) until(ctx context.Context, otherwise string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return errors.New(otherwise)
		case <-time.After(2 * time.Millisecond): // short, because connections can be refused until then
		}
	}
	return nil
}

// begin creates the missing directories, and writes the journal.
func (w *worker) begin(j *journal) error {
	file := journalFile(w.place)
	for _, name := range append([]string{file}, paths(j.Changes)...) {
		for _, dir := range missingDirectories(name) {
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as in the rest of /etc, because the proxy isn't root and reads files there
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

// patience is the longest time that the site may take to answer after the servers have been switched over.
const patience = 20 * time.Second

// sameAnswer waits until a site answers as before. If the site didn't answer before, any status below 500 is
// enough.
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
			return fmt.Errorf("it returns status %d, but returned %d before", status, before)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// undo reverts the changes in a journal, including those that may not have been made. If it can't revert a change,
// it reports the error and continues. Switching back is the last step, and happens only if the web server could
// serve the site afterwards. Otherwise the proxy continues to serve it.
func (w *worker) undo(ctx context.Context, j *journal) error {
	steps := w.restoring(j, j.serverFile)
	steps = append(steps, step{"looking for sites that were added since", func(ctx context.Context) error { return w.adopt(ctx, j) }})
	// The proxy's own files are removed only when the proxy is certainly no longer needed, because it might be
	// restarted until then.
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

// restoring returns the steps that revert the changes for which meant returns true, in reverse order.
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

// switchBack makes the proxy release the port and the web server take it over, with as little time as possible in
// between. The proxy still finishes its requests.
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

// interrupt sends a signal after which systemd doesn't keep the proxy's sockets. After a normal stop, systemd
// would keep them until all requests have finished.
const interrupt = "systemctl kill --kill-who=main --signal=INT " + unitName

func (w *worker) interrupt(ctx context.Context) error {
	_, _ = w.run.Run(ctx, strings.Fields(interrupt)...) // an error means that the proxy isn't running
	return nil
}

// leave waits until the proxy has released the public ports. If end isn't nil, leave calls it for each process of
// the proxy that listens on one of them.
func (w *worker) leave(j *journal, end func(pid int) error) step {
	return step{"waiting until " + unitName + " has released the port", func(ctx context.Context) error {
		var ended []int
		return w.until(ctx, "a program other than "+j.Server+" is still listening there; stop it, and run setup -undo again", func() bool {
			there := 0
			for _, s := range w.sockets(j.ports()...) {
				if s.Program == j.Server {
					continue
				}
				there++
				if s.Program == unitName && end != nil && !slices.Contains(ended, s.Process) {
					fmt.Fprintf(w.out, "    ending process %d (%s)\n", s.Process, unitName)
					_ = end(s.Process) // if this fails, the process still listens, and the loop continues to wait
					ended = append(ended, s.Process)
				}
			}
			return there == 0
		})
	}}
}

// forget removes the journal, and the directories that setup created if they are empty.
func (w *worker) forget(j *journal) error {
	if err := remove(journalFile(w.place)); err != nil {
		return err
	}
	for _, dir := range slices.Backward(j.Directories) {
		_ = os.Remove(dir) // fails if another program has files in it
	}
	return nil
}

// Local runs programs on this machine.
type Local struct{}

// Run implements Runner.
func (Local) Run(ctx context.Context, argv ...string) (string, error) {
	text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // the commands of this package
	return string(text), err
}

// Terminate implements Runner.
func (Local) Terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// probe requests the page of p on this machine, and returns the status of the answer. It doesn't check the
// certificate, because setup leaves the site's certificate unchanged.
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
	res, err := t.RoundTrip(req) // doesn't follow redirects
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
