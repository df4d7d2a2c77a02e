package workers

import (
	"context"
	"time"

	"tempomat/cpuaccount/process"
)

// What a worker sends: one of these before the number of the request.
const (
	saysBegins = '+'
	saysEnds   = '-'
)

// How many messages are looked at: so many in a second, and so many more at once. Beyond
// that they wait where the kernel has room for some hundred, and then the sender is told
// that there is none.
const (
	messagesRate  = 4000
	messagesBurst = 2000
)

// take takes in a message of a process.
func (c *claims) take(now time.Time, numbers *Numbers, pid int, text []byte) bool {
	if len(text) < 1 || pid <= 0 {
		return false
	}
	n := numbers.read(text[1:])
	if n == 0 || text[0] != saysBegins && text[0] != saysEnds {
		return false
	}
	h, u, err := c.opened.look(now, pid, (*process.Handle).Usage)
	if err != nil {
		return false
	}
	id := h.ID()
	if text[0] == saysEnds {
		c.ends(id, u, n)
		return true
	}
	return c.begins(now, id, u, n)
}

// pacer lets so many messages pass.
type pacer struct {
	tokens float64
	last   time.Time
}

// wait is for how long none is to be looked at.
func (p *pacer) wait(now time.Time) time.Duration {
	if p.last.IsZero() {
		p.tokens = messagesBurst
	} else {
		p.tokens = min(messagesBurst, p.tokens+now.Sub(p.last).Seconds()*messagesRate)
	}
	p.last = now
	if p.tokens >= 1 {
		p.tokens--
		return 0
	}
	return 100 * time.Millisecond
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
