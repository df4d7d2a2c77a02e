package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"tempomat/limiter"
)

// harm compares the results of a kind of client with the gate and without it.
type harm struct {
	row, kind     string
	with, without outcome
	short         float64 // fraction of the time during which CPUs or workers were short without the gate
}

type outcome struct{ rate, p50, p95, failed float64 }

func (o outcome) String() string {
	return fmt.Sprintf("%7.2f/s p50 %6.0f p95 %6.0f fail %5.1f%%", o.rate, o.p50, o.p95, 100*o.failed)
}

func (h harm) String() string {
	return fmt.Sprintf("%-32s %-14s | %v | with %v | short %3.0f%%", h.row, h.kind, h.without, h.with, 100*h.short)
}

// is returns how the clients' results are worse with the gate.
func (h harm) is() (why []string) {
	if h.with.failed > h.without.failed+0.0005 {
		why = append(why, fmt.Sprintf("%s: %.1f %% fail, without the gate %.1f %%", h.kind, 100*h.with.failed, 100*h.without.failed))
	}
	if h.with.rate < 0.95*h.without.rate {
		why = append(why, fmt.Sprintf("%s: %.2f/s, without the gate %.2f/s", h.kind, h.with.rate, h.without.rate))
	}
	if most := 1.1*h.without.p95 + 20; h.short < 0.1 && h.with.p95 > most {
		why = append(why, fmt.Sprintf("%s: p95 %.0f ms, without the gate %.0f ms", h.kind, h.with.p95, h.without.p95))
	}
	return why
}

// compareOrdinary plays a site with the gate and without.
func compareOrdinary(s Scenario, seed uint64) (all []harm, worse []string, err error) {
	var worlds [2]*World
	for i, mode := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		w, err := NewWorld(seed, s, mode)
		if err != nil {
			return nil, nil, err
		}
		clients := s.Clients()
		for i, c := range clients {
			c.random = rand.New(rand.NewPCG(seed, uint64(i)))
		}
		w.Run(clients, 0, s.until())
		worlds[i] = w
	}
	of := func(w *World, kind string) outcome {
		return outcome{w.Answered(kind), w.Percentile(kind, .5), w.Percentile(kind, .95), w.Failed(kind)}
	}
	for _, kind := range demanded(s) {
		h := harm{s.Name, kind, of(worlds[1], kind), of(worlds[0], kind), worlds[0].Short()}
		all, worse = append(all, h), append(worse, h.is()...)
	}
	return all, worse, nil
}

// TestOrdinarySitesAreNotHarmed plays sites without an attack, with the gate and without it. Fewer pages, more
// failures, or longer waits while nothing is short count as harm. TEMPOMAT_SCENARIOS=ordinary plays all rows.
func TestOrdinarySitesAreNotHarmed(t *testing.T) {
	full := os.Getenv("TEMPOMAT_SCENARIOS") == "ordinary"
	var rows []Scenario
	for _, s := range Ordinary(full || onlySome()) {
		if !onlySome() || named(s.Name) {
			rows = append(rows, s)
		}
	}
	tables, faults := make([]string, len(rows)), make([][]string, len(rows))
	parallel(len(rows), func(i int) {
		var err error
		if tables[i], faults[i], err = judgeOrdinary(rows[i]); err != nil {
			t.Error(err)
		}
	})
	known := map[string]bool{}
	for i, s := range rows {
		why, pattern := pendingOrdinary(s.Name)
		known[pattern] = known[pattern] || len(faults[i]) > 0
		if late := pattern != ""; len(faults[i]) > 0 && !late {
			t.Errorf("%s: %s", s.Name, strings.Join(faults[i], "; "))
		} else if late && len(faults[i]) > 0 {
			tables[i] += fmt.Sprintf("    pending, as %s: %s\n", why, strings.Join(faults[i], "; "))
		}
	}
	for pattern, fails := range known {
		if pattern != "" && !fails && full {
			t.Errorf("the pattern %s is pending, but no row that it matches is harmed", pattern)
		}
	}
	t.Log("\n" + strings.Join(tables, ""))
}

// judgeOrdinary plays a site. If the gate harms the site, judgeOrdinary plays it with two other seeds, and the
// majority of the three decides.
func judgeOrdinary(s Scenario) (table string, faults []string, err error) {
	all, faults, err := compareOrdinary(s, 1)
	for _, h := range all {
		table += h.String() + "\n"
	}
	if err != nil || len(faults) == 0 || onlySome() {
		return table, faults, err
	}
	faults, err = majority(faults, func(n uint64) (again []string, err error) {
		_, again, err = compareOrdinary(s, n+1)
		return again, err
	})
	return table, faults, err
}
