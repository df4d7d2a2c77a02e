package known

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func knownSince(start time.Time) *Clients { return New(start, [16]byte{1}) }

var dawn = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// TestKnownForADay checks how long a client is known after it was last seen.
func TestKnownForADay(t *testing.T) {
	k := knownSince(dawn)
	k.Add(0, "visitor")
	k.Add(0, "once")
	for _, step := range []struct {
		at            time.Duration
		visitor, once bool
	}{
		{time.Hour, true, true},
		{13 * time.Hour, true, true}, // the visitor is found in the older generation, and added to the newer one
		{20 * time.Hour, true, true},
		{26 * time.Hour, true, false},
		{27 * time.Hour, true, false},
		{80 * time.Hour, false, false},
	} {
		testkit.Same(t, step.visitor, k.Has(step.at, "visitor"), "after %v, the visitor is known", step.at)
		if step.at != 13*time.Hour && step.at != 20*time.Hour && step.at != time.Hour {
			testkit.Same(t, step.once, k.Has(step.at, "once"), "after %v, a client that came once is known", step.at)
		}
	}
}

// TestKnownIsNotEverybody checks that few strangers count as known, even when a generation is full.
func TestKnownIsNotEverybody(t *testing.T) {
	k := knownSince(dawn)
	for i := range 3_000_000 {
		k.Add(0, fmt.Sprint("client ", i))
	}
	wrong := 0
	const strangers = 20_000
	for i := range strangers {
		h := hash(k.secret, fmt.Sprint("stranger ", i))
		if k.now.has(h) || k.old.has(h) {
			wrong++
		}
	}
	if share := float64(wrong) / strangers; share > 0.03 {
		t.Errorf("%.3f of the strangers count as known", share)
	}
	if !k.Has(0, "client 2999999") {
		t.Error("the latest client is not known")
	}
}

func TestKnownOverARestart(t *testing.T) {
	k := knownSince(dawn)
	k.Add(0, "visitor")
	saved, err := k.AppendBinary(nil)
	testkit.Must(t, err)
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{time.Minute, true}, {23 * time.Hour, true}, {30 * time.Hour, false}} {
		again := New(dawn.Add(c.after), [16]byte{2})
		testkit.Must(t, again.UnmarshalBinary(saved))
		testkit.Same(t, c.want, again.Has(0, "visitor"), "restarted after %v: known", c.after)
		if again.Has(0, "stranger") {
			t.Error("a stranger is known")
		}
	}
	damaged := append([]byte(nil), saved...)
	damaged[100]++
	for name, data := range map[string][]byte{"damaged": damaged, "cut": saved[:len(saved)-1], "empty": nil} {
		if knownSince(dawn).UnmarshalBinary(data) == nil {
			t.Errorf("%s: invalid data was accepted", name)
		}
	}
	if knownSince(dawn.Add(-20*time.Hour)).UnmarshalBinary(saved) == nil {
		t.Error("data from the future was accepted")
	}
}

// sealed makes saved data with the right length and checksum. Both generations consist of one repeated byte.
func sealed(format byte, since int64, fill byte) []byte {
	data := make([]byte, savedSize)
	data[0] = format
	binary.LittleEndian.PutUint64(data[17:], uint64(since))
	body := data[:savedSize-sha256.Size]
	for i := range body[headSize:] {
		body[headSize+i] = fill
	}
	sum := sha256.Sum256(body)
	copy(data[len(body):], sum[:])
	return data
}

// FuzzKnown checks that loaded data either changes nothing, or can be saved again, makes no stranger known,
// and is forgotten in time.
func FuzzKnown(f *testing.F) {
	saved, _ := knownSince(dawn).AppendBinary(nil)
	f.Add(saved[:100], int64(0), byte(0), false)
	f.Add([]byte{version}, dawn.Unix(), byte(0x11), true)
	f.Add([]byte{version}, dawn.Unix(), byte(0xff), true)
	f.Add([]byte{version}, int64(math.MinInt64), byte(1), true)
	f.Add([]byte{version}, int64(math.MaxInt64), byte(1), true)
	f.Add([]byte{version + 1}, dawn.Unix(), byte(1), true)
	f.Fuzz(func(t *testing.T, data []byte, since int64, fill byte, seal bool) {
		if seal && len(data) > 0 {
			data = sealed(data[0], since, fill)
		}
		k := knownSince(dawn)
		k.Add(0, "client")
		if err := k.UnmarshalBinary(data); err != nil {
			if !k.Has(0, "client") {
				t.Error("invalid data deleted known clients")
			}
			return
		}
		again, _ := k.AppendBinary(nil)
		if !bytes.Equal(again, data) || data[0] != version {
			t.Error("saved data differs from the loaded data")
		}
		wrong := 0
		for i := range 100 {
			if k.Has(0, fmt.Sprint("stranger ", i)) {
				wrong++
			}
		}
		if wrong > 20 {
			t.Errorf("%d of 100 strangers are known", wrong)
		}
		k.Add(0, "visitor")
		for _, at := range []time.Duration{40 * time.Hour, 80 * time.Hour} {
			k.rotateLocked(at)
		}
		if k.now.set != 0 || k.old.set != 0 {
			t.Error("known clients are never forgotten")
		}
	})
}

// TestKnownConcurrently is for the race detector.
func TestKnownConcurrently(t *testing.T) {
	k := knownSince(dawn)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				id := fmt.Sprint(i, " ", n)
				k.Add(time.Duration(n)*time.Minute, id)
				if !k.Has(time.Duration(n)*time.Minute, id) {
					t.Errorf("%s is not known", id)
				}
			}
			if saved, err := k.AppendBinary(nil); err != nil || knownSince(dawn).UnmarshalBinary(saved) != nil {
				t.Error("the clients weren't saved or weren't loaded")
			}
		})
	}
	all.Wait()
}
