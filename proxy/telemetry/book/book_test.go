package book

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

var began = time.Unix(1_000_000, 0)

// request is an answered request of a client.
func request(client netip.Addr, shape, target string, cost time.Duration) telemetry.Record {
	return telemetry.Record{
		Arrived: began, Request: &http.Request{Method: "GET", Host: "site.example", RequestURI: target},
		Who: &classify.Result{Client: client, Shape: shape}, Status: 200, Cost: cost,
	}
}

func entry(now time.Time, r telemetry.Record, weight float64) (e telemetry.Entry) {
	e.Set(now, &r)
	e.Weight = weight
	return e
}

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// play runs a Book for some seconds; each returns the entries of a tick.
func play(b *Book, from, seconds int, each func(now time.Time) []telemetry.Entry) {
	for i := range seconds * 4 {
		now := began.Add(time.Duration(from)*time.Second + time.Duration(i+1)*time.Second/4)
		if each != nil {
			b.Take(now, batchOf(each(now)...))
		}
		if i%4 == 3 {
			b.Tick(now, Moment{})
		}
	}
}

// TestSums: the sums of the groups equal those of the entries, and cost that was reported while requests ran
// counts once.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(began)
		now := began
		var cpu, n, refused, wasted float64
		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Millisecond)
			r := request(address(rapid.IntRange(0, 9).Draw(t, "client")), "/a", "/a", time.Duration(rapid.IntRange(0, 3000).Draw(t, "cost"))*time.Millisecond)
			r.Group = telemetry.Group(rapid.IntRange(0, groups-1).Draw(t, "group"))
			r.Outcome = telemetry.Outcome(rapid.IntRange(0, 6).Draw(t, "outcome"))
			r.Orphan = rapid.Bool().Draw(t, "orphan")
			weight := float64(rapid.IntRange(1, 50).Draw(t, "weight"))
			if told := rapid.IntRange(0, 3).Draw(t, "told"); told > 0 {
				part := r
				part.Cost = r.Cost / time.Duration(told)
				b.Running(now, []telemetry.Entry{entry(now, part, 1)})
				r.Told, weight = part.Cost, 1
				if r.Orphan {
					r.ToldWasted = part.Cost
				}
			}
			b.Take(now, batchOf(entry(now, r, weight)))
			cpu, n = cpu+r.Cost.Seconds()*weight, n+weight
			if r.Outcome == telemetry.Refused {
				refused += weight
			}
			if r.Orphan {
				wasted += r.Cost.Seconds() * weight
			}
		}
		o := b.Overview(Moment{})
		long := max(1, now.Sub(began).Seconds())
		var gotN, gotRefused, gotCPU float64
		for _, g := range o.Groups {
			gotCPU, gotN, gotRefused = gotCPU+g.CPU, gotN+g.Rate, gotRefused+g.Refused
		}
		for name, x := range map[string][2]float64{
			"CPU": {gotCPU, cpu / long}, "all CPU": {o.CPU, cpu / long}, "rate": {gotN, n / long},
			"refused": {gotRefused, refused / long}, "wasted": {o.Wasted, wasted / long},
		} {
			if math.Abs(x[0]-x[1]) > 1e-3 {
				t.Errorf("%s: %v, want %v", name, x[0], x[1])
			}
		}
		shapes := b.Shapes(10)
		byGroup := 0.0
		for _, r := range shapes.Rows {
			for _, x := range r.Groups {
				byGroup += x
			}
			if math.Abs(byGroup-r.CPU) > 1e-2*max(1, r.CPU) {
				t.Errorf("%s costs %v, its groups %v", r.Shape, r.CPU, byGroup)
			}
		}
	})
}

