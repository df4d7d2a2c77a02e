package host

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/cpuaccount/process"
	"tempomat/internal/testkit"
)

// onConn is a request on a connection that this process has accepted, as if it served one request at a time.
func onConn(t *testing.T, tr *Tracker, l net.Listener, w *worker) (r Running, accepted net.Conn) {
	t.Helper()
	c := dial(t, "tcp", l.Addr().String(), 1)
	accepted, err := l.Accept()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = accepted.Close() })
	tr.looking.saved = mostSaved // lets it search at once
	s, err := tr.finder.Find(at(0), c)
	testkit.Must(t, err)
	_, u, err := tr.opened.look(at(0), w.id.PID)
	testkit.Must(t, err)
	work := tr.begin(w, &Running{Began: at(0)}, u, nil)
	work.seat, work.conn = &seat{Seat: s, worker: w}, c
	return Running{Began: at(0), Work: work}, accepted
}

// served returns a Tracker, and a worker that counts as serving one connection at a time.
func served(t *testing.T) (*Tracker, net.Listener, *worker) {
	t.Helper()
	f, l, waiting := toBackend(t, "tcp")
	_ = waiting.Close()
	if c, err := l.Accept(); err == nil {
		_ = c.Close()
	}
	id, _ := itself(t)
	tr := NewTracker(f, nil, func(error) {})
	return tr, l, &worker{id: id, opened: tr.opened}
}

// TestAProcessThatHasGoneOn: a client reads the end of an answer slowly, after the process has closed the
// connection. CPU time that the process uses afterwards isn't charged to the request.
func TestAProcessThatHasGoneOn(t *testing.T) {
	tr, l, w := served(t)
	slow, itsEnd := onConn(t, tr, l, w)
	all := []Running{slow}
	if tr.Look(at(0.2), all); all[0].Is != WorkRead {
		t.Fatalf("while it is served: %+v", all[0])
	}
	if _, err := itsEnd.Write([]byte("the end of the answer")); err != nil {
		t.Fatal(err)
	}
	_ = itsEnd.Close()
	if tr.Look(at(0.4), all); all[0].Is != WorkGone {
		t.Fatalf("after that: %+v", all[0])
	}
	last := all[0].Reading.CPU
	for from := time.Now(); time.Since(from) < 5*time.Millisecond; { // the process computes for another client
	}
	tr.Look(at(0.6), all)
	r, ok := all[0].Work.End(at(0.8))
	if all[0].Is != WorkGone || !ok || r.CPU != last || all[0].Reading.CPU != last {
		t.Errorf("it had used %v, then %+v, at its end %v, %t", last, all[0], r.CPU, ok)
	}
}

// TestGoneOnIsNotSeveral checks that a process is still measured after it has gone on to another request, but
// not while it holds two connections.
func TestGoneOnIsNotSeveral(t *testing.T) {
	tr, l, w := served(t)
	slow, itsEnd := onConn(t, tr, l, w)
	next, _ := onConn(t, tr, l, w)
	_ = itsEnd.Close()
	all := []Running{slow, next}
	if tr.Look(at(0.2), all); all[0].Is != WorkGone || all[1].Is != WorkRead || w.many {
		t.Fatalf("one after the other: %+v, many: %t", all, w.many)
	}
	other, _ := onConn(t, tr, l, w)
	all = append(all, other)
	if tr.Look(at(0.4), all); all[0].Is != WorkGone || all[1].Is != WorkLost || all[2].Is != WorkLost || !w.many {
		t.Errorf("both at once: %+v, many: %t", all, w.many)
	}
}

// TestThreadsOfAMoment: a process isn't measured while it has threads, but is measured again at its next
// request. Otherwise a client could permanently spoil all workers with a page that starts a thread.
func TestThreadsOfAMoment(t *testing.T) {
	tr, l, w := served(t)
	r, _ := onConn(t, tr, l, w)
	c, s := r.Work.conn, r.Work.seat
	s.worker, s.held, s.used = nil, at(0), at(0)
	w.used = at(0)
	tr.workers[w.id], tr.seats[c] = w, s
	all := []Running{{Conn: c, Began: at(0)}} // this process, which has threads
	if tr.Look(at(0.1), all); all[0].Is != WorkUnknown || s.worker != w || w.many {
		t.Errorf("with threads: %+v, its worker %+v", all[0], s.worker)
	}
	s.PID = child(t).Process.Pid
	id, _, err := tr.opened.look(at(0.1), s.PID)
	testkit.Must(t, err)
	t.Cleanup(tr.opened.close)
	s.worker = &worker{id: id, opened: tr.opened, used: at(0)}
	tr.workers[id] = s.worker
	if tr.Look(at(0.2), all); all[0].Is != WorkRead || all[0].Work.ID() != id {
		t.Errorf("with none: %+v", all[0])
	}
}

// child starts a process that waits.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sleep", "600")
	testkit.Must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// processFiles returns how many files in /proc this process has open for other processes.
func processFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	for _, f := range all {
		link, _ := os.Readlink("/proc/self/fd/" + f.Name()) // the directory's own descriptor is closed by now
		if strings.HasSuffix(link, "/stat") || strings.HasSuffix(link, "/schedstat") {
			n++
		}
	}
	return n
}

