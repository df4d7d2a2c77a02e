package history

import (
	"bytes"
	"encoding/gob"
	"errors"
	"math"
	"slices"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/sketch"
)

const (
	// kept is how many names of a kind are kept of an hour that is over.
	kept = 50
	// keptKeys is how many keys are kept of all its classes together.
	keptKeys = 200
)

// saved is an hour as it is kept.
type saved struct {
	At, From int64 // its beginning, and since when it was counted; Unix time in seconds
	Totals
	Groups       [telemetry.Groups]Group
	Classes      []savedClass
	Shapes, URLs []part
}

// Totals is what all requests of an hour together did.
type Totals struct{ Requests, CPU, Wasted, Refused, Redirected float64 }

// Group is what a group of clients did.
type Group struct {
	Requests, CPU float64
	Took          sketch.Histogram
}

type savedClass struct {
	Name string
	Keys []part
}

// part is what a part of an hour costs. Its numbers are single, as they are many.
type part struct {
	Name     string
	CPU      float32 // CPU-seconds
	Excess   float32 // by how much CPU may be too high
	Requests float32
}

// saved is the hour with so many names of each kind.
func (h *hour) saved(most int) *saved {
	s := &saved{At: h.at, From: h.from, Totals: h.Totals, Groups: h.groups, Shapes: h.shapes.dearest(most), URLs: h.urls.dearest(most)}
	keys := most
	if most == kept && len(h.classes) > 0 {
		keys = min(kept, keptKeys/len(h.classes))
	}
	for _, c := range h.classes {
		s.Classes = append(s.Classes, savedClass{c.name, c.keys.dearest(keys)})
	}
	return s
}

// block is the hour as bytes.
func (s *saved) block() []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		panic(err) // its types are no others than these
	}
	return slices.Clone(b.Bytes()) // which has no more room than it needs
}

// decodeBlock makes an hour of a block.
func decodeBlock(b []byte) (*saved, error) {
	s := new(saved)
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(s); err != nil {
		return nil, err
	}
	if s.At%secondsOfHour != 0 || len(s.Classes) > mostClasses {
		return nil, errors.New("an hour is not sound")
	}
	return s, nil
}

// hour is the hour that runs on.
func (s *saved) hour() *hour {
	h := newHour(s.At, s.From)
	h.Totals, h.groups = s.Totals, s.Groups
	for _, c := range s.Classes {
		h.keys(c.Name).restore(c.Keys)
	}
	h.shapes.restore(s.Shapes)
	h.urls.restore(s.URLs)
	return h
}

// row is an hour as it is told.
func (s *saved) row() api.HourRow {
	row := api.HourRow{
		At: float64(s.At), Requests: whole(s.Requests), CPU: rounded(s.CPU), Wasted: rounded(s.Wasted),
		Refused: whole(s.Refused), Redirected: whole(s.Redirected),
		Classes: []api.HistoryClass{}, Shapes: rows(s.Shapes), URLs: rows(s.URLs),
	}
	for _, g := range telemetry.ShownGroups() {
		of := &s.Groups[g]
		row.Groups = append(row.Groups, api.HistoryPart{Name: g.String(), CPU: rounded(of.CPU), Requests: whole(of.Requests), P95: rounded(of.Took.Quantile(0.95))})
	}
	for _, c := range s.Classes {
		row.Classes = append(row.Classes, api.HistoryClass{Class: c.Name, Keys: rows(c.Keys)})
	}
	return row
}

func rows(parts []part) []api.HistoryPart {
	rows := []api.HistoryPart{}
	for _, p := range parts[:min(len(parts), kept)] {
		rows = append(rows, api.HistoryPart{Name: p.Name, CPU: rounded(float64(p.CPU)), Error: rounded(float64(p.Excess)), Requests: whole(float64(p.Requests))})
	}
	return rows
}

func whole(x float64) uint64 { return uint64(math.Round(x)) }

// rounded leaves a tenth of a millisecond.
func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }
