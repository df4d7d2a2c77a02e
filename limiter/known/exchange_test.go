package known

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// instance is one instance of a fleet, with the clients that it knows and the entries that it received.
type instance struct {
	*Exchange
	clients *Clients
	heard   []Entry
}

// newInstance makes an instance with one of the fleet's secrets, or with none if secret is 0.
func newInstance(secret byte) *instance {
	i := &instance{Exchange: NewExchange(), clients: New(dawn, [16]byte{secret + 1})}
	i.clients.Share(i.Exchange, [16]byte{secret})
	i.Receive(func(_ time.Time, e Entry) { i.heard = append(i.heard, e) })
	if secret != 0 {
		i.SetKeys([32]byte{secret}, [32]byte{secret})
	}
	return i
}

// carry passes all packets of an instance to others, and returns them.
func (i *instance) carry(now time.Time, to ...*instance) [][]byte {
	packets := i.Pack(now)
	for _, p := range packets {
		for _, x := range to {
			x.Learn(now, p)
		}
	}
	return packets
}

// entry returns the entry with a number.
func entry(n int, at time.Time) Entry {
	e := Entry{Kind: OfVisitor, Hash: uint64(n)*0x9e3779b97f4a7c15 | 1, At: at.Unix()}
	binary.LittleEndian.PutUint32(e.Data[:], uint32(n))
	return e
}

// TestInstancesIntroduceThemselves: all other instances with the secret receive the introduction, unless the
// text is too long.
func TestInstancesIntroduceThemselves(t *testing.T) {
	a, b, stranger := newInstance(1), newInstance(1), newInstance(2)
	var met []string
	for _, i := range []*instance{a, b, stranger} {
		i.Meet(func(_ time.Time, from uint32, text []byte) {
			met = append(met, fmt.Sprint(from == a.from, " ", string(text)))
		})
	}
	long := bytes.Repeat([]byte("x"), MostText)
	for _, text := range [][]byte{[]byte("I am A"), long} {
		for _, i := range []*instance{a, b, stranger} {
			i.Learn(dawn, a.Introduce(dawn, text))
		}
	}
	if len(met) != 2 || met[0] != "true I am A" || met[1] != "true "+string(long) {
		t.Errorf("%q", met)
	}
	if a.Introduce(dawn, append(long, 'x')) != nil || newInstance(0).Introduce(dawn, nil) != nil {
		t.Error("Introduce returned a packet")
	}
	if s := b.State(); s.Learnt != 0 || len(b.heard) != 0 || len(a.Introduce(dawn, long)) > MostPacket {
		t.Errorf("%+v", s)
	}
}

// TestAKnownClientIsKnownElsewhere: instances with the secret soon know the client, and still know it hours
// later. Instances without the secret never do.
func TestAKnownClientIsKnownElsewhere(t *testing.T) {
	a, b, stranger, without := newInstance(1), newInstance(1), newInstance(2), newInstance(0)
	before := b.clients.Learnt()
	a.clients.Add(time.Second, "192.0.2.1")
	without.clients.Add(time.Second, "192.0.2.1")
	packets := a.carry(dawn.Add(time.Second), a, b, stranger, without)
	if len(packets) != 1 || b.clients.Learnt() == before {
		t.Fatalf("%d packets, and the other instance learnt %d times", len(packets), b.clients.Learnt()-before)
	}
	if bytes.Contains(packets[0], []byte("192.0.2.1")) {
		t.Error("the address is readable in the packet")
	}
	for _, c := range []struct {
		who  *instance
		id   string
		at   time.Duration
		want bool
	}{
		{b, "192.0.2.1", time.Second, true}, {b, "192.0.2.1", 11 * time.Hour, true}, {b, "192.0.2.2", time.Second, false},
		{stranger, "192.0.2.1", time.Second, false},
	} {
		testkit.Same(t, c.want, c.who.clients.Has(c.at, c.id), "%s at %v is known", c.id, c.at)
	}
	if got := without.Pack(dawn); got != nil {
		t.Errorf("%d packets without a secret", len(got))
	}
	if s := stranger.State(); s.Foreign != 1 || s.Other != a.State().Secret || s.Other == s.Secret {
		t.Errorf("the other secret isn't reported: %+v", s)
	}
}

