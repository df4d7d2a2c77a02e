package history

import (
	"strings"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
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
	totals
	groups  [telemetry.Groups]group
	classes []class
	shapes  *sketch
	urls    *sketch
}

type totals struct{ requests, cpu, wasted, refused, redirected float64 }

type group struct {
	requests, cpu float64
	took          took
}

type class struct {
	name string
	keys *sketch
}

func newHour(at, from int64) *hour {
	return &hour{at: at, from: from, shapes: newSketch(), urls: newSketch()}
}

// count counts the requests of a group.
func (h *hour) count(g telemetry.Group, s *telemetry.Sums) {
	h.requests += float64(s.Requests)
	h.cpu += s.Cost.Seconds()
	h.wasted += s.Wasted.Seconds()
	h.refused += float64(s.Refused)
	h.redirected += float64(s.Redirected)
	h.groups[g].requests += float64(s.Requests)
	h.groups[g].cpu += s.Cost.Seconds()
}

// take counts what a request was, and those that it stands for. name is what its URL is
// called.
func (h *hour) take(e *telemetry.Entry, name []byte) {
	n := e.Weight
	cpu := max(0, e.Cost.Seconds()) * n
	g := &h.groups[e.Group]
	if e.Outcome == telemetry.Answered && e.Status != switchingProtocols {
		g.took.add(e.Took, n)
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
func (h *hour) keys(name string) *sketch {
	name = name[:min(len(name), mostClassName)]
	for _, c := range h.classes {
		if c.name == name {
			return c.keys
		}
	}
	if len(h.classes) == mostClasses {
		return nil
	}
	keys := newSketch()
	h.classes = append(h.classes, class{strings.Clone(name), keys})
	return keys
}
