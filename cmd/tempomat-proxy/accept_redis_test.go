//go:build accept

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// awayRig is four sidecars before one backend, under load: one that is alone, two
// that share, and another one, with a strict limit in Redis say.
type awayRig struct {
	t    *testing.T
	cars [4]*sidecarProcess
	page string

	backs int // calls of back

	mu    sync.Mutex // guards the following
	took  [4][]time.Duration
	spent map[string]time.Duration // by client, at those that share, at most
	bad   []string
}

// The sidecars of a rig.
const (
	carAlone = iota
	carShares
	carSharesToo
	carOther
)

const awayBurst = 2 * time.Second

// newAwayRig starts one, whose sidecars have these further lines of configuration
// each. Its pages take 10 ms.
func newAwayRig(t *testing.T, further [4]string) *awayRig {
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/dear":
			time.Sleep(awayBurst + 300*time.Millisecond)
		case "/":
			time.Sleep(10 * time.Millisecond)
		}
	}))
	t.Cleanup(backend.Close)
	yaml := fmt.Sprintf(`
cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 0.01, burst: %v}, slash24: off, slash16: off, userAgent: off}
throttle: {mode: cap, maxHold: 1m}
`, awayBurst)
	r := &awayRig{t: t, page: "/", spent: map[string]time.Duration{}}
	for i, text := range further {
		r.cars[i] = startProxy(t, backend.URL, yaml+text)
	}
	return r
}

// newRedisRig is one whose last sidecar has a strict limit.
func newRedisRig(t *testing.T, redis string) *awayRig {
	shares := "coordination: {kind: redis, redis: " + redis + "}\n"
	strict := "limits: [{name: strict, size: 1000000, dripRate: 1h, strict: true}]\ncoordination: {redis: " + redis + "}\n"
	return newAwayRig(t, [4]string{"", shares, shares, strict})
}

// load has clients ask all sidecars in turn, in random order, and stay within their
// bursts, until it is told to stop.
func (r *awayRig) load(stop <-chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	for worker := range 4 {
		h := newClient(r.t)
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				client := fmt.Sprintf("10.%d.%d.%d", worker, n/6>>8&255, n/6&255)
				for _, i := range rand.Perm(len(r.cars)) {
					r.ask(h, i, client)
				}
			}
		})
	}
	return &all
}

func (r *awayRig) ask(h *http.Client, i int, client string) {
	req, _ := http.NewRequest(http.MethodGet, r.cars[i].url+r.page, nil)
	req.Header = from(client)
	began := time.Now()
	res, err := h.Do(req)
	var status string
	if err != nil {
		status = err.Error()
	} else {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		status = res.Status
	}
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took[i] = append(r.took[i], took)
	if i == carShares || i == carSharesToo {
		r.spent[client] += took
	}
	if status != "200 OK" {
		r.bad = append(r.bad, status)
	}
}

// measure compares what requests take for a while.
func (r *awayRig) measure(f *figures, phase string, lasting time.Duration) {
	r.mu.Lock()
	r.took = [4][]time.Duration{}
	r.mu.Unlock()
	time.Sleep(lasting)
	r.mu.Lock()
	took := r.took
	r.mu.Unlock()
	alone := newQuantiles(took[carAlone])
	share := newQuantiles(append(slices.Clone(took[carShares]), took[carSharesToo]...))
	strict := newQuantiles(took[carOther])
	ratio := share.p99 / alone.p99
	f.row("%s | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.3f | %.2f | %.2f | %.2f", phase, len(took[carAlone]),
		alone.p50, alone.p99, alone.most, share.p50, share.p99, share.most, ratio, strict.p50, strict.p99, strict.most)
	if ratio > 1.1 {
		r.t.Errorf("%s: p99 %.2f ms, and %.2f ms without Redis", phase, share.p99, alone.p99)
	}
}

// quantiles are in milliseconds.
type quantiles struct{ p50, p99, most float64 }

func newQuantiles(took []time.Duration) quantiles {
	slices.Sort(took)
	at := func(i int) float64 { return float64(took[i]) / 1e6 }
	return quantiles{at(len(took) / 2), at(len(took) * 99 / 100), at(len(took) - 1)}
}