// TestTheFleetsSecretKeepsKnownClients: a client that was known before the secret was set stays known.
func TestTheFleetsSecretKeepsKnownClients(t *testing.T) {
	alone := knownSince(dawn)
	alone.Add(0, "visitor")
	saved, _ := alone.AppendBinary(nil)
	i := newInstance(1)
	if err := i.clients.UnmarshalBinary(saved); err != nil || !i.clients.Has(time.Hour, "visitor") || i.clients.Has(time.Hour, "other") {
		t.Fatal("a known client was forgotten", err)
	}
	saved, _ = i.clients.AppendBinary(nil)
	again := newInstance(1)
	if err := again.clients.UnmarshalBinary(saved); err != nil || !again.clients.Has(time.Hour, "visitor") {
		t.Error("a known client was forgotten at the next start", err)
	}
}

// TestWorthlessPackets: packets change nothing if they weren't made with the secret or aren't recent.
func TestWorthlessPackets(t *testing.T) {
	a := newInstance(1)
	a.Tell(entry(1, dawn))
	good := a.Pack(dawn)[0]
	type count = func(ExchangeState) uint64
	forged, stale := func(s ExchangeState) uint64 { return s.Forged }, func(s ExchangeState) uint64 { return s.Stale }
	try := func(name string, packet []byte, now time.Time, counted count, heard int) {
		t.Helper()
		b := newInstance(1)
		b.Learn(now, packet)
		if s := b.State(); len(b.heard) != heard || counted != nil && counted(s) != 1 {
			t.Errorf("%s: %d entries, %+v", name, len(b.heard), s)
		}
	}
	for at := range good {
		changed := bytes.Clone(good)
		changed[at] ^= 1
		try(fmt.Sprint("byte ", at, " changed"), changed, dawn, nil, 0)
	}
	try("unchanged", good, dawn, nil, 1)
	try("one byte longer", append(bytes.Clone(good), 0), dawn, forged, 0)
	try("cut off", good[:len(good)-1], dawn, forged, 0)
	try("nothing", nil, dawn, forged, 0)
	try("too long", make([]byte, MostPacket+1), dawn, forged, 0)
	try("sent again in time", good, dawn.Add(Counts-time.Second), nil, 1)
	try("sent again too late", good, dawn.Add(Counts), stale, 0)
	try("from the future", good, dawn.Add(-Counts), stale, 0)

	b := newInstance(1)
	for range 3 * mostOpened {
		b.Learn(dawn, good)
	}
	if s := b.State(); len(b.heard) != 1 || s.Dropped != 0 {
		t.Errorf("sent again and again: %d entries, %+v", len(b.heard), s)
	}
	for range 3*mostOpened - 1 { // replayed packets don't count; otherwise there would be no room for other packets
		b.Learn(dawn, a.keys.Load()[0].seal(dawn, a.from, 0, written(dawn, []Entry{entry(1, dawn)})))
	}
	if s := b.State(); len(b.heard) != mostOpened || s.Dropped != 2*mostOpened {
		t.Errorf("too many: %d entries, %+v", len(b.heard), s)
	}
	for _, e := range b.heard {
		if e.At != dawn.Unix() {
			t.Fatalf("the entry is valid from %d, want %d", e.At, dawn.Unix())
		}
	}
}