// TestAttackIsNamed: people read for a while, and then a crawler from many networks begins to request
// histories. Five seconds later its shape comes first, with its parameters and networks. A minute after the
// crawler has ended, nothing significant of it is left.
func TestAttackIsNamed(t *testing.T) {
	b := New(began)
	people := func(now time.Time) (all []telemetry.Entry) {
		for i := range 5 {
			r := request(address(1<<24+i<<8), "/wiki/*", "/wiki/Page", 40*time.Millisecond)
			r.Group = telemetry.Known
			all = append(all, entry(now, r, 1))
		}
		return all
	}
	crawl := func(now time.Time) []telemetry.Entry {
		all := people(now)
		for range 2 {
			r := request(address(203<<24+rand.IntN(4)<<16+rand.IntN(1<<16)), "/index.php?title&action",
				fmt.Sprintf("/index.php?title=P%d&action=history", rand.Int()), 300*time.Millisecond)
			all = append(all, entry(now, r, 1))
		}
		return all
	}
	play(b, 0, 60, people)
	if o := b.Overview(Moment{}); math.Abs(o.CPU-0.8) > 0.05 || math.Abs(o.Groups[0].Rate-20) > 0.5 || o.Groups[0].Name != "known" {
		t.Errorf("at rest: %+v", o)
	}
	if rows := b.Shapes(10).Rows; len(rows) != 1 || math.Abs(rows[0].CPU-0.8) > 0.05 || math.Abs(rows[0].Mean-0.04) > 1e-3 || rows[0].Addresses > 5 || rows[0].Addresses < 3 { // once in fifty runs, two of five addresses share one of 512 registers
		t.Errorf("at rest: %+v", rows)
	}
	play(b, 60, 5, crawl)
	row := b.Shapes(1).Rows[0]
	if row.Shape != "/index.php?title&action" || row.Groups["strangers"] < 1 || row.Addresses < 30 || row.Addresses > 50 {
		t.Errorf("after 5 s: %+v", row)
	}
	if len(row.Parameters) == 0 || row.Parameters[0].Name != "action=history" || math.Abs(row.Parameters[0].CPU-row.CPU) > 0.01 {
		t.Errorf("parameters: %+v", row.Parameters)
	}
	if len(row.Networks) != 4 || !strings.HasPrefix(row.Networks[0].Name, "203.") || !strings.HasSuffix(row.Networks[0].Name, ".0.0/16") {
		t.Errorf("networks: %+v", row.Networks)
	}
	o := b.Overview(Moment{})
	if o.Strangers.CPU < 1 || o.Strangers.Addresses < 30 || o.Strangers.Addresses > 50 || o.Groups[2].CPU != o.Strangers.CPU {
		t.Errorf("after 5 s: %+v", o)
	}
	play(b, 65, 60, people)
	for _, r := range b.Shapes(10).Rows {
		if r.Shape != "/wiki/*" && r.CPU > 0.001 {
			t.Errorf("a minute after its end: %+v", r)
		}
	}
	if o := b.Overview(Moment{}); o.Strangers.CPU != 0 || o.Strangers.Addresses != 0 {
		t.Errorf("a minute after its end: %+v", o.Strangers)
	}
}

// TestMeanIsOfThoseServed: requests that are refused or redirected, or whose clients disconnect while they
// wait, don't make a page look cheap.
func TestMeanIsOfThoseServed(t *testing.T) {
	b := New(began)
	play(b, 0, 5, func(now time.Time) (all []telemetry.Entry) {
		for i, o := range []telemetry.Outcome{telemetry.Answered, telemetry.Refused, telemetry.Redirected, telemetry.ClientGone, telemetry.BackendDown} {
			r := request(address(i), "/dear?a", "/dear?a=1", 0)
			if r.Outcome = o; o == telemetry.Answered {
				r.Cost = 100 * time.Millisecond
			}
			all = append(all, entry(now, r, 1))
		}
		return all
	})
	row := b.Shapes(1).Rows[0]
	for _, p := range append([]api.PartRow{{Name: row.Shape, Mean: row.Mean, CPU: row.CPU, Rate: row.Rate}}, row.Parameters...) {
		if math.Abs(p.Mean-0.1) > 1e-3 || math.Abs(p.Rate-50*p.CPU) > 0.05*p.Rate {
			t.Errorf("%s: mean %v, CPU %v, rate %v", p.Name, p.Mean, p.CPU, p.Rate)
		}
	}
}

// TestUseIsOfTheSameTime: the use of all CPUs covers the same seconds as the requests' CPU use.
func TestUseIsOfTheSameTime(t *testing.T) {
	b := New(began)
	at := func(use float64) Moment { return Moment{Gate: limiter.GateState{Utilisation: use}} }
	for _, seen := range []float64{-1, 0.97} { // not at all, and once before the first second is over
		testkit.Same(t, seen, b.Overview(at(seen)).Use, "use, as seen at the start")
	}
	for i := range 400 {
		use := -1.0
		switch {
		case i >= 395:
			use = 1
		case i >= 5:
			use = 0.2
		}
		b.Tick(began.Add(time.Duration(i+1)*time.Second), at(use))
		if want := map[int]float64{4: -1, 7: 0.2, 389: 0.2, 396: 0.36, 399: 0.6}[i]; want != 0 {
			if o := b.Overview(at(-1)); math.Abs(o.Use-want) > 1e-9 {
				t.Errorf("after %d s: %v, want %v", i+1, o.Use, want)
			}
		}
	}
}