// back waits until what is spent at one sidecar is known at the other, and tells
// how long that took from an event on. It has clients run into debt before.
func (r *awayRig) back(name string, event func()) time.Duration {
	r.t.Helper()
	const warm = 2500 * time.Millisecond
	r.backs++
	began := time.Now()
	var happened time.Time
	var clients []string
	for n := 0; ; n++ {
		client := fmt.Sprintf("192.0.%d.%d", r.backs, n&255)
		if n > 255 {
			r.t.Fatalf("%s: nothing is shared 25 s after", name)
		}
		clients = append(clients, client)
		_ = r.cars[carShares].later(from(client), "/dear?"+name)
		for range 3 {
			time.Sleep(30 * time.Millisecond)
			if happened.IsZero() && time.Since(began) > warm {
				event()
				happened = time.Now()
			}
			for _, c := range clients[max(0, len(clients)-32):] {
				row, ok := r.cars[carSharesToo].account("slash32", c)
				if !happened.IsZero() && ok && row.Level < 0 {
					return time.Since(happened)
				}
			}
		}
	}
}

// settle looks for debts that nobody made, of clients who can save up a burst.
func (r *awayRig) settle(stop chan struct{}, all *sync.WaitGroup, burst time.Duration) {
	r.t.Helper()
	close(stop)
	all.Wait()
	if len(r.bad) > 0 {
		r.t.Errorf("%d requests failed, such as: %s", len(r.bad), r.bad[0])
	}
	looked := 0
	for client, spent := range r.spent {
		for _, i := range []int{carShares, carSharesToo} {
			row, ok := r.cars[i].account("slash32", client)
			if !ok {
				continue
			}
			if looked++; row.Level < (burst-spent).Seconds()-0.001 {
				r.t.Errorf("sidecar %d: %s has %.3f, and spent at most %v", i, client, row.Level, spent)
			}
		}
	}
	r.t.Logf("%d accounts: no debt but what was spent", looked)
	for _, i := range []int{carShares, carOther} {
		_, out, _ := r.cars[i].doctor("status")
		r.t.Logf("%s%v", out, r.cars[i].stats().Counters)
	}
}

var awayColumns = []string{
	"[ms]", "requests", "alone p50", "p99", "most", "shared p50", "p99", "most", "p99/p99", "strict p50", "p99", "most",
}

// TestAcceptRedisAway has one Redis killed, restarted empty, and stopped in its
// tracks under load.
func TestAcceptRedisAway(t *testing.T) {
	sayLoad(t)
	redis := testkit.StartRedis(t)
	r := newRedisRig(t, fmt.Sprintf("{addresses: [%q]}", redis.Address))
	stop := make(chan struct{})
	all := r.load(stop)
	_ = r.back("linked", func() {})
	f := newFigures(awayColumns...)
	const each = 10 * time.Second
	r.measure(f, "there", each)
	redis.Kill()
	r.measure(f, "killed", each)
	restarted := r.back("restarted", redis.Start)
	r.measure(f, "restarted, empty", each)
	redis.Pause()
	r.measure(f, "stopped", each)
	resumed := r.back("resumed", redis.Resume)
	r.measure(f, "resumed", each)
	r.settle(stop, all, awayBurst)
	t.Log(f)
	t.Logf("shared again %v after the restart, %v after it went on", restarted, resumed)
	if max(restarted, resumed) > 2*time.Second {
		t.Error("limits are back too late")
	}
}

// TestAcceptRedisCluster has one of three masters of a cluster killed under load.
func TestAcceptRedisCluster(t *testing.T) {
	sayLoad(t)
	nodes := testkit.StartRedisCluster(t, 1)
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.Address)
	}
	r := newRedisRig(t, fmt.Sprintf("{cluster: true, addresses: [%s]}", strings.Join(addresses, ", ")))
	stop := make(chan struct{})
	all := r.load(stop)
	_ = r.back("linked", func() {})
	f := newFigures(awayColumns...)
	const each = 10 * time.Second
	r.measure(f, "there", each)
	var over time.Duration
	var failing sync.WaitGroup
	failing.Go(func() {
		began := time.Now()
		testkit.KillMaster(t, nodes)
		over = time.Since(began)
	})
	r.measure(f, "one killed", each)
	failing.Wait()
	_ = r.back("failed-over", func() {})
	r.measure(f, "failed over", each)
	r.settle(stop, all, awayBurst)
	t.Log(f)
	t.Logf("a replica took over after %v", over)
}
