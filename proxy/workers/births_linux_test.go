package workers

import (
	"io"
	"os/exec"
	"testing"

	"tempomat/cpuaccount/process"
)

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
// the worker was seen as the request before it ended, when a look at it may be a short one.
func TestChildrenAreCharged(t *testing.T) {
	p := startParent(t)
	o, births := newOpened(), process.OpenBirths()
	t.Cleanup(o.close)
	t.Cleanup(births.Close)
	h, u, err := o.look(at(0), p.pid, (*process.Handle).Usage)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{id: h.ID()}
	w.open.Store(h)
	begin := func(took float64) *Work {
		base, newest := w.before(u, ms(took), 0)
		return &Work{worker: w, base: base, newest: newest, births: births}
	}
	first := begin(0)
	p.work()
	r, ok := first.End(at(1))
	if !ok || r.CPU <= 0 {
		t.Fatalf("the first request: %+v, %t", r, ok)
	}
	_, u, _ = o.look(at(1), p.pid, (*process.Handle).Glance)
	second := begin(1000)
	if births != nil && second.newest == 0 {
		t.Error("it is not known since when no process has begun")
	}
	p.work()
	before, _ := h.Glance()
	r, ok = second.End(at(2))
	after, err := h.Glance() // with the children as End saw them
	if children := (after.CPU - after.Own) - (before.CPU - before.Own); !ok || err != nil || children <= 0 || r.CPU < children {
		t.Errorf("the second request: %+v, %t; the children used %v; %v", r, ok, children, err)
	}
}

// TestOthersChildrenAreNotCharged: a child that the worker waited for between two requests of ours
// was for somebody else. The next look sees it, and that it does not fit into the request's time.
func TestOthersChildrenAreNotCharged(t *testing.T) {
	p := startParent(t)
	tr := NewTracker(nil, nil, nil, func(error) {})
	t.Cleanup(tr.Close)
	h, u, err := tr.opened.look(at(0), p.pid, (*process.Handle).Usage)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{id: h.ID()}
	w.open.Store(h)
	w.end(u, tr.births.Last())
	p.work()
	_, now, err := tr.opened.look(at(1), p.pid, tr.readingOf(&seat{worker: w}))
	if err != nil || now.CPU-now.Own <= u.CPU-u.Own {
		t.Fatalf("%+v after %+v: the child is not seen; %v", now, u, err)
	}
	if base, newest := w.before(now, 0, 0); base.CPU != now.CPU || newest != 0 {
		t.Errorf("the request begins at %v of %v, since process %d", base.CPU, now.CPU, newest)
	}
}
