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
	s := h.document(kept)
	s.Took = [groups]telemetry.Histogram{} // the document has what is told of them
	return block{h.At, s.encode()}
}

// NewHistory makes a History of at most so many hours, 1 to 168. Words say what of a URL may be kept.
func NewHistory(hours int, words *telemetry.Words) *History {
	return &History{hours: int64(hours), words: words}
}

// Take implements telemetry.Sink. A request counts in the hour of its end.
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

// rollLocked begins a new hour if it is time. A clock that is set back by less than an
// hour changes nothing; one that is set back further was wrong, and so are the hours that
// are yet to come.
func (h *History) rollLocked(now time.Time) {
	at := hourOf(now)
	if h.open != nil && (at == h.open.At || at == h.open.At-secondsOfHour) {
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
	at := h.open.At
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
		if (h.open.At-b.at)/secondsOfHour < hours {
			all = append(all, b.bytes)
		}
	}
	return append(all, h.open.document(most).encode())
}

// Restore takes in what Blocks returned, before the first Take. If any of it is invalid, the
// history starts again: its file can't be read.
func (h *History) Restore(blocks [][]byte) error {
	var over []block
	var open *hour
	blocks = blocks[max(0, len(blocks)-MostHours):]
	for i, b := range blocks {
		one, err := decodeHour(b)
		if err != nil {
			return err
		}
		if i < len(blocks)-1 {
			over = append(over, block{one.At, b})
		} else {
			open = one.hour()
		}
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
		reply.Hours = append(reply.Hours, one.Row)
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
	return float64(h.open.From)
}

const (
	// mostClasses is how many classes an hour has; there are only more in an hour in which they
	// were changed.
	mostClasses = limiter.MaxKeys
	// mostClassName is the longest name of a class that is kept, in bytes.
	mostClassName = 64
	// counted is how many names of a kind are counted at a time, and kept how many are kept of an hour
	// that is over.
	counted = 500
	kept    = 50
	// keptKeys is how many keys are kept of all its classes together.
	keptKeys = 200
)

// saved is an hour as it is kept.
type saved struct {
	At, From int64 // its beginning, and since when it was counted; Unix time in seconds
	Row      api.HourRow
	Took     [groups]telemetry.Histogram // by group; of the hour that runs
}

// hour is the hour that runs. Its row has no names yet.
type hour struct {
	saved
	classes []class
	shapes  *dear
	urls    *dear
}

type class struct {
	name string
	keys *dear
}

func newHour(at, from int64) *hour {
	h := &hour{saved: saved{At: at, From: from, Row: api.HourRow{At: float64(at)}}, shapes: newDear(), urls: newDear()}
	for _, g := range telemetry.ShownGroups() {
		h.Row.Groups = append(h.Row.Groups, api.HistoryPart{Name: g.String()})
	}
	return h
}

// count counts the requests of the group that is shown there.
func (h *hour) count(group int, s *telemetry.Sums) {
	requests, cost, row := s.Requests(), s.Cost.Seconds(), &h.Row
	row.Requests += requests
	row.CPU += cost
	row.Wasted += s.Wasted.Seconds()
	row.Refused += s.Ended[telemetry.Refused]
	row.Redirected += s.Ended[telemetry.Redirected]
	row.Groups[group].Requests += requests
	row.Groups[group].CPU += cost
}

// add counts what a request was, and those that it stands for. name is what its URL is
// called.
func (h *hour) add(e *telemetry.Entry, name string) {
	n := e.Weight
	cpu := max(0, e.Cost.Seconds()) * n
	if e.Outcome == telemetry.Answered && e.Status != switchingProtocols {
		h.Took[e.Group].Add(e.Took.Seconds(), n)
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

// dear is the names that cost most, by hashes that clients can't predict.
type dear struct {
	seed  maphash.Seed
	top   telemetry.Top[uint64]
	names []string // as the rows
}

func newDear() *dear {
	return &dear{seed: maphash.MakeSeed(), top: telemetry.NewTop[uint64](counted), names: make([]string, counted)}
}

// add counts requests of a name and what they cost. It keeps a copy of the name.
func (d *dear) add(name string, cpu, requests float64) {
	if row, fresh := d.top.Add(maphash.String(d.seed, name), telemetry.Use{CPU: cpu, N: requests}); fresh {
		d.names[row] = strings.Clone(name)
	}
}

// restore puts parts into the rows of one that has none.
func (d *dear) restore(parts []api.HistoryPart) {
	for i, p := range parts[:min(len(parts), counted)] {
		use := telemetry.Use{CPU: p.CPU, N: float64(p.Requests)}
		d.top.Put(i, telemetry.Row[uint64]{Key: maphash.String(d.seed, p.Name), Wrong: p.Error, Use: use})
		d.names[i] = p.Name
	}
}

// dearest returns the most expensive ones, by their certain cost.
func (d *dear) dearest(most int) []api.HistoryPart {
	parts := []api.HistoryPart{}
	for _, i := range d.top.Sorted(0) {
		if r := &d.top.Rows[i]; r.CPU > 0 && len(parts) < most {
			parts = append(parts, api.HistoryPart{Name: d.names[i], CPU: round(r.CPU), Error: round(r.Wrong), Requests: uint64(math.Round(r.N))})
		}
	}
	return parts
}

// document is the hour with so many names of each kind.
func (h *hour) document(most int) *saved {
	s := h.saved
	s.Row.CPU, s.Row.Wasted, s.Row.Groups = round(s.Row.CPU), round(s.Row.Wasted), slices.Clone(s.Row.Groups)
	for i, g := range telemetry.ShownGroups() {
		of := &s.Row.Groups[i]
		of.CPU, of.P95 = round(of.CPU), round(s.Took[g].Quantile(0.95))
	}
	s.Row.Shapes, s.Row.URLs = h.shapes.dearest(most), h.urls.dearest(most)
	if most == kept && len(h.classes) > 0 {
		most = min(kept, keptKeys/len(h.classes))
	}
	for _, c := range h.classes {
		s.Row.Classes = append(s.Row.Classes, api.HistoryClass{Class: c.name, Keys: c.keys.dearest(most)})
	}
	return &s
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
	row := &s.Row
	if s.At%secondsOfHour != 0 || len(row.Classes) > mostClasses || len(row.Groups) != groups {
		return nil, errors.New("an hour is invalid")
	}
	// In a block an empty list is none, and in a document it is to be a list.
	row.Classes = append([]api.HistoryClass{}, row.Classes...)
	row.Shapes, row.URLs = append([]api.HistoryPart{}, row.Shapes...), append([]api.HistoryPart{}, row.URLs...)
	for i := range row.Classes {
		row.Classes[i].Keys = append([]api.HistoryPart{}, row.Classes[i].Keys...)
	}
	return s, nil
}

// hour is the hour that runs on.
func (s *saved) hour() *hour {
	h := newHour(s.At, s.From)
	for _, c := range s.Row.Classes {
		h.keys(c.Class).restore(c.Keys)
	}
	h.shapes.restore(s.Row.Shapes)
	h.urls.restore(s.Row.URLs)
	h.saved = *s
	h.Row.Classes, h.Row.Shapes, h.Row.URLs = nil, nil, nil
	return h
}
