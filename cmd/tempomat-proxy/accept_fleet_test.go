//go:build accept

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// charge is what one request cost, and when it was told.
type charge struct {
	at   time.Time
	cost time.Duration
}

// charges are those of a client at all sidecars, in order of time.
func charges(t *testing.T, client string, cars ...*sidecarProcess) (all []charge) {
	t.Helper()
	for _, s := range cars {
		lines, _ := s.stderr.since(0)
		for _, line := range lines {
			var l struct {
				Logger string    `json:"logger"`
				Client string    `json:"client"`
				Time   time.Time `json:"time"`
				Cost   float64   `json:"cost_ms"`
			}
			if err := json.Unmarshal([]byte(line), &l); err == nil && l.Logger == "access" && l.Client == client {
				all = append(all, charge{l.Time, time.Duration(l.Cost * 1e6)})
			}
		}
	}
	slices.SortFunc(all, func(a, b charge) int { return a.at.Compare(b.at) })
	return all
}

// greed is how one client did that took all that it could get: CPU-seconds per
// second in the long run, and how far it ever was ahead of one CPU-second per
// second since its first request.
func greed(all []charge, settled time.Duration) (rate, overshoot float64) {
	var sum, early time.Duration
	first, last := all[0].at.Add(-all[0].cost), all[len(all)-1].at
	begin := first
	for _, c := range all {
		sum += c.cost
		overshoot = max(overshoot, sum.Seconds()-c.at.Sub(first).Seconds())
		if c.at.Sub(first) <= settled {
			early, begin = sum, c.at
		}
	}
	return (sum - early).Seconds() / last.Sub(begin).Seconds(), overshoot
}

// TestAcceptFleetRate spreads a greedy client over three sidecars, and beside it
// has as greedy a one ask a sidecar that works alone.
func TestAcceptFleetRate(t *testing.T) {
	sayLoad(t)
	backend := startApache(t, "--workers", "60")
	const yaml = onePerSecond + "throttle: {mode: cap, maxHold: 1h, maxHeld: 1024}\nlog: {access: all}\n"
	m := startMaster(t, "domains: {shop.slash32: {rule: credit, cpus: 1, burst: 0s, memory: 1h}}\n")
	fleet := startFleet(t, 3, m, backend.url, yaml)
	alone := startProxy(t, backend.url, yaml)
	const parallel, cost = 3, 100 // at each of three
	c := newCrowd(t, 75*time.Second)
	for _, s := range fleet {
		c.ask("fleet", parallel, "198.51.100.1", s.url+fmt.Sprintf("/sleep.php?ms=%d", cost))
	}
	c.ask("alone", 3*parallel, "198.51.100.2", alone.url+fmt.Sprintf("/sleep.php?ms=%d", cost))
	c.wait()
	f := newFigures("", "CPU-s/s", "overshoot [CPU-s]")
	rate, overshoot := greed(charges(t, "198.51.100.1", fleet...), 15*time.Second)
	f.row("three sidecars | %.3f | %.2f", rate, overshoot)
	rateAlone, overshootAlone := greed(charges(t, "198.51.100.2", alone), 15*time.Second)
	f.row("one sidecar | %.3f | %.2f", rateAlone, overshootAlone)
	t.Logf("%s\n%+v", f, fleet[0].links())
	if !within(rate, 1, 0.05) || !within(rateAlone, 1, 0.05) {
		t.Errorf("%.3f and %.3f CPU-s/s, want 1 within 5 %%", rate, rateAlone)
	}
}

// looks are what polite clients saw: pages that they asked for at a steady pace.
type looks struct {
	mu     sync.Mutex // guards the following
	took   []time.Duration
	failed int
}

// polite has clients ask for a page each so often, at all sidecars in turn, until
// the time is over.
func polite(t *testing.T, cars []*sidecarProcess, clients int, every, lasts time.Duration) *looks {
	l := &looks{}
	end := time.Now().Add(lasts)
	var all sync.WaitGroup
	for i := range clients {
		h := newClient(t)
		all.Go(func() {
			time.Sleep(every * time.Duration(i) / time.Duration(clients)) // not all at once
			for n := i; ; n++ {
				began := time.Now()
				if began.After(end) {
					return
				}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, cars[n%len(cars)].url+"/sleep.php?ms=10", nil)
				req.Header = from(fmt.Sprintf("203.0.113.%d", i+1))
				res, err := h.Do(req)
				ok := err == nil && res.StatusCode == http.StatusOK
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				l.mu.Lock()
				if l.took = append(l.took, time.Since(began)); !ok {
					l.failed++
				}
				l.mu.Unlock()
				time.Sleep(time.Until(began.Add(every)))
			}
		})
	}
	all.Wait()
	return l
}

