package cpuaccount

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func learn(g *Guess, shape string, costs ...time.Duration) {
	for _, c := range costs {
		g.Learn(shape, c)
	}
}

func TestGuess(t *testing.T) {
	g := NewGuess()
	if got := g.Of("/a"); got != first {
		t.Errorf("knowing nothing: %s, want %s", got, first)
	}
	learn(g, "/a", 2*time.Second)
	if got := g.Of("/a"); got != 2*time.Second {
		t.Errorf("after one answer: %s, want 2s", got)
	}
	learn(g, "/a", 2*time.Second, 2*time.Second, 2*time.Second)
	if got := g.Of("/a"); got != 2*time.Second {
		t.Errorf("after the same again: %s, want 2s", got)
	}
	learn(g, "/a", 4*time.Second)
	if got := g.Of("/a"); got <= 2400*time.Millisecond {
		t.Errorf("after one that was dearer: %s, want more than the mean, 2.4s", got)
	}
}

// TestGuessFollows checks that a change is believed after some answers, both
// ways: an overestimate does not stay for want of being tried.
func TestGuessFollows(t *testing.T) {
	g := NewGuess()
	for _, cost := range []time.Duration{10 * time.Millisecond, 5 * time.Second, 10 * time.Millisecond} {
		for range 100 {
			g.Learn("/a", cost)
		}
		if got := g.Of("/a"); got < cost || got > cost+cost/10+20*time.Millisecond {
			t.Errorf("after 100 answers of %s: %s", cost, got)
		}
	}
}

// TestGuessOfTheUnknown checks that an unknown shape, and one that is known too
// little, is taken for the like of the others.
func TestGuessOfTheUnknown(t *testing.T) {
	g := NewGuess()
	for i := range 1000 {
		learn(g, fmt.Sprint("/known/", i), time.Second, time.Second, time.Second)
	}
	for i := range 100 {
		if got := g.Of(fmt.Sprint("/unknown/", i)); got != time.Second {
			t.Fatalf("unknown: %s, want 1s", got)
		}
	}
	learn(g, "/new", time.Millisecond, time.Millisecond)
	if got := g.Of("/new"); got < 500*time.Millisecond {
		t.Errorf("after %d answers it is believed already: %s", least-1, got)
	}
	learn(g, "/new", time.Millisecond)
	if got := g.Of("/new"); got != time.Millisecond {
		t.Errorf("after %d answers: %s, want 1ms", least, got)
	}
}

func TestGuessIsBounded(t *testing.T) {
	g := NewGuess()
	for i := range 5 * guessShards * shapesPerShard {
		g.Learn(fmt.Sprint("/", i), time.Second)
	}
	n := 0
	for i := range g.shards {
		if l := len(g.shards[i].shapes); l > shapesPerShard {
			t.Errorf("%d shapes in a shard", l)
		} else {
			n += l
		}
	}
	if n < guessShards*shapesPerShard*9/10 {
		t.Errorf("only %d shapes are remembered", n)
	}
}

// TestGuessKeepsItsOwnText checks that no shape keeps the request alive that it
// was cut from.
func TestGuessKeepsItsOwnText(t *testing.T) {
	g := NewGuess()
	all := "/shape and all the rest of a request"
	g.Learn(all[:6], time.Second)
	for i := range g.shards {
		for shape := range g.shards[i].shapes {
			if shape != "/shape" || unsafe.StringData(shape) == unsafe.StringData(all) {
				t.Errorf("it keeps %q", shape)
			}
		}
	}
}

func TestGuessProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGuess()
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for _, c := range rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 50).Draw(t, "costs") {
			cost := time.Duration(c)
			least, most = min(least, cost), max(most, cost)
			g.Learn("/a", cost)
		}
		// The mean is between them, and the deviation no more than they are apart.
		got := g.Of("/a")
		if got < floor || got < least-1 || got > max(floor, most+(most-least)+1) {
			t.Fatalf("costs from %s to %s: %s", least, most, got)
		}
	})
}

// TestGuessConcurrently is for the race detector.
func TestGuessConcurrently(t *testing.T) {
	g := NewGuess()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				shape := fmt.Sprint("/", (i+n)%100)
				g.Learn(shape, time.Millisecond)
				if got := g.Of(shape); got != time.Millisecond {
					t.Errorf("guess %s", got)
				}
			}
		})
	}
	all.Wait()
}
