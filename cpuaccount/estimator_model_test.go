package cpuaccount

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is the estimator in its simplest form: maps, double precision, no limits. It has shapes and clients,
// but no URLs and no known people.
type model struct {
	shapes    map[string]*modelStat
	perClient map[[2]string]*modelStat
}

type modelStat struct {
	mean, dev float64
	n         int
	at        time.Time
	overran   bool
	clients   map[string]bool
	over      float64 // the cost of a request that overran
	overAt    time.Time
}

func (s *modelStat) learn(x float64) {
	s.n++
	if s.overran {
		s.dev /= 2
		s.overran = s.dev > 3*s.mean
	}
	a := max(0.05, 1/float64(s.n))
	if s.n > 1 {
		s.dev += a * (math.Abs(x-s.mean) - s.dev)
	}
	s.mean += a * (x - s.mean)
}

func (s *modelStat) overLeft(now time.Time) float64 {
	return s.over * math.Exp2(-now.Sub(s.overAt).Seconds()/10)
}

func (m *model) believed(shape, client string) bool {
	p := m.shapes[shape]
	return p != nil && p.n >= 3 && (len(p.clients) >= 3 || p.clients[client])
}

func (m *model) of(now time.Time, shape, client string) (cost float64, sure bool) {
	p, s := m.shapes[shape], m.perClient[[2]string{shape, client}]
	others := p.mean + p.dev
	x, sure := others, true
	if s != nil {
		x = s.mean + s.dev
		if s.n == 0 {
			x = max(x, others)
		}
		if x > others {
			if s.n > 0 {
				x = others + (x-others)*float64(s.n)/(float64(s.n)+3)
			}
			x = others + (x-others)*math.Exp2(-now.Sub(s.at).Seconds()/10)
		}
		sure = !(s.overran && x > max(4*others, 0.025))
	}
	expected := x
	if s == nil || s.n == 0 {
		expected = others
	}
	if left := p.overLeft(now); left > max(4*expected, 0.025) {
		return max(left, x), false
	}
	return x, sure
}

func (m *model) pair(now time.Time, shape, client string) *modelStat {
	k := [2]string{shape, client}
	if m.perClient[k] == nil {
		m.perClient[k] = &modelStat{at: now}
	}
	return m.perClient[k]
}

func (m *model) learn(now time.Time, shape, client string, x float64) {
	p := m.shapes[shape]
	if p == nil {
		p = &modelStat{clients: map[string]bool{}}
		m.shapes[shape] = p
	}
	if p.over > 0 && x <= max(4*(p.mean+p.dev), 0.025) {
		if p.over /= 2; p.overLeft(now) < floor.Seconds() {
			p.over = 0
		}
	}
	if p.n < 3 {
		p.learn(x)
	} else {
		p.learn(min(x, max(2, 4*(p.mean+p.dev))))
	}
	p.clients[client] = true
	s := m.pair(now, shape, client)
	s.at = now
	s.learn(x)
}

func (m *model) atLeast(now time.Time, shape, client string, x float64) {
	p, s := m.shapes[shape], m.pair(now, shape, client)
	overruns := s.n > 0 && (x > max(4*(s.mean+s.dev), 0.025) || s.overran && x > s.mean+s.dev)
	if s.overran = s.overran || overruns; s.n < 3 || overruns {
		s.at = now
	}
	if s.n < 3 {
		s.mean = max(s.mean, x)
	} else if overruns {
		s.dev = max(s.dev, x-s.mean)
	}
	if s.n == 0 {
		overruns = x > max(4*(p.mean+p.dev), 0.025)
	}
	if overruns && p.overLeft(now) <= x {
		p.over, p.overAt = x, now
	}
}

// TestEstimatorIsTheModel plays the same answers to an Estimator and to the model.
func TestEstimatorIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, m := newEstimator(), &model{shapes: map[string]*modelStat{}, perClient: map[[2]string]*modelStat{}}
		now := epoch
		for step := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			k := Kind{
				Shape:  rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "shape"),
				Client: rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "client"),
			}
			// No cost is exactly four times another, so the test doesn't depend on precision.
			cost := time.Duration(rapid.SampledFrom([]float64{1, 3, 7}).Draw(t, "cost") * math.Pow10(rapid.IntRange(5, 9).Draw(t, "power")))
			switch {
			case rapid.IntRange(0, 4).Draw(t, "call") > 0:
				g.Learn(now, k, cost, 0)
				m.learn(now, k.Shape, k.Client, cost.Seconds())
			case m.believed(k.Shape, k.Client):
				cost += cost * time.Duration(1000*rapid.IntRange(1, 100).Draw(t, "more")+step) / 730_000
				g.AtLeast(now, k, cost, 0)
				m.atLeast(now, k.Shape, k.Client, cost.Seconds())
			}
			if !m.believed(k.Shape, k.Client) {
				continue
			}
			want, sure := m.of(now, k.Shape, k.Client)
			want = max(want, floor.Seconds())
			got, _, s := g.Of(now, k)
			if math.Abs(got.Seconds()-want) > 1e-4*max(1, want) || s != sure { // the estimates are single precision
				t.Fatalf("%+v: %s (sure: %t), the model has %.6f s (%t)", k, got, s, want, sure)
			}
		}
	})
}

