package gossip

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestMessages: every message that is written is read back unchanged.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64Range(0, maxNumber)
		want := message{kind: rapid.SampledFrom([]kind{kindTotals, kindState}).Draw(t, "kind"), from: 7, begun: number.Draw(t, "begun")}
		w, counts := newWriter(want.kind, want.from, want.begun, maxState), 1
		if want.kind == kindState {
			counts = rapid.IntRange(1, 5).Draw(t, "nodes")
			w.number(uint64(counts))
			for range counts {
				id := Node(rapid.Uint64().Draw(t, "node"))
				want.nodes = append(want.nodes, id)
				w.node(id)
			}
		}
		for range rapid.IntRange(0, 50).Draw(t, "keys") {
			k := told{key: limiter.Key{
				Class: rapid.SampledFrom([]string{"slash32", "slash24", "ua", ""}).Draw(t, "class"),
				ID:    rapid.StringN(0, 60, maxID).Draw(t, "id"),
			}}
			if !w.hasRoom(k.key, counts) {
				t.Fatal("no room")
			}
			w.key(k.key)
			if want.kind == kindState {
				k.owes = time.Duration(rapid.Int64Range(0, int64(maxCost/time.Microsecond)).Draw(t, "owes")) * time.Microsecond
				w.number(uint64(k.owes.Microseconds()))
			}
			for range counts {
				c := count{number.Draw(t, "series"), number.Draw(t, "micros")}
				k.counts = append(k.counts, c)
				w.count(c)
			}
			want.keys = append(want.keys, k)
		}
		got, err := parse(w.data)
		testkit.Must(t, err)
		testkit.Same(t, want, got, "the message")
	})
}

// packet returns a packet in which a node sends a total.
func packet(from Node, begun uint64, id string, c count) []byte {
	w := newWriter(kindTotals, from, begun, maxPacket)
	w.key(testKey(id))
	w.count(c)
	return w.data
}

// FuzzReceive gives a replica any bytes that the network may deliver. The replica never panics, invalid
// messages change no bucket, and no charge exceeds the limit.
func FuzzReceive(f *testing.F) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Add(packet(2, 0, "a", count{1, 1e6}))
	f.Add(packet(2, 9, "a", count{maxNumber, maxNumber}))
	other := NewReplica(2, newLedger())
	other.SetMembers(now, []Node{1, 3})
	other.Charge(now, limiter.Charge{Key: testKey("a"), Cost: time.Second})
	f.Add(other.state([]debt{{testKey("a"), time.Minute}, {limiter.Key{Class: "ua", ID: "b"}, time.Second}}))
	f.Add([]byte{version, byte(kindTotals), 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newLedger()
		replica := NewReplica(1, s)
		replica.SetMembers(now.Add(-time.Minute), []Node{2, 3})
		replica.Charge(now, limiter.Charge{Key: testKey("own"), Cost: time.Second})
		replica.Received(now, bytes.Clone(b))
		if replica.counts.Malformed > 0 && len(s.debits)+len(s.raised) > 0 {
			t.Error("a malformed message was charged")
		}
		for k, cost := range s.debits {
			if len(k.ID) > maxID || len(k.Class) > maxClass {
				t.Errorf("a key of %d bytes", len(k.ID))
			}
			if cost < 0 || cost > maxCost*time.Duration(len(b)) {
				t.Errorf("%v were charged", cost)
			}
		}
		replica.Tick(now)
		replica.state([]debt{{testKey("own"), time.Minute}})
	})
}

// ledger is a sink that adds up its charges.
type ledger struct {
	debits map[limiter.Key]time.Duration
	raised map[limiter.Key]time.Time
}

func newLedger() *ledger {
	return &ledger{map[limiter.Key]time.Duration{}, map[limiter.Key]time.Time{}}
}

func (l *ledger) Debit(_ time.Time, c limiter.Charge)               { l.debits[c.Key] += c.Cost }
func (l *ledger) Raise(_ time.Time, k limiter.Key, until time.Time) { l.raised[k] = until }
func (l *ledger) SetInstances(time.Time, int)                       {}
func (l *ledger) Learn(time.Time, []byte)                           {}
