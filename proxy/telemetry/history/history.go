package history

import (
	"math"
	"slices"
	"sync"
	"time"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	// MostHours is the longest history: a week.
	MostHours     = 168
	secondsOfHour = 3600
)

// History is the last hours. Its methods may be called concurrently. It implements
// telemetry.Sink.
type History struct {
	hours int64

	mu    sync.Mutex // guards the following
	names *names
	open  *hour   // the one that runs; nil: none yet
	over  []block // the oldest first
	name  []byte  // of a URL, used again
}

// block is an hour that is over. Its bytes do not change.
type block struct {
	at    int64
	bytes []byte
}

// end is the hour as it is kept when it is over.
func (h *hour) end() block {
	return block{h.at, h.saved(kept).block()}
}

// New makes a History of at most so many hours, 1 to 168.
func New(hours int) *History {
	return &History{hours: int64(hours), names: newNames()}
}

// Take implements telemetry.Sink. A request counts in the hour in which it ended.
func (h *History) Take(now time.Time, b *telemetry.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rollLocked(now)
	for g := range b.Sums {
		h.open.count(telemetry.Group(g), &b.Sums[g])
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		target := e.Target()
		h.name = h.names.url(h.name, target, len(target) >= longestTarget, e.Shape, h.names.network(e.Client))
		h.open.take(e, h.name)
	}
}

// longestTarget is what an Entry keeps of a request's target, in bytes.
const longestTarget = 256

// rollLocked begins a new hour if it is time. A clock that is set back by less than an
// hour changes nothing; one that is set back further was wrong, and so are the hours that
// are yet to come.
func (h *History) rollLocked(now time.Time) {
	at := hourOf(now)
	if h.open != nil && (at == h.open.at || at == h.open.at-secondsOfHour) {
		return
	}
	from := at
	if h.open == nil {
		from = now.Unix()
	} else {
		h.over = append(h.over, h.open.end())
	}
	h.open = newHour(at, from)
	h.forgetLocked()
}

// forgetLocked drops the hours that are too old, or yet to come.
func (h *History) forgetLocked() {
	at := h.open.at
	h.over = slices.DeleteFunc(h.over, func(b block) bool {
		return b.at >= at || b.at <= at-h.hours*secondsOfHour
	})
}

func hourOf(t time.Time) int64 {
	s := t.Unix()
	return s - s%secondsOfHour
}

// Blocks returns all hours as bytes, the oldest first, and the one that runs last. They
// must not be changed.
func (h *History) Blocks() (all [][]byte) {
	return h.blocks(math.MaxInt64, counted)
}

// blocks returns the last hours, with so many names of each kind of the one that runs.
func (h *History) blocks(hours int64, most int) (all [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		return nil
	}
	for _, b := range h.over {
		if (h.open.at-b.at)/secondsOfHour < hours {
			all = append(all, b.bytes)
		}
	}
	return append(all, h.open.saved(most).block())
}

// Restore takes in what Blocks returned, before the first Take. If anything in it is not
// sound, the history begins anew.
func (h *History) Restore(blocks [][]byte) error {
	var over []block
	var open *hour
	for _, b := range blocks[max(0, len(blocks)-MostHours):] {
		one, err := decodeBlock(b)
		if err != nil {
			return err
		}
		if open != nil && one.At > open.at {
			over = append(over, open.end())
		}
		open = one.hour()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.open = over, open
	if open != nil {
		h.forgetLocked()
	}
	return nil
}

// Reply is the document of the last hours, the one that runs included.
func (h *History) Reply(hours int) api.HistoryReply {
	reply := api.HistoryReply{Version: api.Version, Hours: []api.HourRow{}}
	for _, b := range h.blocks(int64(hours), kept) {
		one, err := decodeBlock(b)
		if err != nil { // it was made here
			continue
		}
		reply.Hours = append(reply.Hours, one.row())
	}
	reply.Since = h.since()
	return reply
}

// since is when the history began.
func (h *History) since() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.over) > 0 {
		if first, err := decodeBlock(h.over[0].bytes); err == nil { // it was made here
			return float64(first.From)
		}
	}
	if h.open == nil {
		return 0
	}
	return float64(h.open.from)
}
