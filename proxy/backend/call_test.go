package backend

import (
	"net"
	"runtime"
	"testing"
	"time"
	"weak"
)

// TestWhatIsEstimatedIsOfTheLastConnection: also once another request has that, and nothing of a
// request without one.
func TestWhatIsEstimatedIsOfTheLastConnection(t *testing.T) {
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	first, second := newConn(a), newConn(b)
	var call Call
	call.Begin()
	call.AddEstimated(time.Hour)
	call.use(first)
	call.use(second)
	call.use(nil)
	call.AddEstimated(time.Second)
	call.AddEstimated(time.Second)
	call.Begin()
	call.AddEstimated(time.Hour)
	if first.Estimated() != 0 || second.Estimated() != 2*time.Second {
		t.Errorf("%v and %v, want 0s and 2s", first.Estimated(), second.Estimated())
	}
}

// TestIdleCallKeepsNoConnection: a client may be silent for long after a request, and what that
// used of the backend is closed by then.
func TestIdleCallKeepsNoConnection(t *testing.T) {
	var call Call
	call.Begin()
	conn := usedBy(&call)
	runtime.GC()
	if conn.Value() != nil {
		t.Error("a connection that was let go is still there")
	}
	runtime.KeepAlive(&call)
}

//go:noinline
func usedBy(call *Call) weak.Pointer[Conn] {
	c := newConn(nil)
	call.use(c)
	call.use(nil)
	return weak.Make(c)
}