func (l *looks) row(f *figures, name string) {
	slices.Sort(l.took)
	at := func(q float64) float64 { return l.took[int(q*float64(len(l.took)-1))].Seconds() * 1e3 }
	f.row("%s | %d | %d | %.1f | %.1f | %.1f", name, len(l.took), l.failed, at(0.5), at(0.99), at(1))
}

// TestAcceptOutage kills the master under load for half a minute.
func TestAcceptOutage(t *testing.T) {
	sayLoad(t)
	backend := startApache(t, "--workers", "40")
	r := testkit.StartRedis(t)
	m := startMaster(t, "store: redis://"+r.Address+"\ndomains: {shop.slash32: {rule: credit, cpus: 0.1, burst: 1s, memory: 1h}}\n")
	const yaml = `cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 0.1, burst: 1s}, slash24: off, slash16: off, userAgent: off}
throttle: {mode: cap, maxHold: 1h, memory: 1h}
log: {access: all}
`
	cars := startFleet(t, 3, m, backend.url, yaml)
	const debtor = "198.51.100.7"
	cars[0].get(debtor, "/sleep.php?ms=10000") // and owes for 100 s
	for _, s := range cars {
		testkit.Eventually(t, "all know the debtor", func() bool { return s.debt(debtor) > 5 })
	}
	c := newCrowd(t, 60*time.Second)
	for _, s := range cars {
		c.ask("greedy", 2, "198.51.100.1", s.url+"/sleep.php?ms=20")
	}
	f := newFigures("master", "pages", "failed", "p50 [ms]", "p99", "slowest")
	phase := func(name string, lasts time.Duration) (began time.Time) {
		began = time.Now()
		l := polite(t, cars, 20, 500*time.Millisecond, lasts)
		l.row(f, name)
		if l.failed > 0 {
			t.Errorf("%s: %d requests failed", name, l.failed)
		}
		return began
	}
	before := phase("there", 12*time.Second)
	m.crash()
	cars[2].kill() // another one takes its place, that has forgotten all
	cars[2] = startProxy(t, backend.url, yaml+m.coordination())
	away := phase("away", 30*time.Second)
	m.start()
	up := time.Now()
	testkit.Eventually(t, "the new sidecar knows the debtor", func() bool { return cars[2].debt(debtor) > 1 })
	known := time.Since(up)
	back := phase("back", 12*time.Second)
	c.all.Wait() // the third sidecar's greedy clients have failed: it was ended
	rate := func(from, to time.Time) float64 {
		var sum time.Duration
		for _, x := range charges(t, "198.51.100.1", cars...) {
			if x.at.After(from) && x.at.Before(to) {
				sum += x.cost
			}
		}
		return sum.Seconds() / to.Sub(from).Seconds()
	}
	if known > time.Second {
		t.Errorf("throttles are back after %v, want a second", known)
	}
	t.Logf("%s\nthe greedy client at two of the sidecars: %.3f CPU-s/s before, %.3f while it was away, %.3f after\nthrottles are back after %v\n%+v",
		f, rate(before, away), rate(away, up), rate(back.Add(2*time.Second), back.Add(12*time.Second)), known, cars[0].links())
}

// slowDown gives a process so many percent of a CPU, by a control group of its own.
func (p *process) slowDown(percent int) {
	p.t.Helper()
	dir := fmt.Sprintf("/sys/fs/cgroup/cpu/tempomat-%d", p.proc.Pid)
	const period = 25_000 // microseconds; the least quota is 1,000
	for _, step := range []func() error{
		func() error { return os.Mkdir(dir, 0o755) },
		func() error { return os.WriteFile(dir+"/cpu.cfs_period_us", []byte(strconv.Itoa(period)), 0) },
		func() error {
			return os.WriteFile(dir+"/cpu.cfs_quota_us", []byte(strconv.Itoa(period*percent/100)), 0)
		},
		func() error { return os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(p.proc.Pid)), 0) },
	} {
		if err := step(); err != nil {
			p.t.Fatalf("this needs control groups of version 1: %v", err)
		}
	}
	p.t.Cleanup(func() {
		p.kill()
		_ = os.Remove(dir)
	})
}

