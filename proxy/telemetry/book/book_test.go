package book

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

var began = time.Unix(1_000_000, 0)

// request is an answered one of a client.
func request(client netip.Addr, shape, target string, cost time.Duration) telemetry.Record {
	return telemetry.Record{
		Arrived: began, Request: &http.Request{Method: "GET", Host: "site.example", RequestURI: target},
		Who: &classify.Result{Client: client, Shape: shape}, Status: 200, Cost: cost,
	}
}

func entry(now time.Time, r telemetry.Record, weight float64) (e telemetry.Entry) {
	e.Set(now, &r, weight)
	return e
}

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// play has a Book live through that many seconds; each tells the entries of a tick.
func play(b *Book, from, seconds int, each func(now time.Time) []telemetry.Entry) (last api.Point) {
	for i := range seconds * 4 {
		now := began.Add(time.Duration(from)*time.Second + time.Duration(i+1)*time.Second/4)
		if each != nil {
			b.Take(now, batchOf(each(now)...))
		}
		if i%4 == 3 {
			last = b.Tick(now, Moment{})
		}
	}
	return last
}

// TestSums: whatever comes, what groups add up to is what the entries add up to, and what
// was told of requests while they ran counts once.
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

// TestAttackIsNamed: people read for a while; a crawler from many networks begins to ask for
// histories. Five seconds later the first shape is its, with its parameters and networks;
// a minute after its end nothing of it is left that counts.
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
	if rows := b.Shapes(10).Rows; len(rows) != 1 || math.Abs(rows[0].CPU-0.8) > 0.05 || math.Abs(rows[0].Mean-0.04) > 1e-3 || rows[0].Addresses > 5 || rows[0].Addresses < 3 { // two of five meet in one of 512 registers once in fifty runs
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

// TestMeanIsOfThoseServed: whoever is refused, redirected, or leaves while they wait does not
// make a page look cheap.
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

// TestUseIsOfTheSameTime: the use of all CPUs is of the seconds that requests' CPU is of.
func TestUseIsOfTheSameTime(t *testing.T) {
	b := New(began)
	at := func(use float64) Moment { return Moment{Gate: limiter.GateState{Utilisation: use}} }
	for _, seen := range []float64{-1, 0.97} { // never, and once before the first second is over
		if o := b.Overview(at(seen)); o.Use != seen {
			t.Errorf("seen at the start: %v, told: %v", seen, o.Use)
		}
	}
	for i := range 400 { // more than the curve has
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

// TestClockIsSet: all times are those of the clock as it is, as the points of the curve are.
func TestClockIsSet(t *testing.T) {
	b := New(began)
	for _, by := range []time.Duration{0, time.Second, -time.Hour, 24 * time.Hour} {
		p := b.Tick(began.Add(by), Moment{})
		if want := float64(began.Add(by).Unix()); p.At != want || b.Overview(Moment{}).Now != want {
			t.Errorf("at %v: a point at %v, an overview at %v, want %v", by, p.At, b.Overview(Moment{}).Now, want)
		}
	}
}

// TestPercentiles are of those who saw an answer, or that there is none.
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

// TestRunningShows: a request of 10 s shows while it runs, and what it turns out to have
// cost is what stays.
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

// TestBounded: a million clients that ask for a million pages take no more memory than what
// fills it, and the one page that costs is found among them.
func TestBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := New(began)
	r := request(address(0), "", "", time.Millisecond)
	entries := make([]telemetry.Entry, 64)
	fill := func(from, n int) {
		for i := from; i < from+n; i += len(entries) {
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
	}
	if fill(0, 20_000); !testing.Short() { // a minute more with it
		fill(20_000, 980_000)
	}
	for i := range b.series { // as after a day
		for len(b.series[i].points.rows) < b.series[i].most {
			b.series[i].points.add(api.Point{}, b.series[i].most)
		}
	}
	clear(entries)
	runtime.GC()
	runtime.ReadMemStats(&after)
	size := int(after.HeapAlloc) - int(before.HeapAlloc)
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

// TestSeries: points are at even steps, as many as there are to be, and peaks of waiting are
// in the coarse ones.
func TestSeries(t *testing.T) {
	b := New(began)
	peak := Moment{Gate: limiter.GateState{Busy: 3, Workers: 8, Utilisation: 0.5}}
	peak.Waiting.Count[telemetry.Known], peak.Waiting.Longest[telemetry.Known] = 7, 3*time.Second
	for i := range 70 * 60 {
		now := began.Add(time.Duration(i+1) * time.Second)
		b.Take(now, batchOf(entry(now, request(address(i), "/", "/", time.Second/2), 1)))
		m := Moment{Gate: limiter.GateState{Utilisation: 0.5}}
		if (i+1)%60 == 30 {
			m = peak
		}
		b.Tick(now, m)
	}
	for minutes, c := range map[int]struct{ points, step int }{5: {300, 1}, 60: {360, 10}, 1440: {69, 60}} {
		s, ok := b.Series(minutes)
		if !ok || len(s.Points) < c.points || len(s.Points) > c.points+1 || s.Step != float64(c.step) {
			t.Fatalf("%d minutes: %v, %d points at %v", minutes, ok, len(s.Points), s.Step)
		}
		worst := 0
		for i, p := range s.Points {
			if i > 0 && p.At-s.Points[i-1].At != s.Step {
				t.Errorf("%d minutes: from %v to %v", minutes, s.Points[i-1].At, p.At)
			}
			if i > 60 && (math.Abs(p.CPU[2]-0.5) > 0.06 || math.Abs(p.Rate[2]-1) > 0.12 || p.Use != 0.5) {
				t.Errorf("%d minutes: %+v", minutes, p)
			}
			worst = max(worst, p.Waiting[0])
		}
		if worst != 7 {
			t.Errorf("%d minutes: the peak is %d", minutes, worst)
		}
		if last := s.Points[len(s.Points)-1].At; last < 1_000_000+4200-float64(c.step) || last > 1_000_000+4200 {
			t.Errorf("%d minutes: the last is at %v", minutes, last)
		}
	}
	if _, ok := b.Series(7); ok {
		t.Error("7 minutes")
	}
}

// TestNothing: a Book that was told nothing says so.
func TestNothing(t *testing.T) {
	b := New(began)
	o := b.Overview(Moment{})
	if len(o.Groups) != groups || o.CPU != 0 || o.Sampled != 1 || o.Groups[0].P95 != 0 {
		t.Errorf("%+v", o)
	}
	if s, ok := b.Series(5); !ok || s.Points == nil || len(s.Points) != 0 {
		t.Errorf("%+v", s)
	}
	if b.Shapes(5).Rows == nil || b.Recent(5).Rows == nil {
		t.Error("null")
	}
	if p := b.Tick(began.Add(time.Hour), Moment{}); p.At != 1_003_600 { // it slept
		t.Errorf("%+v", p)
	}
}

// TestPagesThatSleepUseNoCPU: four requests that sleep are charged as if they computed, as nothing
// tells a worker that waits from one that computes. The CPUs were hardly in use: so the groups, the
// pages and the curve show no more than that.
func TestPagesThatSleepUseNoCPU(t *testing.T) {
	b := New(began)
	r := request(address(1), "/sleep", "/sleep", time.Second)
	r.Group = telemetry.Stranger
	var last api.Point
	m := Moment{CPUs: 4, Gate: limiter.GateState{Utilisation: 0.05}}
	for i := range 20 {
		now := began.Add(time.Duration(i+1) * time.Second)
		e := entry(now, r, 1)
		b.Running(now, []telemetry.Entry{e, e, e, e})
		last = b.Tick(now, m)
	}
	o, s := b.Overview(m), b.Shapes(1)
	for name, cpu := range map[string]float64{"all": o.CPU, "strangers": o.Groups[2].CPU, "the curve": last.CPU[2], "the page": s.Rows[0].CPU} {
		if cpu < 0.15 || cpu > 0.25 {
			t.Errorf("%s: %.3f CPUs, and 0.2 were in use", name, cpu)
		}
	}
	if o = b.Overview(Moment{}); o.CPU > 0.25 {
		t.Errorf("between two ticks: %.3f CPUs", o.CPU)
	}
}

// TestTheBackendIsSeenToFail: how the last requests ended; of a site with few, in the last minute.
func TestTheBackendIsSeenToFail(t *testing.T) {
	b := New(began)
	down, ok := request(address(1), "/", "/", 0), request(address(1), "/", "/", 0)
	down.Outcome, down.Status = telemetry.BackendDown, 502
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	b.Take(at(1), batchOf(entry(at(1), ok, 3)))
	b.Take(at(20), batchOf(entry(at(20), down, 2), entry(at(20), ok, 1)))
	if got := b.Overview(Moment{}).Backend; got != (api.BackendRow{Seconds: 10, Requests: 3, Down: 2}) {
		t.Errorf("now: %+v", got)
	}
	b.Tick(at(50), Moment{})
	if got := b.Overview(Moment{}).Backend; got != (api.BackendRow{Seconds: 60, Requests: 6, Down: 2}) {
		t.Errorf("half a minute later: %+v", got)
	}
}
