package book

import (
	"bytes"
	"encoding/gob"
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
	"tempomat/proxy/telemetry/sketch"
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
	words *telemetry.Words // what of a URL may be kept

	mu   sync.Mutex // guards the following
	open *hour      // the one that runs; nil: none yet
	over []block    // the oldest first
}

// block is an hour that is over. Its bytes do not change.
type block struct {
	at    int64
	bytes []byte
}

// end is the hour as it is kept when it is over.
func (h *hour) end() block {
	return block{h.at, h.saved(kept).encode()}
}

// NewHistory makes a History of at most so many hours, 1 to 168. Words say what of a URL may be kept.
func NewHistory(hours int, words *telemetry.Words) *History {
	return &History{hours: int64(hours), words: words}
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
		h.open.take(e, h.words.URL(e.Shape, e.Target()))
	}
}

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
	return append(all, h.open.saved(most).encode())
}

// Restore takes in what Blocks returned, before the first Take. If anything in it is not
// sound, the history begins anew.
func (h *History) Restore(blocks [][]byte) error {
	var over []block
	var open *hour
	for _, b := range blocks[max(0, len(blocks)-MostHours):] {
		one, err := decodeHour(b)
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
		one, err := decodeHour(b)
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
		if first, err := decodeHour(h.over[0].bytes); err == nil { // it was made here
			return float64(first.From)
		}
	}
	if h.open == nil {
		return 0
	}
	return float64(h.open.from)
}

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
	requests := float64(s.Requests())
	h.Requests += requests
	h.CPU += s.Cost.Seconds()
	h.Wasted += s.Wasted.Seconds()
	h.Refused += float64(s.Ended[telemetry.Refused])
	h.Redirected += float64(s.Ended[telemetry.Redirected])
	h.groups[g].Requests += requests
	h.groups[g].CPU += s.Cost.Seconds()
}

// take counts what a request was, and those that it stands for. name is what its URL is
// called.
func (h *hour) take(e *telemetry.Entry, name string) {
	n := e.Weight
	cpu := max(0, e.Cost.Seconds()) * n
	g := &h.groups[e.Group]
	if e.Outcome == telemetry.Answered && e.Status != switchingProtocols {
		g.Took.Add(e.Took.Seconds(), n)
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
func (d *dear) add(name string, cpu, requests float64) {
	if row, fresh := d.top.Add(maphash.String(d.seed, name), sketch.Use{CPU: cpu, N: requests}); fresh {
		d.names[row] = strings.Clone(name)
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

// encode is the hour as bytes.
func (s *saved) encode() []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		panic(err) // its types are no others than these
	}
	return slices.Clone(b.Bytes()) // which has no more room than it needs
}

// decodeHour makes an hour of a block.
func decodeHour(b []byte) (*saved, error) {
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
		At: float64(s.At), Requests: whole(s.Requests), CPU: round(s.CPU), Wasted: round(s.Wasted),
		Refused: whole(s.Refused), Redirected: whole(s.Redirected),
		Classes: []api.HistoryClass{}, Shapes: rows(s.Shapes), URLs: rows(s.URLs),
	}
	for _, g := range telemetry.ShownGroups() {
		of := &s.Groups[g]
		row.Groups = append(row.Groups, api.HistoryPart{Name: g.String(), CPU: round(of.CPU), Requests: whole(of.Requests), P95: round(of.Took.Quantile(0.95))})
	}
	for _, c := range s.Classes {
		row.Classes = append(row.Classes, api.HistoryClass{Class: c.Name, Keys: rows(c.Keys)})
	}
	return row
}

func rows(parts []part) []api.HistoryPart {
	rows := []api.HistoryPart{}
	for _, p := range parts[:min(len(parts), kept)] {
		rows = append(rows, api.HistoryPart{Name: p.Name, CPU: round(float64(p.CPU)), Error: round(float64(p.Excess)), Requests: whole(float64(p.Requests))})
	}
	return rows
}

func whole(x float64) uint64 { return uint64(math.Round(x)) }
