package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tempomat/limiter"
)

// hog is a crawler's page. It holds a worker for a while without computing, and then uses a CPU for a while.
type hog struct{ cpu, sleep float64 }

func (h hog) String() string { return fmt.Sprintf("%g+%gs", h.sleep, h.cpu) }

// beside is a site next to a hog, with a few people and newcomers who use a third of the CPUs.
type beside struct {
	cpus, workers int
	page          float64 // seconds of a CPU
	hog           hog
	parallel      int
	spread        bool // each connection has its own address
	steps         bool // workers reduce their priority
}

func (b beside) name() string {
	return fmt.Sprintf("%dcpu-%dworkers-pages%gms-%dx%v-spread=%t", b.cpus, b.workers, 1000*b.page, b.parallel, b.hog, b.spread)
}

func (b beside) scenario() Scenario {
	page := []Page{{Path: "/page", CPU: b.page}}
	cpus := float64(b.cpus)
	s := siege(b.name(), site{cookies: true}, func() []*Client {
		known := asking(people(max(1, min(60, int(0.2*cpus*(4+b.page)/b.page+0.5)))), page)
		for _, c := range known {
			c.Think = 4
		}
		addresses, each := 1, b.parallel
		if b.spread {
			addresses, each = b.parallel, 1
		}
		crawlers := asking(crawlers(addresses, each, 0x20000001, 0x10000, robot, ""), []Page{{Path: "/hog", Query: "id=", CPU: b.hog.cpu, Sleep: b.hog.sleep}})
		for _, c := range crawlers {
			c.Timeout = 1000
		}
		return join(known, newcomers(max(6, min(100, int(15*cpus/b.page))), Attack+20, Attack+170, page), crawlers)
	}, "new", "human")
	s.CPUs, s.Workers, s.Steps = cpus, b.workers, b.steps
	return s
}

// sweep returns all rows of the grid, or a few of them.
func sweep(all, steps bool) (grid []beside) {
	machines, pages, parallel, spread := [][2]int{{1, 8}, {2, 16}}, []float64{0.02, 0.1, 0.3, 0.6}, []int{3, 20}, []bool{false}
	hogs := []hog{{0.5, 0}, {2, 0}, {30, 0}, {120, 0}, {0.001, 30}}
	if all {
		machines, parallel, spread = [][2]int{{1, 8}, {2, 16}, {2, 150}, {4, 32}}, []int{1, 3, 8, 20}, []bool{false, true}
		pages = []float64{0.02, 0.1, 0.2, 0.3, 0.5, 0.8, 1.5, 3}
		hogs = append(hogs, hog{8, 0}, hog{0.001, 5}, hog{0.001, 120}, hog{2.5, 2.5}, hog{10, 50})
	}
	for _, m := range machines {
		for _, p := range pages {
			for _, h := range hogs {
				for _, n := range parallel {
					for _, s := range spread {
						if b := (beside{m[0], m[1], p, h, n, s, steps}); !onlySome() || named(b.name()) {
							grid = append(grid, b)
						}
					}
				}
			}
		}
	}
	return grid
}

// judgeBeside plays a scenario with the gate and without it, formats both results, and returns the kinds of
// clients for which more requests fail with the gate.
func judgeBeside(s Scenario, seed uint64) (worse []string, lines string, err error) {
	kinds := []string{"new", "human"}
	with, err := playOnce(s, seed, limiter.Fair, kinds)
	if err != nil {
		return nil, "", err
	}
	without, err := playOnce(s, seed, limiter.Observe, kinds)
	for _, k := range kinds {
		f, o := with[k], without[k]
		lines += fmt.Sprintf("\n%-52s %-6s %4d | good %3.0f%% %3.0f%% <5s %3.0f%% %3.0f%% p50 %6.0f %6.0f p95 %6.0f %6.0f fail %3.0f%% %3.0f%%",
			s.Name, k, f.asked, 100*f.good, 100*o.good, 100*f.good5, 100*o.good5, f.p50, o.p50, f.p95, o.p95, 100*f.failed, 100*o.failed)
		if f.failed > o.failed+0.1 {
			worse = append(worse, fmt.Sprintf("%s: %.0f %% of the requests of %s fail, and %.0f %% without the gate", s.Name, 100*f.failed, k, 100*o.failed))
		}
	}
	return worse, lines, err
}

// TestNobodyIsWorseOffThanWithoutGate plays sites next to hogs of all kinds. Requests that would succeed
// without the gate may not fail because of it. TEMPOMAT_SCENARIOS=sweep plays the whole grid; sweep+steps plays
// it with workers that reduce their priority. TEMPOMAT_ONLY selects rows by parts of their names.
func TestNobodyIsWorseOffThanWithoutGate(t *testing.T) {
	mode := os.Getenv("TEMPOMAT_SCENARIOS")
	grid := sweep(mode == "sweep" || mode == "sweep+steps", mode == "sweep+steps")
	lines := make([]string, len(grid))
	parallel(len(grid), func(i int) {
		var worse []string
		var err error
		if worse, lines[i], err = judgeBeside(grid[i].scenario(), 1); err != nil {
			t.Error(err)
		}
		for _, w := range worse {
			t.Error(w)
		}
	})
	t.Log("with the gate and without" + strings.Join(lines, ""))
}