// TestWithheldAnswers: a client gets answers only while its requests count as light, which is the worst that a
// queue could do. Even if its requests are mistaken for expensive ones, the client must never be without an answer
// for half a minute.
func TestWithheldAnswers(t *testing.T) {
	const light = 100 * time.Millisecond
	rapid.Check(t, func(t *rapid.T) {
		g := newEstimator()
		others(g, "/a", 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond)
		k := Kind{Shape: "/a", Client: "me"}
		mistaken := rapid.Float64Range(0.02, 0.6).Draw(t, "mistaken")
		for range rapid.IntRange(1, 50).Draw(t, "times") {
			g.perClient.learn(perClientKey(g, k), at(0).UnixMilli(), mistaken, 0)
		}
		answered := 0
		for s := range 120 {
			others(g, "/a", 20*time.Millisecond)
			if got, _, _ := g.Of(at(float64(s)), k); got <= light {
				g.Learn(at(float64(s)), k, 20*time.Millisecond, 0)
				answered = s
			} else if s-answered >= 30 {
				t.Fatalf("mistaken for %g s: after %d s it is still %s, last answered at %d s", mistaken, s, got, answered)
			}
		}
	})
}

// TestInventedClientsPushNoneOut floods the table of pairs with clients that make one request each, while one
// client comes back now and then. The table keeps that client and the latest of the others.
func TestInventedClientsPushNoneOut(t *testing.T) {
	g := newEstimator()
	me := Kind{Shape: "/a", Client: "me"}
	const flood = 150_000 // more than twice as many as there is room for
	for i := range flood {
		now := at(float64(i) / 100)
		g.Learn(now, Kind{Shape: "/a", Client: fmt.Sprint("invented ", i)}, time.Second, 0)
		if i%1000 == 0 {
			g.Learn(now, me, 10*time.Millisecond, 0)
		}
	}
	if got, _, sure := g.Of(at(flood/100), me); got > 20*time.Millisecond || !sure {
		t.Errorf("own cost 10 ms among others of 1 s: %s (sure: %t)", got, sure)
	}
	const latest = sets * ways / 4
	known := 0
	for i := flood - latest; i < flood; i++ {
		if _, ok := g.perClient.find(perClientKey(g, Kind{Shape: "/a", Client: fmt.Sprint("invented ", i)})); ok {
			known++
		}
	}
	if known < latest*95/100 {
		t.Errorf("%d of the latest %d clients are known", known, latest)
	}
}

// TestANewKindInheritsNoCost fills a shard, so the next kind takes the place of another one.
func TestANewKindInheritsNoCost(t *testing.T) {
	g := newEstimator()
	for i := range 4 * shards * kindsPerShard {
		shape := fmt.Sprint("/dear/", i)
		others(g, shape, time.Hour, time.Hour, time.Hour)
	}
	for i := range 100 {
		shape := fmt.Sprint("/cheap/", i)
		others(g, shape, time.Millisecond, time.Millisecond, time.Millisecond)
		expectEstimate(t, g, 0, page(shape), time.Millisecond, true)
	}
}

func TestGuessAllocatesNothing(t *testing.T) {
	g := NewEstimator()
	k := Kind{Shape: "/index.php?page&n", URL: "/index.php?page=home&n=1", Client: "192.0.2.1"}
	g.Learn(at(0), k, time.Millisecond, 0)
	if n := testing.AllocsPerRun(100, func() {
		g.Of(at(1), k)
		g.AtLeast(at(1), k, time.Millisecond, 0)
		g.Learn(at(1), k, time.Millisecond, 0)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// TestTheLeastRequestedMakesRoom checks that the evicted kind always has the smallest count, even after the
// counts were halved.
func TestTheLeastRequestedMakesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sketchShard{index: map[uint64]int{}}
		for i := range kindsPerShard {
			s.placeLocked(uint64(i))
			s.count[i] = uint32(rapid.IntRange(1, 4).Draw(t, "count"))
		}
		for n := range rapid.IntRange(1, 100).Draw(t, "more") {
			if i := rapid.IntRange(0, 2*kindsPerShard).Draw(t, "again"); i < kindsPerShard {
				s.count[i]++
				continue
			}
			least := slices.Min(s.count)
			i := s.placeLocked(uint64(kindsPerShard + n))
			if s.count[i] != least || len(s.index) != kindsPerShard {
				t.Fatalf("a kind with count %d was evicted, the smallest is %d; %d are indexed", s.count[i], least, len(s.index))
			}
			s.count[i]++
		}
	})
}
