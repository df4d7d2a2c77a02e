package history

import (
	"encoding/binary"
	"errors"
	"math"

	"tempomat/proxy/telemetry"
)

const (
	// kept is how many names of a kind are kept of an hour that is over.
	kept = 50
	// keptKeys is how many keys are kept of all its classes together.
	keptKeys = 200
	// mostText is the longest name in a block, in bytes.
	mostText = 1024
	// mostNumber is the largest number that is believed.
	mostNumber = 1e15
)

// block is the hour as bytes, with so many names of each kind.
func (h *hour) block(most int) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(h.at)) //nolint:gosec // the same bits
	b = binary.BigEndian.AppendUint64(b, uint64(h.from))  //nolint:gosec // the same bits
	for _, x := range h.numbers() {
		b = appendNumber(b, *x)
	}
	for i := range h.groups {
		b = h.groups[i].took.appendBlock(b)
	}
	keys := most
	if most == kept && len(h.classes) > 0 {
		keys = min(kept, keptKeys/len(h.classes))
	}
	b = binary.AppendUvarint(b, uint64(len(h.classes)))
	for _, c := range h.classes {
		b = appendText(b, c.name)
		b = c.keys.appendBlock(b, keys)
	}
	b = h.shapes.appendBlock(b, most)
	return h.urls.appendBlock(b, most)
}

// numbers are those that an hour has once.
func (h *hour) numbers() []*float64 {
	all := []*float64{&h.requests, &h.cpu, &h.wasted, &h.refused, &h.redirected}
	for i := range h.groups {
		all = append(all, &h.groups[i].requests, &h.groups[i].cpu)
	}
	return all
}

func (t *took) appendBlock(b []byte) []byte {
	n := 0
	for _, x := range t {
		if x > 0 {
			n++
		}
	}
	b = append(b, byte(n))
	for i, x := range t {
		if x > 0 {
			b = appendShort(append(b, byte(i)), x)
		}
	}
	return b
}

func (s *sketch) appendBlock(b []byte, most int) []byte {
	parts := s.dearest(most)
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, p := range parts {
		b = appendText(b, p.name)
		b = appendShort(appendShort(appendShort(b, p.cpu), p.excess), p.requests)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), mostText)]
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendNumber(b []byte, x float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(x))
}

func appendShort(b []byte, x float64) []byte {
	return binary.BigEndian.AppendUint32(b, math.Float32bits(float32(x)))
}

// decodeBlock makes an hour of a block.
func decodeBlock(b []byte) (*hour, error) {
	r := reader{rest: b}
	h := newHour(int64(r.uint64()), int64(r.uint64())) //nolint:gosec // the same bits
	for _, x := range h.numbers() {
		*x = r.sound(math.Float64frombits(r.uint64()))
	}
	for i := range telemetry.Groups {
		for range r.count(steps, 5) {
			if at := r.take(1); at != nil && int(at[0]) < steps {
				h.groups[i].took[at[0]] = r.short()
			}
		}
	}
	for range r.count(mostClasses, 2) {
		name := r.text()
		keys := r.sketch()
		h.classes = append(h.classes, class{name, keys})
	}
	h.shapes, h.urls = r.sketch(), r.sketch()
	if r.failed || len(r.rest) > 0 || h.at%secondsOfHour != 0 {
		return nil, errors.New("an hour is not sound")
	}
	return h, nil
}

// reader reads a block. What is not sound makes all that follows nothing.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) uint64() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) short() float64 {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return r.sound(float64(math.Float32frombits(binary.BigEndian.Uint32(b))))
}

// sound refuses what is no amount.
func (r *reader) sound(x float64) float64 {
	if !(x >= 0 && x <= mostNumber) {
		r.failed = true
		return 0
	}
	return x
}

// count reads how many follow that take at least so many bytes each.
func (r *reader) count(most, least int) int {
	x, n := binary.Uvarint(r.rest)
	if r.failed || n <= 0 || x > uint64(most) || x > uint64(len(r.rest)/least) { //nolint:gosec // both are positive
		r.failed = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(x) //nolint:gosec // at most most
}

func (r *reader) text() string {
	return string(r.take(r.count(mostText, 1)))
}

func (r *reader) sketch() *sketch {
	s := newSketch()
	for range r.count(counted, 13) {
		s.put(part{name: r.text(), cpu: r.short(), excess: r.short(), requests: r.short()})
	}
	return s
}
