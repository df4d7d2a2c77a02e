package gossip

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"io"
	"slices"
	"time"

	"tempomat/limiter"
)

// Bounds of a list of amounts.
const (
	maxClasses = 32
	maxRaw     = 64 << 10 // bytes, unpacked
	maxParcel  = 1100     // bytes, packed: a message with it fits a UDP packet of memberlist, encrypted
)

// amount is a key and a time: what it was charged, or for how long it owes.
type amount struct {
	key  limiter.Key
	time time.Duration
}

// packer writes lists of amounts: the names of the classes, then for each key the
// number of its class, its ID and the microseconds, all compressed.
type packer struct {
	raw, packed bytes.Buffer
	flate       *flate.Writer
	ratio       float64 // of packed to raw, as it was lately
	classes     []string
	sorted      []amount
}

func newPacker() *packer {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // the level is valid: no error
	return &packer{flate: w, ratio: 0.6}
}

// pack packs as many of the amounts, from the first on, as fit, and says how many
// those are: at least one.
func (p *packer) pack(list []amount, most int) (data []byte, n int) {
	n = p.guess(list, float64(most)*0.95/p.ratio)
	for {
		p.write(list[:n])
		if p.packed.Len() <= most || n == 1 {
			break
		}
		n = max(1, min(n-1, int(float64(n)*0.9*float64(most)/float64(p.packed.Len()))))
	}
	p.ratio += 0.2 * (float64(p.packed.Len())/float64(p.raw.Len()) - p.ratio)
	return bytes.Clone(p.packed.Bytes()), n
}

// guess is how many of the amounts take about so many bytes.
func (p *packer) guess(list []amount, raw float64) int {
	size := 0
	for i := range list {
		if size += len(list[i].key.ID) + 5; float64(size) > min(raw, maxRaw/2) {
			return max(1, i)
		}
	}
	return len(list)
}

func (p *packer) write(list []amount) {
	p.sorted = append(p.sorted[:0], list...)
	slices.SortFunc(p.sorted, func(a, b amount) int { // what is alike side by side is packed more densely
		return cmp.Or(cmp.Compare(a.key.Class, b.key.Class), cmp.Compare(a.key.ID, b.key.ID))
	})
	p.classes = p.classes[:0]
	for _, a := range p.sorted {
		if n := len(p.classes); n == 0 || p.classes[n-1] != a.key.Class {
			p.classes = append(p.classes, a.key.Class)
		}
	}
	p.raw.Reset()
	b := append(p.raw.AvailableBuffer(), byte(len(p.classes))) //nolint:gosec // a few
	for _, c := range p.classes {
		b = appendString(b, c)
	}
	class := 0
	for _, a := range p.sorted {
		for p.classes[class] != a.key.Class {
			class++
		}
		b = appendString(append(b, byte(class)), a.key.ID)
		b = binary.AppendUvarint(b, uint64(max(1, a.time.Microseconds())))
	}
	p.raw.Write(b)
	p.packed.Reset()
	p.flate.Reset(&p.packed)
	_, _ = p.flate.Write(b) // into memory: no error
	_ = p.flate.Close()
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// unpacker reads what a packer wrote.
type unpacker struct {
	flate   io.ReadCloser
	raw     bytes.Buffer
	classes []string
	list    []amount
}

func newUnpacker() *unpacker { return &unpacker{flate: flate.NewReader(nil)} }

// unpack returns the amounts, until it is called again. An error means that the
// list is none of ours; nothing of it is to be believed then.
func (u *unpacker) unpack(data []byte) ([]amount, error) {
	if err := u.flate.(flate.Resetter).Reset(bytes.NewReader(data), nil); err != nil {
		return nil, err
	}
	u.raw.Reset()
	if n, err := io.Copy(&u.raw, io.LimitReader(u.flate, maxRaw+1)); err != nil || n > maxRaw {
		return nil, errMalformed
	}
	r := reader{rest: u.raw.Bytes()}
	u.classes, u.list = u.classes[:0], u.list[:0]
	for range r.uvarint(maxClasses) {
		u.classes = append(u.classes, string(r.short(maxClass)))
	}
	for r.more() {
		class := int(r.byte())
		id := r.short(maxID)
		cost := time.Duration(r.uvarint(uint64(maxCost/time.Microsecond))) * time.Microsecond //nolint:gosec // bounded
		if r.failed || class >= len(u.classes) {
			return nil, errMalformed
		}
		u.list = append(u.list, amount{limiter.Key{Class: u.classes[class], ID: string(id)}, cost})
	}
	return u.list, r.done()
}