// TestMoreFactsThanCanBeSent: the latest entries are sent, and lost ones are sent again with the next packet.
// Every few minutes, one of the instances sends each entry that is still true again.
func TestMoreFactsThanCanBeSent(t *testing.T) {
	a, b, c := newInstance(1), newInstance(1), newInstance(1)
	const many = 1000
	for i := range many {
		a.Tell(entry(i, dawn))
	}
	a.carry(dawn, b)
	if len(b.heard) != mostAtOnce*mostEntries || b.heard[0] != entry(many-1, dawn) || a.State().Dropped != many-mostAtOnce*mostEntries {
		t.Errorf("%d entries, first %v, %+v", len(b.heard), b.heard[0], a.State())
	}
	a, b = newInstance(1), newInstance(1)
	a.Tell(entry(1, dawn))
	a.Pack(dawn) // this packet is lost
	a.Tell(entry(2, dawn))
	a.carry(dawn, b, c)
	if len(b.heard) != 2 {
		t.Errorf("a lost entry wasn't sent again: %v", b.heard)
	}
	for _, step := range []struct {
		at   time.Duration
		by   *instance
		want int
	}{{time.Minute, a, 0}, {time.Minute, b, 0}, {Renew, b, 1}, {Renew, a, 0}, {Renew + time.Minute, c, 0}, {2 * Renew, c, 1}} {
		now := dawn.Add(step.at)
		told := step.by.State().Told
		step.by.Tell(entry(1, now))
		step.by.carry(now, a, b, c)
		testkit.Same(t, step.want, int(step.by.State().Told-told), "how often the entry was sent after %v", step.at)
	}
}

// TestQuestionsAreAnswered: an instance that starts receives all entries that others sent recently, the latest
// first. Each instance sends a packet from time to time, even if it has no entries.
func TestQuestionsAreAnswered(t *testing.T) {
	a := newInstance(1)
	const many = 700
	now := dawn
	for i := range many {
		now = now.Add(time.Second)
		a.Tell(entry(i, now))
		a.Pack(now)
	}
	b := newInstance(1)
	b.Ask(now)
	for range 20 {
		b.carry(now, a)
		a.carry(now, b)
		now = now.Add(250 * time.Millisecond)
	}
	heard := map[uint64]bool{}
	for _, e := range b.heard {
		heard[e.Hash] = true
	}
	if len(heard) != many || b.heard[0].Hash != entry(many-1, now).Hash || len(b.heard) > 2*many {
		t.Errorf("the instance received %d facts in %d entries, want %d facts once each", len(heard), len(b.heard), many)
	}
	beats := 0
	for range 60 {
		now = now.Add(time.Second)
		beats += len(a.Pack(now))
	}
	if beats < 3 || beats > 5 {
		t.Errorf("%d packets in a minute in which nothing happened", beats)
	}
	if s := a.State(); s.Learnt > 100 {
		t.Errorf("%+v", s)
	}
}

// TestRotation: while two secrets are valid, packets sealed with either of them are read.
func TestRotation(t *testing.T) {
	former, latter := [32]byte{1}, [32]byte{2}
	a, b := newInstance(1), newInstance(1)
	for i, step := range []struct{ a, b [2][32]byte }{
		{[2][32]byte{former, latter}, [2][32]byte{former, latter}},
		{[2][32]byte{latter, former}, [2][32]byte{former, latter}},
		{[2][32]byte{latter, former}, [2][32]byte{latter, former}},
		{[2][32]byte{latter, latter}, [2][32]byte{latter, former}},
	} {
		a.SetKeys(step.a[0], step.a[1])
		b.SetKeys(step.b[0], step.b[1])
		a.heard, b.heard = nil, nil
		a.Tell(entry(10*i, dawn))
		b.Tell(entry(10*i+1, dawn))
		a.carry(dawn, b)
		b.carry(dawn, a)
		if i < 3 && (len(a.heard) == 0 || len(b.heard) == 0) || i == 3 && len(a.heard) == 0 {
			t.Errorf("step %d: %d and %d entries", i, len(a.heard), len(b.heard))
		}
	}
}

// TestMemoryIsFlat sends entries about ten million clients, and a hundred thousand packets that weren't sealed
// with the secret.
func TestMemoryIsFlat(t *testing.T) {
	a, b := newInstance(1), newInstance(1)
	b.to = b.to[:1] // the test doesn't keep received entries
	a.Tell(entry(0, dawn))
	good := a.Pack(dawn)[0]
	before, now := testkit.Heap(), dawn
	for i := range 10_000_000 {
		a.Tell(entry(i, now))
		if i%10_000 == 0 {
			now = now.Add(250 * time.Millisecond)
			a.carry(now, b)
		}
		if i%100 == 0 {
			forged := bytes.Clone(good)
			forged[len(good)-1-i/100%16]++
			b.Learn(now, forged)
		}
	}
	if after := testkit.Heap(); after > before+2<<20 {
		t.Errorf("%d KB became %d KB", before>>10, after>>10)
	}
	if s := b.State(); s.Forged < 99_000 {
		t.Errorf("%+v", s)
	}
	runtime.KeepAlive(a)
}