// TestClockIsSet: all times follow the clock, even when it is set.
func TestClockIsSet(t *testing.T) {
	b := New(began)
	for _, by := range []time.Duration{0, time.Second, -time.Hour, 24 * time.Hour} {
		b.Tick(began.Add(by), Moment{})
		testkit.Same(t, float64(began.Add(by).Unix()), b.Overview(Moment{}).Now, "at %v: an overview at", by)
	}
}

// TestPercentiles: only answered requests count. Without answered requests, there is no percentile.
func TestPercentiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*telemetry.Record)
		want   bool
	}{
		"answered":                         {func(*telemetry.Record) {}, true},
		"too slow":                         {func(r *telemetry.Record) { r.Outcome = telemetry.BackendSlow }, true},
		"given up as its client left":      {func(r *telemetry.Record) { r.Outcome, r.Orphan = telemetry.BackendSlow, true }, false},
		"its client left":                  {func(r *telemetry.Record) { r.Outcome = telemetry.ClientGone }, false},
		"refused":                          {func(r *telemetry.Record) { r.Outcome = telemetry.Refused }, false},
		"a connection of another protocol": {func(r *telemetry.Record) { r.Status = 101 }, false},
	} {
		b := New(began)
		r := request(address(7), "/", "/", 0)
		c.change(&r)
		b.Take(began.Add(time.Second), batchOf(entry(began.Add(time.Second), r, 1)))
		if p50 := b.Overview(Moment{}).Groups[2].P50; (p50 > 0) != c.want || c.want && math.Abs(p50-1) > 0.05 {
			t.Errorf("%s: p50 is %v", name, p50)
		}
	}
}

// TestRunningShows: a request of 10 s is shown while it runs, and finally counts with its actual cost.
func TestRunningShows(t *testing.T) {
	b := New(began)
	r := request(address(7), "/export", "/export?all=1", 250*time.Millisecond)
	for i := range 20 {
		now := began.Add(time.Duration(i+1) * time.Second / 4)
		b.Running(now, []telemetry.Entry{entry(now, r, 1)})
	}
	if o := b.Overview(Moment{}); math.Abs(o.CPU-1) > 0.01 || o.Groups[2].Rate != 0 {
		t.Errorf("while it runs: %+v", o)
	}
	if row := b.Shapes(1).Rows[0]; row.Shape != "/export" || math.Abs(row.CPU-1) > 0.15 || row.Mean != 0 || row.Parameters[0].Name != "all=1" {
		t.Errorf("while it runs: %+v", row)
	}
	now := began.Add(5 * time.Second)
	r.Told, r.Cost = 5*time.Second, 4*time.Second
	b.Take(now, batchOf(entry(now, r, 1)))
	if o := b.Overview(Moment{}); math.Abs(o.CPU-0.8) > 0.01 || math.Abs(o.Groups[2].Rate-0.2) > 0.01 {
		t.Errorf("at its end: %+v", o)
	}
	row := b.Shapes(1).Rows[0]
	if row.Mean != 4 || row.Parameters[0].Mean != 4 || row.Networks[0].Mean != 4 {
		t.Errorf("it cost 4 CPU-s, the page is said to cost %+v", row)
	}
}

// TestBounded: a hundred thousand clients that each request a different page take no more memory than a full
// Book, and the only expensive page is found among theirs.
func TestBounded(t *testing.T) {
	before := testkit.Heap()
	b := New(began)
	r := request(address(0), "", "", time.Millisecond)
	entries := make([]telemetry.Entry, 64)
	for i := 0; i < 100_000; i += len(entries) {
		now := began.Add(time.Duration(i/1024) * time.Second / 4)
		for k := range entries {
			r.Who.Client, r.Who.Shape = address(i+k), fmt.Sprintf("/%090d", i+k)
			r.Request.RequestURI = fmt.Sprintf("%s?a=%0100d&b=%d", r.Who.Shape, i+k, i+k)
			r.Outcome, r.Cost = telemetry.Refused, time.Millisecond
			if k == 0 {
				r.Outcome, r.Cost, r.Who.Shape, r.Request.RequestURI = telemetry.Answered, 20*time.Millisecond, "/dear", "/dear?a=1"
			}
			entries[k] = entry(now, r, 1)
		}
		b.Take(now, batchOf(entries...))
		if i%4096 == 0 {
			b.Tick(now, Moment{})
		}
	}
	clear(entries)
	size := testkit.Heap() - before
	t.Logf("%d KB", size>>10)
	if size > 8<<20 {
		t.Errorf("it takes %d bytes", size)
	}
	row := b.Shapes(1).Rows[0]
	if row.Shape != "/dear" || row.Parameters[0].Name != "a=1" {
		t.Errorf("the dearest: %+v", row)
	}
	if n := len(b.Shapes(10_000).Rows); n > mostShapes {
		t.Errorf("%d shapes", n)
	}
	runtime.KeepAlive(b)
}

