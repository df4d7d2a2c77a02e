package history

import (
	"hash/maphash"
	"strings"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/sketch"
)

const (
	// mostClasses is how many classes an hour has; more there are only in an hour in which
	// they were changed.
	mostClasses = limiter.MaxKeys
	// mostClassName is the longest name of a class that is kept, in bytes.
	mostClassName = 64
)

// hour is the hour that runs.
type hour struct {
	at   int64 // its beginning, Unix time in seconds
	from int64 // since when it was counted
	Totals
	groups  [telemetry.Groups]Group
	classes []class
	shapes  *dear
	urls    *dear
}

type class struct {
	name string
	keys *dear
}

func newHour(at, from int64) *hour {
	return &hour{at: at, from: from, shapes: newDear(), urls: newDear()}
}

// count counts the requests of a group.
func (h *hour) count(g telemetry.Group, s *telemetry.Sums) {
	h.Requests += float64(s.Requests)
	h.CPU += s.Cost.Seconds()
	h.Wasted += s.Wasted.Seconds()
	h.Refused += float64(s.Refused)
	h.Redirected += float64(s.Redirected)
	h.groups[g].Requests += float64(s.Requests)
	h.groups[g].CPU += s.Cost.Seconds()
}

// take counts what a request was, and those that it stands for. name is what its URL is
// called.
func (h *hour) take(e *telemetry.Entry, name []byte) {
	n := e.Weight
	cpu := max(0, e.Cost.Seconds()) * n
	g := &h.groups[e.Group]
	if e.Outcome == telemetry.Answered && e.Status != switchingProtocols {
		g.Took.Add(e.Took.Seconds(), n)
	}
	for _, key := range e.Keys() {
		if keys := h.keys(key.Class); keys != nil {
			keys.add([]byte(key.ID), cpu, n)
		}
	}
	if e.Shape != "" {
		h.shapes.add([]byte(e.Shape), cpu, n)
	}
	if len(name) > 0 {
		h.urls.add(name, cpu, n)
	}
}

// switchingProtocols is the status of an answer that takes as long as both sides wish.
const switchingProtocols = 101

// keys are those of a class, nil if there are too many classes.
func (h *hour) keys(name string) *dear {
	name = name[:min(len(name), mostClassName)]
	for _, c := range h.classes {
		if c.name == name {
			return c.keys
		}
	}
	if len(h.classes) == mostClasses {
		return nil
	}
	keys := newDear()
	h.classes = append(h.classes, class{strings.Clone(name), keys})
	return keys
}

// counted is how many names of a kind are counted at a time.
const counted = 500

// dear is the names that cost most, by their hashes, which clients cannot foresee.
type dear struct {
	seed  maphash.Seed
	top   sketch.Top[uint64]
	names []string // as the rows
}

func newDear() *dear {
	return &dear{seed: maphash.MakeSeed(), top: sketch.NewTop[uint64](counted), names: make([]string, counted)}
}

// add counts requests of a name and what they cost. It keeps a copy of the name.
func (d *dear) add(name []byte, cpu, requests float64) {
	if row, fresh := d.top.Add(maphash.Bytes(d.seed, name), sketch.Use{CPU: cpu, N: requests}); fresh {
		d.names[row] = string(name)
	}
}

// restore puts parts into the rows of one that has none.
func (d *dear) restore(parts []part) {
	for i, p := range parts[:min(len(parts), counted)] {
		d.top.Put(i, sketch.Row[uint64]{
			Key: maphash.String(d.seed, p.Name), Wrong: float64(p.Excess), Use: sketch.Use{CPU: float64(p.CPU), N: float64(p.Requests)},
		})
		d.names[i] = p.Name
	}
}

// dearest returns the first of those that cost something, by what they cost for certain.
func (d *dear) dearest(most int) (parts []part) {
	for _, i := range d.top.Sorted(0) {
		if r := &d.top.Rows[i]; r.CPU > 0 && len(parts) < most {
			parts = append(parts, part{d.names[i], float32(r.CPU), float32(r.Wrong), float32(r.N)})
		}
	}
	return parts
}
