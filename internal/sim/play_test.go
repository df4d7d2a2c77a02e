package sim

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// isFull reports whether the run is a full one. The environment selects the rows and seeds:
// TEMPOMAT_SCENARIOS=full plays five seeds instead of one, and also the rare rows. TEMPOMAT_SEEDS=3 plays three
// seeds. TEMPOMAT_ONLY=res-flat,flash plays the rows whose names contain res-flat or flash, rare or not, and
// judges none.
func isFull() bool { return os.Getenv("TEMPOMAT_SCENARIOS") == "full" }

func onlySome() bool { return os.Getenv("TEMPOMAT_ONLY") != "" }

func seeds() int {
	if n, err := strconv.Atoi(os.Getenv("TEMPOMAT_SEEDS")); err == nil && n > 0 {
		return n
	}
	if isFull() {
		return 5
	}
	return 1
}

// named reports whether the environment selects a row of that name.
func named(row string) bool {
	return slices.ContainsFunc(strings.Split(os.Getenv("TEMPOMAT_ONLY"), ","), func(part string) bool { return strings.Contains(row, part) })
}

// chosen returns the scenarios that the environment selects.
func chosen(all []Scenario) (some []Scenario) {
	for _, s := range all {
		if onlySome() && named(s.Name) || !onlySome() && (!s.Rare || isFull()) {
			some = append(some, s)
		}
	}
	return some
}

// result holds the median over the seeds, and the worst value.
type result struct {
	asked                 int // the sum over the seeds
	good, good5           float64
	p50, p95, p99, failed float64
	used, attack, waiting float64
	held                  int
}

// newWorld does what NewWorld does, but ends the test if there is an error.
func newWorld(t *testing.T, seed uint64, s Scenario, mode limiter.Mode) *World {
	t.Helper()
	w, err := NewWorld(seed, s, mode)
	testkit.Must(t, err)
	return w
}

// play runs a scenario with each seed and returns the results of the given kinds of clients.
func play(t *testing.T, s Scenario, mode limiter.Mode, kinds ...string) map[string]result {
	t.Helper()
	return playAll(t, []Scenario{s}, mode, func(Scenario) []string { return kinds })[0]
}

// playAll runs scenarios with each seed, as many worlds at a time as there are CPUs. It returns the results in
// the order of the scenarios.
func playAll(t *testing.T, all []Scenario, mode limiter.Mode, kinds func(Scenario) []string) []map[string]result {
	t.Helper()
	n := seeds()
	runs, errs := make([]map[string]result, len(all)*n), make([]error, len(all)*n)
	parallel(len(runs), func(i int) {
		s := all[i/n]
		runs[i], errs[i] = playOnce(s, uint64(i%n+1), mode, kinds(s))
	})
	results := make([]map[string]result, len(all))
	for i, s := range all {
		results[i] = map[string]result{}
		for _, k := range kinds(s) {
			var rs []result
			for j := i * n; j < (i+1)*n; j++ {
				if errs[j] != nil {
					t.Fatal(errs[j])
				}
				rs = append(rs, runs[j][k])
			}
			results[i][k] = median(rs)
		}
	}
	return results
}

func playOnce(s Scenario, seed uint64, mode limiter.Mode, kinds []string) (map[string]result, error) {
	end := s.until()
	w, err := NewWorld(seed, s, mode)
	if err != nil {
		return nil, err
	}
	from := Attack
	if s.Cold {
		from = 0
	}
	w.Run(s.Clients(), from, end)
	got := map[string]result{}
	for _, k := range kinds {
		got[k] = result{
			w.Asked(k), w.Good(k), w.Within(k, 5),
			w.Percentile(k, .5), w.Percentile(k, .95), w.Percentile(k, .99), w.Failed(k),
			w.Used(), w.Used("attack"), w.UsedWhileWaiting(), w.held,
		}
	}
	return got, nil
}

func median(rs []result) result {
	mid := func(f func(result) float64) float64 {
		var xs []float64
		for _, r := range rs {
			xs = append(xs, f(r))
		}
		slices.Sort(xs)
		return xs[len(xs)/2]
	}
	m := result{
		good: mid(func(r result) float64 { return r.good }), good5: mid(func(r result) float64 { return r.good5 }),
		p50: mid(func(r result) float64 { return r.p50 }), p95: mid(func(r result) float64 { return r.p95 }),
		p99: mid(func(r result) float64 { return r.p99 }), used: mid(func(r result) float64 { return r.used }),
		attack: mid(func(r result) float64 { return r.attack }), waiting: 1,
	}
	for _, r := range rs { // of these values, the worst counts
		m.asked += r.asked
		m.failed, m.waiting, m.held = max(m.failed, r.failed), min(m.waiting, r.waiting), max(m.held, r.held)
	}
	return m
}

// parallel calls do for 0 to n-1, as many at a time as there are CPUs.
func parallel(n int, do func(i int)) {
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	all.Wait()
}