// TestOpened: files of processes that are read stay open, up to a limit. Processes beyond it are read as well.
func TestOpened(t *testing.T) {
	before := processFiles(t)
	o := newOpened()
	t.Cleanup(o.close)
	o.most = 2
	var all []*exec.Cmd
	for range 3 {
		all = append(all, child(t))
	}
	for range 2 {
		for _, c := range all {
			id, u, err := o.look(at(0), c.Process.Pid)
			if err != nil || id.PID != c.Process.Pid { // the process may not have used any CPU time yet
				t.Fatalf("%+v, %v", u, err)
			}
		}
		if n := processFiles(t) - before; len(o.byPID) != 2 || n != 2*2 {
			t.Fatalf("%d processes are open, with %d files", len(o.byPID), n)
		}
	}
	ended := all[0].Process.Pid
	w := &worker{id: o.byPID[ended].handle.ID(), opened: o}
	_ = all[0].Process.Kill()
	_ = all[0].Wait() // it was killed
	if _, u, err := o.look(at(1), ended); err == nil {
		t.Errorf("what has ended has used %+v", u)
	}
	if u, err := w.usage(at(1)); err == nil {
		t.Errorf("what has ended has used %+v", u)
	}
	w.id = process.ID{PID: os.Getpid(), Start: 1}
	if u, err := w.usage(at(1)); err == nil {
		t.Errorf("a process that had the number before has used %+v", u)
	}
	o.sweep(at(1))
	testkit.Same(t, 2, len(o.byPID), "files open, of processes that were read a moment ago")
	o.sweep(at(0).Add(2 * keepsOpen))
	if n := processFiles(t) - before; len(o.byPID) != 0 || n != 0 {
		t.Errorf("%d processes are open, with %d files", len(o.byPID), n)
	}
	_, _, _ = o.look(at(100), all[1].Process.Pid)
	o.close()
	if _, _, err := o.look(at(100), all[1].Process.Pid); err != nil {
		t.Errorf("a request that outlives the Tracker is not read: %v", err)
	}
	testkit.Same(t, 0, processFiles(t)-before, "files open after the end")
}

// TestOpenedConcurrently: requests end at the same time, while the files of their processes are closed again
// and again. Each look returns the process that it asks for.
func TestOpenedConcurrently(t *testing.T) {
	before := processFiles(t)
	o := newOpened()
	pids := []int{child(t).Process.Pid, child(t).Process.Pid}
	var looks sync.WaitGroup
	for n := range 4 {
		looks.Go(func() {
			for i := range 200 {
				pid := pids[(n+i)%2]
				if id, _, err := o.look(at(0), pid); err != nil || id.PID != pid {
					t.Errorf("process %d is %+v, %v", pid, id, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { looks.Wait(); close(done) }()
	for !testkit.Ready(done) {
		o.sweep(at(0).Add(2 * keepsOpen))
	}
	o.close()
	testkit.Same(t, 0, processFiles(t)-before, "files open after the end")
}

// parent is a process whose child computes on request.
type parent struct {
	t   *testing.T
	pid int
	in  io.Writer
	out io.Reader
}

func startParent(t *testing.T) *parent {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", `while read x; do sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo x; done`)
	in, err := c.StdinPipe()
	testkit.Must(t, err)
	out, err := c.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, c.Start())
	t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	return &parent{t: t, pid: c.Process.Pid, in: in, out: out}
}

func (p *parent) work() {
	p.t.Helper()
	if _, err := p.in.Write([]byte("\n")); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.ReadFull(p.out, make([]byte, len("x\n"))); err != nil {
		p.t.Fatal(err)
	}
}

// opensWorker returns a worker for a process, and the process's CPU use.
func opensWorker(t *testing.T, pid int) (*worker, process.Usage) {
	t.Helper()
	o := newOpened()
	t.Cleanup(o.close)
	id, u, err := o.look(at(0), pid)
	testkit.Must(t, err)
	return &worker{id: id, opened: o}, u
}

// TestChildrenAreCharged: a request pays for the children that its worker waited for, even if the worker was
// read at the end of the previous request.
func TestChildrenAreCharged(t *testing.T) {
	p := startParent(t)
	w, u := opensWorker(t, p.pid)
	begin := func(took float64) *Work {
		return &Work{worker: w, base: w.before(u, ms(took), 0)}
	}
	first := begin(0)
	p.work()
	r, ok := first.End(at(1))
	if !ok || r.CPU < 10*time.Millisecond {
		t.Fatalf("the first request: %+v, %t", r, ok)
	}
	u, _ = w.usage(at(1))
	second := begin(1000)
	p.work()
	r, ok = second.End(at(2))
	after, err := w.usage(at(2))
	if children := after.CPU - u.CPU; !ok || err != nil || children < 10*time.Millisecond || r.CPU < children-time.Millisecond {
		t.Errorf("the second request: %+v, %t; the children used %v; %v", r, ok, children, err)
	}
}

// TestOthersChildrenAreNotCharged: between two requests of this proxy, a worker serves another client and waits
// for a child. The next look notices that the child's CPU time doesn't fit into the request's duration.
func TestOthersChildrenAreNotCharged(t *testing.T) {
	p := startParent(t)
	w, u := opensWorker(t, p.pid)
	w.end(u)
	p.work()
	now, err := w.usage(at(1))
	if err != nil || now.CPU-u.CPU < 10*time.Millisecond {
		t.Fatalf("%+v after %+v: the child is not seen; %v", now, u, err)
	}
	testkit.Same(t, now.CPU, w.before(now, 0, 0).CPU, "the request begins at")
}
