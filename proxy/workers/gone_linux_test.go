package workers

import (
	"net"
	"os"
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
	tr.finder.rests = time.Time{} // it looks at once
	s, err := tr.finder.Find(at(0), c)
	if err != nil {
		t.Fatal(err)
	}
	u, err := w.id.Usage()
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
	return tr, l, &worker{id: id, counted: at(0), pause: time.Hour}
}

// TestAProcessThatHasGoneOn: whoever reads the end of an answer slowly has it from the kernel, as the process
// has closed the connection. What that computes since is not charged to the request.
func TestAProcessThatHasGoneOn(t *testing.T) {
	tr, l, w := served(t)
	slow, itsEnd := onConn(t, tr, l, w)
	all := []Running{slow}
	if tr.Look(at(0.2), all); all[0].Is != Read {
		t.Fatalf("while it is served: %+v", all[0])
	}
	if _, err := itsEnd.Write([]byte("the end of the answer")); err != nil {
		t.Fatal(err)
	}
	_ = itsEnd.Close()
	if tr.Look(at(0.4), all); all[0].Is != Gone {
		t.Fatalf("after that: %+v", all[0])
	}
	last := all[0].Reading.CPU
	for from := time.Now(); time.Since(from) < 5*time.Millisecond; { // it computes for somebody else
	}
	tr.Look(at(0.6), all)
	r, ok := all[0].Work.End(at(0.8))
	if all[0].Is != Gone || !ok || r.CPU != last || all[0].Reading.CPU != last {
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
	if tr.Look(at(0.2), all); all[0].Is != Gone || all[1].Is != Read || w.many {
		t.Fatalf("one after the other: %+v, many: %t", all, w.many)
	}
	other, _ := onConn(t, tr, l, w)
	all = append(all, other)
	if tr.Look(at(0.4), all); all[0].Is != Gone || all[1].Is != Lost || all[2].Is != Lost || !w.many {
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
	if tr.Look(at(0.1), all); all[0].Is != Unknown || s.worker != w || w.many {
		t.Errorf("with threads: %+v, its worker %+v", all[0], s.worker)
	}
	s.PID = child(t).Process.Pid
	h, _, err := tr.opened.look(at(0.1), s.PID, (*process.Handle).Usage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.opened.close)
	s.worker = &worker{id: h.ID(), used: at(0), counted: at(0), pause: time.Hour}
	s.worker.open.Store(h)
	tr.workers[h.ID()] = s.worker
	if tr.Look(at(0.2), all); all[0].Is != Read || all[0].Work.ID() != h.ID() {
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
	if all[0].Is != Gone || all[1].Is != Read || all[0].Work.worker != all[1].Work.worker {
		t.Errorf("%+v", all)
	}
}
