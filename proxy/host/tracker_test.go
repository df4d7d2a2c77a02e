package host

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tempomat/cpuaccount/process"
)

// onConn is a request on a connection that this process has accepted, as if it served one at a time.
func onConn(t *testing.T, tr *Tracker, l net.Listener, w *worker) (r Running, accepted net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	tr.looking.saved = mostSaved // it looks at once
	s, err := tr.finder.Find(at(0), c)
	if err != nil {
		t.Fatal(err)
	}
	_, u, err := tr.opened.look(at(0), w.id.PID)
	if err != nil {
		t.Fatal(err)
	}
	work := tr.begin(w, &Running{Began: at(0)}, u, nil)
	work.seat, work.conn = &seat{Seat: s, worker: w}, c
	return Running{Began: at(0), Work: work}, accepted
}

// served is a Tracker, and a worker that is taken to serve one connection at a time.
func served(t *testing.T) (*Tracker, net.Listener, *worker) {
	t.Helper()
	f, l, waiting := toBackend(t)
	_ = waiting.Close()
	if c, err := l.Accept(); err == nil {
		_ = c.Close()
	}
	id, _, err := look(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(f, nil, nil, func(error) {})
	return tr, l, &worker{id: id, opened: tr.opened, counted: at(0), pause: time.Hour}
}

// TestAProcessThatHasGoneOn: whoever reads the end of an answer slowly has it from the kernel, as the process
// has closed the connection. What that computes since is not charged to the request.
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
	for from := time.Now(); time.Since(from) < 5*time.Millisecond; { // it computes for somebody else
	}
	tr.Look(at(0.6), all)
	r, ok := all[0].Work.End(at(0.8))
	if all[0].Is != WorkGone || !ok || r.CPU != last || all[0].Reading.CPU != last {
		t.Errorf("it had used %v, then %+v, at its end %v, %t", last, all[0], r.CPU, ok)
	}
}

// TestGoneOnIsNotSeveral: a process that has gone on from one request to another serves one at a time. It is
// measured on, and one that holds two connections is not.
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

// TestThreadsOfAMoment: a process that has threads is not measured while it has. That is no word on the next request:
// else a client that asks for a page which starts one would spoil the workers, one by one, for good.
func TestThreadsOfAMoment(t *testing.T) {
	tr, l, w := served(t)
	r, _ := onConn(t, tr, l, w)
	c, s := r.Work.conn, r.Work.seat
	s.worker, s.held, s.used = nil, at(0), at(0)
	w.used = at(0)
	tr.workers[w.id], tr.seats[c] = w, s
	all := []Running{{Conn: c, Began: at(0)}} // at this process, which has threads
	if tr.Look(at(0.1), all); all[0].Is != WorkUnknown || s.worker != w || w.many {
		t.Errorf("with threads: %+v, its worker %+v", all[0], s.worker)
	}
	s.PID = child(t).Process.Pid
	id, _, err := tr.opened.look(at(0.1), s.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.opened.close)
	s.worker = &worker{id: id, opened: tr.opened, used: at(0), counted: at(0), pause: time.Hour}
	tr.workers[id] = s.worker
	if tr.Look(at(0.2), all); all[0].Is != WorkRead || all[0].Work.ID() != id {
		t.Errorf("with none: %+v", all[0])
	}
}

// TestGoneOnAsItSays: a worker that says it serves another one has gone on at once, not when it is due to be read.
func TestGoneOnAsItSays(t *testing.T) {
	own, now, err := look(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(nil, nil, nil, func(error) {})
	tr.claims.begins(at(0), own, now, 1)
	all := []Running{{Number: 1, Began: at(0)}}
	tr.Look(at(0.02), all)
	tr.claims.ends(own, now, 1)
	tr.claims.begins(at(0.03), own, now, 2)
	all = append(all, Running{Number: 2, Began: at(0.03)})
	tr.Look(at(0.06), all)
	if all[0].Is != WorkGone || all[1].Is != WorkRead || all[0].Work.worker != all[1].Work.worker {
		t.Errorf("%+v", all)
	}
}

// child is a process that waits.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// processFiles is how many files of processes this one has open.
func processFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		link, _ := os.Readlink("/proc/self/fd/" + f.Name()) // the directory's own is closed by now
		if strings.HasSuffix(link, "/stat") || strings.HasSuffix(link, "/schedstat") {
			n++
		}
	}
	return n
}

// TestOpened keeps processes open as long as they are looked at, and no more than there is room
// for. Each is read all the same.
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
			if err != nil || id.PID != c.Process.Pid { // it may have computed nothing yet
				t.Fatalf("%+v, %v", u, err)
			}
		}
		if n := processFiles(t) - before; len(o.byPID) != 2 || n != 2*2 {
			t.Fatalf("%d processes are open, with %d files", len(o.byPID), n)
		}
	}
	ended := all[0].Process.Pid
	w := &worker{id: o.byPID[ended].ID(), opened: o}
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
	if len(o.byPID) != 2 {
		t.Error("what was looked at a moment ago is closed")
	}
	o.sweep(at(0).Add(2 * keepsOpen))
	if n := processFiles(t) - before; len(o.byPID) != 0 || n != 0 {
		t.Errorf("%d processes are open, with %d files", len(o.byPID), n)
	}
	_, _, _ = o.look(at(100), all[1].Process.Pid)
	o.close()
	if _, _, err := o.look(at(100), all[1].Process.Pid); err != nil {
		t.Errorf("a request that outlives the Tracker is not read: %v", err)
	}
	if n := processFiles(t) - before; n != 0 {
		t.Errorf("%d files are open after the end", n)
	}
}

// parent is a process that has a child compute when it is told to.
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
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
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

// TestChildrenAreCharged: a request pays for the children that its worker waited for, also where
// the worker was seen as the request before it ended.
func TestChildrenAreCharged(t *testing.T) {
	p := startParent(t)
	o := newOpened()
	t.Cleanup(o.close)
	id, u, err := o.look(at(0), p.pid)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{id: id, opened: o}
	begin := func(took float64) *Work {
		return &Work{worker: w, base: w.before(u, ms(took), 0)}
	}
	first := begin(0)
	p.work()
	r, ok := first.End(at(1))
	if !ok || r.CPU < 10*time.Millisecond {
		t.Fatalf("the first request: %+v, %t", r, ok)
	}
	_, u, _ = o.look(at(1), p.pid)
	second := begin(1000)
	p.work()
	r, ok = second.End(at(2))
	_, after, err := o.look(at(2), p.pid)
	if children := after.CPU - u.CPU; !ok || err != nil || children < 10*time.Millisecond || r.CPU < children-time.Millisecond {
		t.Errorf("the second request: %+v, %t; the children used %v; %v", r, ok, children, err)
	}
}

// TestOthersChildrenAreNotCharged: a child that the worker waited for between two requests of ours
// was for somebody else. The next look sees it, and that it does not fit into the request's time.
func TestOthersChildrenAreNotCharged(t *testing.T) {
	p := startParent(t)
	o := newOpened()
	t.Cleanup(o.close)
	id, u, err := o.look(at(0), p.pid)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{id: id, opened: o}
	w.end(u)
	p.work()
	_, now, err := o.look(at(1), p.pid)
	if err != nil || now.CPU-u.CPU < 10*time.Millisecond {
		t.Fatalf("%+v after %+v: the child is not seen; %v", now, u, err)
	}
	if base := w.before(now, 0, 0); base.CPU != now.CPU {
		t.Errorf("the request begins at %v of %v", base.CPU, now.CPU)
	}
}