// TestExchange plays instances whose packets are lost, repeated and late. An instance receives only facts that
// another one sent, with their true age, and none that are too old.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := []*instance{newInstance(1), newInstance(1), newInstance(1)}
		now := dawn
		told := map[uint64]int64{}
		var flying [][]byte
		rt.Repeat(map[string]func(*rapid.T){
			"tell": func(rt *rapid.T) {
				e := entry(rapid.IntRange(0, 300).Draw(rt, "entry"), now)
				if _, before := told[e.Hash]; !before {
					told[e.Hash] = e.At
				}
				all[rapid.IntRange(0, 2).Draw(rt, "by")].Tell(e)
			},
			"pass": func(rt *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "s")) * time.Second) },
			"ask":  func(rt *rapid.T) { all[rapid.IntRange(0, 2).Draw(rt, "by")].Ask(now) },
			"pack": func(rt *rapid.T) { flying = append(flying, all[rapid.IntRange(0, 2).Draw(rt, "by")].Pack(now)...) },
			"learn": func(rt *rapid.T) {
				if len(flying) == 0 {
					return
				}
				to := all[rapid.IntRange(0, 2).Draw(rt, "to")]
				to.heard = nil
				to.Learn(now, flying[rapid.IntRange(0, len(flying)-1).Draw(rt, "packet")])
				for _, e := range to.heard {
					if at, known := told[e.Hash]; !known || e.At < at-60 || e.At > now.Unix() || now.Unix()-e.At >= int64(Counts/time.Second) {
						rt.Fatalf("%+v was received; the fact is of %d, and the time is %d", e, at, now.Unix())
					}
				}
			},
		})
	})
}

// FuzzLearn: a packet that wasn't made with the secret changes nothing. A packet that was made with the secret
// may contain anything.
func FuzzLearn(f *testing.F) {
	a := newInstance(1)
	a.Tell(entry(1, dawn))
	f.Add(a.Pack(dawn)[0], make([]byte, headerSize+entrySize))
	f.Add([]byte{packetVersion}, make([]byte, headerSize+1))
	f.Add(bytes.Repeat([]byte{0xff}, MostPacket), []byte{})
	f.Fuzz(func(t *testing.T, packet, plain []byte) {
		b := newInstance(2)
		if b.Learn(dawn, packet); len(b.heard) > 0 {
			t.Errorf("%d entries were learnt from a forged packet", len(b.heard))
		}
		k := &b.keys.Load()[0]
		sealed := append([]byte{packetVersion}, k.print[:]...)
		sealed = append(sealed, make([]byte, nonceSize)...)
		sealed = k.aead.Seal(sealed, sealed[1+printSize:], plain, sealed[:1+printSize])
		if b.Learn(dawn, sealed); len(b.heard) > mostEntries {
			t.Errorf("%d entries from one packet", len(b.heard))
		}
	})
}

// TestExchangeConcurrently is for the race detector.
func TestExchangeConcurrently(t *testing.T) {
	a, b := newInstance(1), newInstance(1)
	a.to, b.to = a.to[:1], b.to[:1] // the test doesn't keep received entries
	var all sync.WaitGroup
	for g := range 2 {
		all.Go(func() {
			for i := range 500 {
				now := dawn.Add(time.Duration(i) * time.Second)
				a.Tell(entry(i*2+g, now))
				a.clients.Add(now.Sub(dawn), fmt.Sprint(i, g))
				b.clients.Has(now.Sub(dawn), fmt.Sprint(i, g))
				a.carry(now, b)
				b.Ask(now)
				b.carry(now, a)
				a.SetKeys([32]byte{1}, [32]byte{byte(g)})
				_ = b.State()
			}
		})
	}
	all.Wait()
	if s := b.State(); s.Learnt == 0 || s.Foreign+s.Forged > 0 {
		t.Errorf("%+v", s)
	}
}
