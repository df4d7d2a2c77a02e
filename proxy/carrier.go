package proxy

import (
	"net"
	"sync/atomic"
	"time"
)

const (
	// resetsPerSecond is how many streams a connection of HTTP/2 may give up for long,
	// before they are answered. Who reads a map throws away dozens at a time.
	resetsPerSecond = 100
	// mostResets is how many it may at once.
	mostResets = 1000
)

// carrier is a connection whose streams are requests of their own (HTTP/2). Who opens
// streams and gives them up at once has the server work for nothing (rapid reset,
// CVE-2023-44487, and where the server is made to reset them, CVE-2025-8671). Such a
// connection is closed. Its methods may be called concurrently.
type carrier struct {
	conn net.Conn
	paid atomic.Int64 // until when its resets are paid for, Unix nanoseconds (GCRA, ITU-T I.371)
}

// gaveUp counts a stream that was given up before it was answered.
func (c *carrier) gaveUp(now time.Time) {
	const each = int64(time.Second / resetsPerSecond)
	for {
		paid := c.paid.Load()
		next := max(paid, now.UnixNano()) + each
		if !c.paid.CompareAndSwap(paid, next) {
			continue
		}
		if next-now.UnixNano() > mostResets*each {
			_ = c.conn.Close() // its streams end by that
		}
		return
	}
}