// watcher is a limiter that looks at the orders of a master.
type watcher struct {
	mu          sync.Mutex // guards the following
	heard, past int
	latest      time.Duration // of those that were past
}

func (w *watcher) Debit(time.Time, limiter.Charge) {}
func (w *watcher) SetReplicas(time.Time, int)      {}
func (w *watcher) Raise(now time.Time, _ limiter.Key, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard++; until.Before(now) {
		w.past++
		w.latest = max(w.latest, now.Sub(until))
	}
}

// flood sends so much accounting in a second, of a hundred thousand identifiers,
// until the context ends.
func flood(ctx context.Context, t *testing.T, g *smockron.Gatekeeper, perSecond int) (sent int) {
	ids := make([]string, 100_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	began := time.Now()
	for ctx.Err() == nil {
		for now := time.Now(); sent < int(now.Sub(began).Seconds()*float64(perSecond)); sent++ {
			g.Offer(limiter.Charge{
				Key: limiter.Key{Class: "slash32", ID: ids[sent%len(ids)]}, Event: limiter.Settled, Cost: 20 * time.Second,
				At: now, Received: now, Until: now,
			})
		}
		time.Sleep(time.Millisecond)
	}
	return sent
}

// TestAcceptOverload sends a master that has a small part of a CPU ten times what
// it can take, and as much to another master, for the sidecars to be compared with:
// the flood itself takes time of the machine.
func TestAcceptOverload(t *testing.T) {
	sayLoad(t)
	backend := startApache(t, "--workers", "40")
	const rules, yaml = "queue: 4096\nidentifiers: 200000\ndomains: {shop.slash32: {rule: credit, cpus: 1, burst: 0s}}\n", onePerSecond + "throttle: {mode: cap}\n"
	ours, others := startMaster(t, rules), startMaster(t, rules)
	cars := startFleet(t, 3, ours, backend.url, yaml)
	for _, m := range []*masterProcess{ours, others} {
		m.slowDown(4)
	}
	f := newFigures("flooded", "pages", "failed", "p50 [ms]", "p99", "slowest")
	run := func(name string, m *masterProcess, lasts time.Duration) {
		accounting, control := m.address, m.address+".control"
		g := smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Queue: 20_000, Routes: []smockron.Route{
			{Domain: "shop.slash32", Class: "slash32", Master: smockron.Addresses{Accounting: accounting, Control: control}},
		}})
		ctx, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var w watcher
		sent := 0
		all.Go(func() { _ = g.Run(ctx, &w) })
		all.Go(func() { sent = flood(ctx, t, g, 40_000) })
		before := m.counts()
		polite(t, cars, 20, 500*time.Millisecond, 5*time.Second)
		m.forgetMost()
		early, _ := m.memory()
		polite(t, cars, 20, 500*time.Millisecond, lasts).row(f, name)
		late, most := m.memory()
		end()
		all.Wait()
		after := m.counts()
		s := g.State()[0]
		t.Logf("%s: %d offered, %d sent, %d taken, %d dropped by the master; %.1f MB after 5 s, %.1f at the end, %.1f at most; %d orders heard, %d were past, by %v at most; late orders not sent: %d",
			name, sent, s.Sent, after.Domains[0].Counts.Accepted-before.Domains[0].Counts.Accepted,
			after.Counts.Overload-before.Counts.Overload, early, late, most, w.heard, w.past, w.latest, after.Counts.Late)
	}
	for range 3 {
		run("another master", others, 10*time.Second)
		run("their master", ours, 10*time.Second)
	}
	run("their master, longer", ours, 30*time.Second)
	t.Log(f)
}

// counts are what the master says of itself.
func (m *masterProcess) counts() (s master.State) {
	m.t.Helper()
	res := fetch(m.t, newUnixClient(m.t, filepath.Join(filepath.Dir(m.file), "admin")), http.MethodGet, "http://master/v1/master", nil, nil)
	if err := json.Unmarshal([]byte(res.body), &s); err != nil {
		m.t.Fatal(err)
	}
	return s
}
