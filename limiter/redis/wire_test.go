package redis

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire stands between sidecars and a server, and can be cut: all connections end
// then, and new ones end at once.
type wire struct {
	listener net.Listener
	to       string
	done     sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newWire(t testing.TB, to string) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, conns: map[net.Conn]bool{}}
	w.done.Go(w.accept)
	t.Cleanup(func() {
		l.Close()
		w.Cut()
		w.done.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil || !w.keep(near, far) {
			near.Close()
			if err == nil {
				far.Close()
			}
			continue
		}
		w.done.Go(func() { w.copy(near, far) })
		w.done.Go(func() { w.copy(far, near) })
	}
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	if w.cut {
		for _, c := range conns {
			delete(w.conns, c)
		}
	}
	return !w.cut
}

func (w *wire) copy(to, from net.Conn) {
	io.Copy(to, from)
	to.Close()
	from.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, to)
	delete(w.conns, from)
}

// Cut lets nothing through until Heal.
func (w *wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.conns {
		c.Close()
	}
}

func (w *wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}
