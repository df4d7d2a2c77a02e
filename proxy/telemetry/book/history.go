package book

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const secondsOfHour = 3600

// History keeps sums of the last hours. Its methods may be called concurrently. It implements telemetry.Sink.
type History struct {
	hours int64
	words *telemetry.Words // decides which parts of URLs may be kept

	mu   sync.Mutex // guards the fields below
	open *hour      // the current hour; nil: no request has ended yet
	over []api.HourRow
}

// NewHistory makes a History that keeps the given number of hours, 1 to 168. words decides which parts of
// URLs may be kept.
func NewHistory(hours int, words *telemetry.Words) *History {
	return &History{hours: int64(hours), words: words}
}

// Take implements telemetry.Sink. A request counts in the hour in which it ends.
func (h *History) Take(now time.Time, b *telemetry.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rollLocked(now)
	for i, g := range telemetry.ShownGroups() {
		h.open.count(i, &b.Sums[g])
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		h.open.add(e, h.words.URL(e.Shape, e.Target()))
	}
}

// rollLocked begins a new hour when the current one is over. If the clock is set back by less than an hour,
// nothing changes. If it is set back further, it was wrong before, and the hours that now lie in the future are
// dropped.
func (h *History) rollLocked(now time.Time) {
	at := now.Unix() - now.Unix()%secondsOfHour
	if h.open != nil {
		if open := h.open.at(); at == open || at == open-secondsOfHour {
			return
		}
		h.over = append(h.over, h.open.document(kept))
	}
	h.open = newHour(at)
	h.forgetLocked()
}

// forgetLocked drops hours that are too old or in the future.
func (h *History) forgetLocked() {
	at := h.open.at()
	h.over = slices.DeleteFunc(h.over, func(row api.HourRow) bool {
		return int64(row.At) >= at || int64(row.At) <= at-h.hours*secondsOfHour
	})
}

// savedHours is the form in which a History is saved, as JSON. gob isn't used, because it turns empty lists into
// nil, which the admin API would show as null.
type savedHours struct {
	Over []api.HourRow // finished hours, the oldest first
	Open *api.HourRow  // current hour; nil: no request has ended yet
	Took [groups]telemetry.Histogram
}

// AppendBinary implements encoding.BinaryAppender.
func (h *History) AppendBinary(b []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := savedHours{Over: h.over}
	if h.open != nil {
		row := h.open.document(counted)
		s.Open, s.Took = &row, h.open.took
	}
	text, err := json.Marshal(&s)
	return append(b, text...), err
}

