package proxy

import (
	"context"
	"net"
	"time"
)

// WorkerTrier asks whether a backend accepts more connections.
type WorkerTrier interface {
	// Wants is how many connections, opened for a moment, would show what is to be
	// known; 0: nothing is.
	Wants(now time.Time) int
	// Tried: so many were opened, and so many of these wait to be accepted.
	Tried(now time.Time, opened, waiting int)
}

const (
	// trialDial bounds how long one connection of a trial takes to be opened.
	trialDial = 100 * time.Millisecond
	// trialLook is how long a server has to accept them: one whose workers are free
	// does it at once.
	trialLook = 30 * time.Millisecond
	// trialBytes are sent, as Apache lets a connection wait for a worker only when
	// something has come; an empty line before a request means nothing (RFC 9112,
	// 2.2), and nobody logs it.
	trialBytes = "\r\n"
)

// try opens as many connections as the trier wants, tells it how many of them the
// backend has not accepted, and closes them.
func (h *WorkerHints) try(ctx context.Context, t WorkerTrier) {
	n := t.Wants(time.Now())
	network, address := h.address()
	if n == 0 || network == "" {
		return
	}
	dialer := net.Dialer{Timeout: trialDial}
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close() // nothing was to come of it
		}
	}()
	for range n {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			break // its queue is full
		}
		open = append(open, c)
		_ = c.SetWriteDeadline(time.Now().Add(trialDial))
		_, _ = c.Write([]byte(trialBytes)) // one that it closes is accepted
	}
	select {
	case <-time.After(trialLook):
	case <-ctx.Done():
		return
	}
	if waiting, _, ok := h.Sample(); ok && len(open) > 0 {
		t.Tried(time.Now(), len(open), min(waiting, len(open)))
	}
}

// address is where the backend is dialled; of one that speaks TLS it is empty, as
// an empty line means something there.
func (h *WorkerHints) address() (network, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch u := h.backend; {
	case !h.known || h.queue == nil || u.Scheme == "https":
		return "", ""
	case u.Scheme == "unix":
		return "unix", u.Path
	default:
		return "tcp", hostPort(u)
	}
}
