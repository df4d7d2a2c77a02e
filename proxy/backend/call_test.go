package backend

import (
	"runtime"
	"testing"
	"weak"
)

// TestIdleCallKeepsNoConnection: between requests, a client's Call keeps no connection in memory.
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