// TestParameters: parameters also end at a semicolon. Those without a value aren't counted, nor do they use up the
// number of parameters that a request may have.
func TestParameters(t *testing.T) {
	b := New(began)
	b.Take(began, batchOf(entry(began, request(address(1), "/", "/?a;b=1&&&&&&&&c&d=&e=2", time.Second), 1)))
	var got []string
	for _, p := range b.Shapes(1).Rows[0].Parameters {
		got = append(got, p.Name)
	}
	slices.Sort(got)
	testkit.Same(t, []string{"b=1", "e=2"}, got, "parameters")
}

// TestNothing: an empty Book shows that it has no data.
func TestNothing(t *testing.T) {
	b := New(began)
	o := b.Overview(Moment{})
	if len(o.Groups) != groups || o.CPU != 0 || o.Sampled != 1 || o.Groups[0].P95 != 0 {
		t.Errorf("%+v", o)
	}
	if b.Shapes(5).Rows == nil || b.Recent(5).Rows == nil {
		t.Error("null")
	}
}

// TestPagesThatSleepUseNoCPU: four sleeping requests are charged as if they computed, because nothing
// distinguishes a worker that waits from one that computes. But the CPUs were hardly used, and the groups and
// the pages show no more than this use.
func TestPagesThatSleepUseNoCPU(t *testing.T) {
	b := New(began)
	r := request(address(1), "/sleep", "/sleep", time.Second)
	r.Group = telemetry.Stranger
	m := Moment{CPUs: 4, Gate: limiter.GateState{Utilisation: 0.05}}
	for i := range 20 {
		now := began.Add(time.Duration(i+1) * time.Second)
		e := entry(now, r, 1)
		b.Running(now, []telemetry.Entry{e, e, e, e})
		b.Tick(now, m)
	}
	o, s := b.Overview(m), b.Shapes(1)
	for name, cpu := range map[string]float64{"all": o.CPU, "strangers": o.Groups[2].CPU, "the page": s.Rows[0].CPU} {
		if cpu < 0.15 || cpu > 0.25 {
			t.Errorf("%s: %.3f CPUs, and 0.2 were in use", name, cpu)
		}
	}
	if o = b.Overview(Moment{}); o.CPU > 0.25 {
		t.Errorf("between two ticks: %.3f CPUs", o.CPU)
	}
}

// TestTheBackendIsSeenToFail: the overview shows how the last requests ended. For a site with few requests, it
// shows those of the last minute.
func TestTheBackendIsSeenToFail(t *testing.T) {
	b := New(began)
	down, ok := request(address(1), "/", "/", 0), request(address(1), "/", "/", 0)
	down.Outcome, down.Status = telemetry.BackendDown, 502
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	b.Take(at(1), batchOf(entry(at(1), ok, 3)))
	b.Take(at(20), batchOf(entry(at(20), down, 2), entry(at(20), ok, 1)))
	testkit.Same(t, api.BackendRow{Seconds: 10, Requests: 3, Down: 2}, b.Overview(Moment{}).Backend, "now")
	b.Tick(at(50), Moment{})
	testkit.Same(t, api.BackendRow{Seconds: 60, Requests: 6, Down: 2}, b.Overview(Moment{}).Backend, "half a minute later")
}

// TestDistinct: the estimate is within 25 % (five standard errors, so that no seed fails) up to a million, and
// exact for small numbers. Old things are forgotten.
func TestDistinct(t *testing.T) {
	seed := maphash.MakeSeed()
	for _, n := range []int{0, 1, 2, 5, 100, 1000, 10_000, 1_000_000} {
		var d distinct
		for range 2 { // a repeated thing counts once
			for i := range n {
				d.add(i%stretches, maphash.Comparable(seed, i))
			}
		}
		got := float64(d.estimate())
		if math.Abs(got-float64(n)) > 0.25*float64(n)+0.5 {
			t.Errorf("%d are estimated at %v", n, got)
		}
		for turn := range stretches {
			d.forget(turn)
		}
		testkit.Same(t, 0, d.estimate(), "%d forgotten: left", n)
	}
}