// UnmarshalBinary loads data that AppendBinary wrote, before the first Take. If the data can't be read, it
// returns an error and changes nothing.
func (h *History) UnmarshalBinary(data []byte) error {
	var s savedHours
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s.Open == nil {
		return nil
	}
	for _, row := range append(s.Over, *s.Open) {
		if len(row.Groups) != groups || len(row.Classes) > mostClasses {
			return errors.New("an hour is invalid")
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.open = s.Over, reopen(*s.Open, s.Took)
	h.forgetLocked()
	return nil
}

// Reply returns the document of the last hours, including the current one.
func (h *History) Reply(hours int) api.HistoryReply {
	h.mu.Lock()
	defer h.mu.Unlock()
	reply := api.HistoryReply{Version: api.Version, Hours: []api.HourRow{}}
	if h.open == nil {
		return reply
	}
	first := h.open.at() - int64(hours-1)*secondsOfHour
	for _, row := range append(slices.Clip(h.over), h.open.document(kept)) {
		if int64(row.At) >= first {
			reply.Hours = append(reply.Hours, row)
		}
	}
	return reply
}

const (
	// mostClasses is the largest number of classes in an hour. More classes can occur only if a reload changes them.
	mostClasses = limiter.MaxKeys
	// mostClassName is the longest name of a class that is kept, in bytes.
	mostClassName = 64
	// counted is the number of names of a kind that are counted in the current hour. kept is how many of them
	// are kept when the hour is over.
	counted = 500
	kept    = 50
	// keptKeys is the number of keys, of all classes together, that are kept when an hour is over.
	keptKeys = 200
)

// hour is the current hour. Its row has no names until document adds them.
type hour struct {
	row     api.HourRow
	took    [groups]telemetry.Histogram
	classes []class
	shapes  *costliest
	urls    *costliest
}

type class struct {
	name string
	keys *costliest
}

func newHour(at int64) *hour {
	h := &hour{row: api.HourRow{At: float64(at)}, shapes: newCostliest(), urls: newCostliest()}
	for _, g := range telemetry.ShownGroups() {
		h.row.Groups = append(h.row.Groups, api.HistoryPart{Name: g.String()})
	}
	return h
}

// reopen restores the current hour from its saved row.
func reopen(row api.HourRow, took [groups]telemetry.Histogram) *hour {
	h := newHour(int64(row.At))
	for _, c := range row.Classes {
		h.keys(c.Class).restore(c.Keys)
	}
	h.shapes.restore(row.Shapes)
	h.urls.restore(row.URLs)
	h.row, h.took = row, took
	h.row.Classes, h.row.Shapes, h.row.URLs = nil, nil, nil
	return h
}

// at returns the Unix time at which the hour began.
func (h *hour) at() int64 { return int64(h.row.At) }

// count adds the requests of a group, given by its index in ShownGroups.
func (h *hour) count(group int, s *telemetry.Sums) {
	requests, cost, row := s.Requests(), s.Cost.Seconds(), &h.row
	row.Requests += requests
	row.CPU += cost
	row.Wasted += s.Wasted.Seconds()
	row.Refused += s.Ended[telemetry.Refused]
	row.Redirected += s.Ended[telemetry.Redirected]
	row.Shadowed += s.Shadowed
	row.Groups[group].Requests += requests
	row.Groups[group].CPU += cost
}

// add counts an entry under its keys, its shape and the name of its URL.
func (h *hour) add(e *telemetry.Entry, name string) {
	n := e.Weight
	cpu := max(0, e.Cost.Seconds()) * n
	if e.Outcome == telemetry.Answered && e.Status != switchingProtocols {
		h.took[e.Group].Add(e.Took.Seconds(), n)
	}
	for _, key := range e.Keys() {
		if keys := h.keys(key.Class); keys != nil {
			keys.add(key.ID, cpu, n)
		}
	}
	if e.Shape != "" {
		h.shapes.add(e.Shape, cpu, n)
	}
	if name != "" {
		h.urls.add(name, cpu, n)
	}
}

// switchingProtocols is the status of an upgraded connection, which lasts as long as both sides want.
const switchingProtocols = 101

// keys returns the keys of a class, or nil if there are too many classes.
func (h *hour) keys(name string) *costliest {
	name = name[:min(len(name), mostClassName)]
	for _, c := range h.classes {
		if c.name == name {
			return c.keys
		}
	}
	if len(h.classes) == mostClasses {
		return nil
	}
	keys := newCostliest()
	h.classes = append(h.classes, class{strings.Clone(name), keys})
	return keys
}

// costliest finds the most expensive names, by hashes that clients can't predict.
type costliest struct {
	seed  maphash.Seed
	top   telemetry.Top[uint64]
	names []string // name of each row of top
}

func newCostliest() *costliest {
	return &costliest{seed: maphash.MakeSeed(), top: telemetry.NewTop[uint64](counted), names: make([]string, counted)}
}

// add adds requests of a name and their cost. It keeps a copy of the name.
func (d *costliest) add(name string, cpu, requests float64) {
	if row, fresh := d.top.Add(maphash.String(d.seed, name), telemetry.Use{CPU: cpu, N: requests}); fresh {
		d.names[row] = strings.Clone(name)
	}
}

// restore fills an empty costliest with saved parts.
func (d *costliest) restore(parts []api.HistoryPart) {
	for i, p := range parts[:min(len(parts), counted)] {
		use := telemetry.Use{CPU: p.CPU, N: float64(p.Requests)}
		d.top.Put(i, telemetry.Row[uint64]{Key: maphash.String(d.seed, p.Name), Wrong: p.Error, Use: use})
		d.names[i] = p.Name
	}
}

// most returns the most expensive names, sorted by the lowest cost that each of them can have.
func (d *costliest) most(most int) []api.HistoryPart {
	parts := []api.HistoryPart{}
	for _, i := range d.top.Sorted(0) {
		if r := &d.top.Rows[i]; r.CPU > 0 && len(parts) < most {
			parts = append(parts, api.HistoryPart{Name: d.names[i], CPU: round(r.CPU), Error: round(r.Wrong), Requests: uint64(math.Round(r.N))})
		}
	}
	return parts
}

// document returns the hour's row. most limits the number of names of each kind.
func (h *hour) document(most int) api.HourRow {
	row := h.row
	row.CPU, row.Wasted, row.Groups = round(row.CPU), round(row.Wasted), slices.Clone(row.Groups)
	for i, g := range telemetry.ShownGroups() {
		of := &row.Groups[i]
		of.CPU, of.P95 = round(of.CPU), round(h.took[g].Quantile(0.95))
	}
	row.Shapes, row.URLs = h.shapes.most(most), h.urls.most(most)
	if most == kept && len(h.classes) > 0 {
		most = min(kept, keptKeys/len(h.classes))
	}
	row.Classes = []api.HistoryClass{}
	for _, c := range h.classes {
		row.Classes = append(row.Classes, api.HistoryClass{Class: c.name, Keys: c.keys.most(most)})
	}
	return row
}
