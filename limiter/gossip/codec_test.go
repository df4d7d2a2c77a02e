package gossip

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tempomat/limiter"
)

func drawAmounts(t *rapid.T) []amount {
	one := rapid.Custom(func(t *rapid.T) amount {
		return amount{
			limiter.Key{Class: rapid.SampledFrom([]string{"slash32", "slash24", "ua", ""}).Draw(t, "class"), ID: rapid.StringN(0, 60, maxID).Draw(t, "id")},
			time.Duration(rapid.Int64Range(1, int64(maxCost/time.Microsecond)).Draw(t, "µs")) * time.Microsecond,
		}
	})
	return rapid.SliceOfNDistinct(one, 1, 300, func(a amount) limiter.Key { return a.key }).Draw(t, "amounts")
}

// TestAmounts: what is packed comes out again, in as many parcels as it takes.
func TestAmounts(t *testing.T) {
	p, u := newPacker(), newUnpacker()
	rapid.Check(t, func(t *rapid.T) {
		list := drawAmounts(t)
		want, got := map[limiter.Key]time.Duration{}, map[limiter.Key]time.Duration{}
		for _, a := range list {
			want[a.key] = a.time
		}
		for len(list) > 0 {
			data, n := p.pack(list, maxParcel)
			if len(data) > maxParcel {
				t.Fatalf("a parcel of %d bytes", len(data))
			}
			list = list[n:]
			out, err := u.unpack(data)
			if err != nil || len(out) != n {
				t.Fatalf("%d of %d amounts: %v", len(out), n, err)
			}
			for _, a := range out {
				got[a.key] = a.time
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestAmountsAreNoBombs: what grows beyond all bounds as it is unpacked is not.
func TestAmountsAreNoBombs(t *testing.T) {
	p := newPacker()
	p.flate.Reset(&p.packed)
	p.packed.Reset()
	_, _ = p.flate.Write(make([]byte, 100*maxRaw))
	_ = p.flate.Close()
	if _, err := newUnpacker().unpack(p.packed.Bytes()); err == nil {
		t.Error("a bomb was unpacked")
	}
}

func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := time.UnixMicro(rapid.Int64Range(0, 1<<55).Draw(t, "sent"))
		parcels := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) parcel {
			return parcel{
				node(rapid.Uint64().Draw(t, "origin")), rapid.Uint64Range(1, maxSeq).Draw(t, "seq"),
				rapid.Int64Range(0, maxMillis).Draw(t, "ended"), rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data"),
			}
		}), 1, 10).Draw(t, "parcels")
		b := head(push, 7, sent)
		for _, p := range parcels {
			b = appendParcel(b, p)
		}
		m, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(message{kind: push, from: 7, sent: sent, parcels: parcels}, m, cmp.AllowUnexported(message{}, parcel{})); diff != "" {
			t.Fatal(diff)
		}
		var w receiveWindow
		for _, s := range rapid.SliceOf(rapid.Uint64Range(1, 200)).Draw(t, "has") {
			w.add(s)
		}
		h := []versionVectorEntry{{origin: 3, high: w.high, missing: w.missing(maxSpans), within: 5 * time.Second}}
		m, err = parse(appendVersionVector(head(digest, 7, sent), h))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, m.versionVector, cmp.AllowUnexported(versionVectorEntry{}, span{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzReceive gives a replica whatever may come over the network. It never panics,
// and what is no message changes no bucket.
func FuzzReceive(f *testing.F) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	data, _ := newPacker().pack([]amount{{testKey("a"), time.Second}, {testKey("b"), time.Minute}}, maxParcel)
	p := parcel{2, 1, now.UnixMilli(), data}
	f.Add(appendParcel(head(push, 2, now), p))
	f.Add(appendVersionVector(head(digest, 2, now), []versionVectorEntry{{origin: 1, high: 9, missing: []span{{3, 5}, {1, 1}}, within: time.Second}}))
	f.Add(writeSummary(now, 2, []amount{{testKey("a"), time.Second}}, []versionVectorEntry{{origin: 2, high: 9}}))
	f.Add(head(ask, 2, now))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &ledger{debits: map[limiter.Key]time.Duration{}}
		replica := newReplica(testRules(), 1, 1, s)
		replica.setMembers(now.Add(-time.Minute), []node{2, 3})
		replica.charge(now, limiter.Charge{Key: testKey("own"), Cost: time.Second})
		replica.tick(now)
		before := replica.counts
		messages := replica.received(now, bytes.Clone(b))
		if replica.counts.Malformed > before.Malformed && replica.counts.Applied == before.Applied && len(s.debits)+s.raised > 0 {
			t.Error("what is malformed was charged")
		}
		for _, l := range messages {
			if _, err := parse(l.data); err != nil && !l.summary {
				t.Errorf("answered with what nobody can read: %v", err)
			}
		}
		for k := range s.debits {
			if len(k.ID) > maxID || len(k.Class) > maxClass {
				t.Errorf("a key of %d bytes", len(k.ID))
			}
		}
	})
}

// FuzzUnpack gives whatever a parcel may unpack to. What is understood is what is
// packed again.
func FuzzUnpack(f *testing.F) {
	p := newPacker()
	p.pack([]amount{{testKey("a"), time.Second}, {limiter.Key{Class: "ua", ID: "b"}, time.Minute}}, maxParcel)
	f.Add(bytes.Clone(p.raw.Bytes()))
	f.Add([]byte{1, 0, 0, 0, 0})
	u, v := newUnpacker(), newUnpacker()
	f.Fuzz(func(t *testing.T, raw []byte) {
		var packed bytes.Buffer
		p.flate.Reset(&packed)
		_, _ = p.flate.Write(raw)
		_ = p.flate.Close()
		list, err := u.unpack(packed.Bytes())
		if err != nil || len(list) == 0 {
			return
		}
		data, n := p.pack(list, maxRaw)
		again, err := v.unpack(data)
		if err != nil || len(again) != n {
			t.Fatalf("%d of %d: %v", len(again), n, err)
		}
	})
}

// ledger is a sink that adds up what it is charged.
type ledger struct {
	debits map[limiter.Key]time.Duration
	raised int
	calls  int
}

func (l *ledger) Debit(_ time.Time, c limiter.Charge) {
	l.calls++
	l.debits[c.Key] += c.Cost
}
func (l *ledger) Raise(time.Time, limiter.Key, time.Time) { l.raised++ }
func (l *ledger) SetReplicas(time.Time, int)              {}

func BenchmarkPack(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	list := make([]amount, 1000)
	for i := range list {
		list[i] = amount{testKey(fmt.Sprintf("%d.%d.%d.%d", random.IntN(224), random.IntN(256), random.IntN(256), random.IntN(256))), time.Duration(random.IntN(1e9))}
	}
	p := newPacker()
	size, n := 0, 0
	for b.Loop() {
		for rest := list; len(rest) > 0; n++ {
			data, n := p.pack(rest, maxParcel)
			rest = slices.Clone(rest[n:])
			size += len(data)
		}
	}
	b.ReportMetric(float64(size)/float64(b.N)/float64(len(list)), "B/key")
}
