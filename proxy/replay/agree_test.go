package replay

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// traced is a request of a trace.
type traced struct {
	at                   time.Duration // unique
	address, agent, path string
	cost                 time.Duration
}

// verdict is what became of one.
type verdict struct {
	outcome outcome
	waited  time.Duration
	reason  limiter.Reason
	known   bool
}

// trace is some minutes of a site: people all the time, a crawler that wants more than
// there is, and a botnet.
func trace(seed uint64) (all []traced) {
	random := rand.New(rand.NewPCG(seed, 0))
	unique := map[time.Duration]bool{}
	add := func(at float64, address, agent, path string, cost float64) {
		d := (time.Duration(at*1e6) * time.Microsecond)
		for unique[d] {
			d += time.Microsecond
		}
		unique[d] = true
		all = append(all, traced{d, address, agent, path, time.Duration(cost*(0.5+random.Float64())*1e6) * time.Microsecond})
	}
	every := func(mean, from, to float64, do func(at float64)) {
		for at := from + random.ExpFloat64()*mean; at < to; at += random.ExpFloat64() * mean {
			do(at)
		}
	}
	for i := range 20 {
		address := fmt.Sprintf("10.%d.0.1", i*3)
		read := func(at float64) {
			add(at, address, "firefox linux", fmt.Sprintf("/page/%c", 'a'+rune(random.IntN(6))), 0.02)
			add(at+0.1, address, "firefox linux", "/theme.css", 0.0005)
		}
		every(2, 0, 240, read)
		every(2, 400, 440, read) // nobody was there for a while
	}
	every(0.15, 410, 430, func(at float64) { add(at, "192.0.2.7", "crawler", fmt.Sprintf("/old/%d", random.IntN(500)), 0.4) })
	every(0.15, 60, 180, func(at float64) { add(at, "192.0.2.7", "crawler", fmt.Sprintf("/old/%d", random.IntN(500)), 0.4) })
	every(0.3, 90, 150, func(at float64) {
		add(at, fmt.Sprintf("100.%d.%d.1", random.IntN(100), random.IntN(200)), "chrome windows", "/history", 0.3)
	})
	slices.SortFunc(all, func(a, b traced) int { return int(a.at - b.at) })
	return all
}

// logOf is the sidecar's own log of a trace, in the order in which its requests ended.
func logOf(begin time.Time, all []traced) string {
	byEnd := slices.Clone(all)
	slices.SortStableFunc(byEnd, func(a, b traced) int { return int(a.at + a.cost - b.at - b.cost) })
	var s strings.Builder
	for _, x := range byEnd {
		ms := float64(x.cost.Microseconds()) / 1000
		fmt.Fprintf(&s, `{"level":"info","time":%q,"logger":"access","msg":"request","client":%q,"method":"GET","host":"h","path":%q,"status":200,"took_ms":%g,"cost_ms":%g,"classes":["userAgent=%s"]}`+"\n",
			begin.Add(x.at+x.cost).Format(time.RFC3339Nano), x.address, x.path, ms, ms, x.agent)
	}
	return s.String()
}

// watcher takes down what a replay made of each request.
type watcher map[time.Duration]verdict

func (w watcher) passed(time.Duration, float64) {}

func (w watcher) over(_ time.Duration, j *job, o outcome) {
	w[j.came] = verdict{outcome: o, waited: j.waited, reason: j.Verdict.Reason, known: !j.Stranger()}
}

// TestAgrees holds what a replay makes of each request of a log against the limiter
// driven directly through the lifecycle by the trace that the log is of.
func TestAgrees(t *testing.T) {
	for _, mode := range []limiter.Mode{limiter.Fair, limiter.Cap, limiter.Cooperative} {
		t.Run(mode.String(), func(t *testing.T) {
			for seed := range uint64(3) {
				got, want := both(t, mode, trace(seed))
				if differ := compare(t, got, want); differ > 0 {
					t.Errorf("%d of %d differ", differ, len(want))
				}
			}
		})
	}
}

// alike is the hash that both go by.
func alike(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// both are what a replay and the driver made of a trace.
func both(t *testing.T, mode limiter.Mode, all []traced) (got, want watcher) {
	t.Helper()
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	p, err := newPlayer(strings.NewReader(logOf(begin, all)), shipped(t, mode))
	if err != nil {
		t.Fatal(err)
	}
	p.guess = cpuaccount.NewHashedEstimator(alike)
	got = watcher{}
	p.observer = got
	if err := p.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = drive(t, p.window.epoch, begin.Sub(p.window.epoch), all, shipped(t, mode))
	if len(got) != len(all) || len(want) != len(all) {
		t.Fatalf("of %d requests %d were replayed, and %d driven", len(all), len(got), len(want))
	}
	return got, want
}

// rounding is by how much waits may differ: the two simulated backends round in their
// own ways.
const rounding = time.Millisecond

// compare counts the requests of which two runs made something else.
func compare(t *testing.T, got, want watcher) (differ int) {
	t.Helper()
	waited, refusals := 0, 0
	for at, w := range want {
		g := got[at]
		if g.outcome != w.outcome || g.reason != w.reason || g.known != w.known || (g.waited-w.waited).Abs() > rounding {
			if differ++; differ == 1 {
				t.Logf("at %s: replayed %+v, driven %+v", at, g, w)
			}
		}
		if w.waited > 0 {
			waited++
		}
		if w.outcome == refused {
			refusals++
		}
	}
	if waited+refusals < 100 {
		t.Errorf("%d waited and %d were refused: that shows little", waited, refusals)
	}
	t.Logf("%d requests, %d waited, %d refused, %d differ", len(want), waited, refusals, differ)
	return differ
}

// driver is the plainest that can be: it ticks all the time, and looks at everything
// after whatever happens. It shares no code with the engine.
type driver struct {
	Setup
	epoch            time.Time
	now              time.Duration
	limiter          *limiter.Limiter
	gate             *lifecycle.Gatekeeper
	waiting, running []*driven
	held             []*driven
	used, before     float64
	alarm            time.Duration
	seen             watcher
}

type driven struct {
	lifecycle.Life
	traced
	came   time.Duration
	waited time.Duration
	left   float64 // CPU-seconds; of the first Workers of running
	until  time.Duration
	req    *http.Request
}

func drive(t *testing.T, epoch time.Time, shift time.Duration, all []traced, s Setup) watcher {
	t.Helper()
	d := &driver{Setup: s, epoch: epoch, seen: watcher{}}
	d.limiter = limiter.New(epoch, s.Policy, s.TableSize, nil)
	d.limiter.Found(epoch, s.Workers, "the test")
	d.gate = lifecycle.New(epoch, d.limiter)
	d.gate.Guess = cpuaccount.NewHashedEstimator(alike)
	d.gate.SetWorkers(s.Rules.Meter)
	for _, x := range all {
		d.until(x.at + shift)
		d.arrive(&driven{traced: x, came: x.at + shift, left: x.cost.Seconds()})
	}
	for len(d.seen) < len(all) {
		d.until(d.now + time.Second)
		if d.now > shift+time.Hour {
			t.Fatal("it does not come to an end")
		}
	}
	return d.seen
}

func (d *driver) time() time.Time { return d.epoch.Add(d.now) }

func (d *driver) arrive(x *driven) {
	x.req = &http.Request{
		Method: "GET", Host: "h", URL: &url.URL{Path: x.path}, RequestURI: x.path, RemoteAddr: x.address,
		ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {x.agent}, "Accept": {"*/*"}, "Accept-Language": {"en"}, "Accept-Encoding": {"br"}},
	}
	x.Classify(d.time(), d.gate, &d.Rules, x.req, classify.Seen{})
	x.Arrive(d.time(), false)
	d.waiting = append(d.waiting, x)
	d.settleDown()
}

// computing are those at the backend that have a worker.
func (d *driver) computing() []*driven { return d.running[:min(len(d.running), d.Workers)] }

func (d *driver) until(end time.Duration) {
	for {
		next, speed := end, min(1, d.CPUs/float64(len(d.computing())))
		var done *driven
		for _, x := range d.computing() {
			if at := d.now + time.Duration(max(0, x.left)/speed*1e9) + 1; at < next || at == next && done == nil {
				next, done = at, x
			}
		}
		ticks := false
		if at := d.now.Truncate(tick) + tick; at < next || at == next && done == nil {
			next, done, ticks = at, nil, true
		}
		alarm := d.alarm > 0 && (d.alarm < next || d.alarm == next && done == nil)
		if alarm {
			next, done, ticks = max(d.alarm, d.now), nil, false
		}
		for _, x := range d.computing() {
			x.left -= (next - d.now).Seconds() * speed
			d.used += (next - d.now).Seconds() * speed
		}
		d.now = next
		switch {
		case done != nil:
			d.finish(done)
		case alarm:
			d.advance()
		case ticks:
			d.tick()
		default:
			return
		}
		d.settleDown()
	}
}

func (d *driver) finish(x *driven) {
	kind := "text/html"
	if strings.HasSuffix(x.path, ".css") {
		kind = "text/css"
	}
	x.Answered(d.time(), 200, http.Header{"Content-Type": {kind}})
	x.Settle(d.time(), true, false)
	d.running = slices.DeleteFunc(d.running, func(y *driven) bool { return x == y })
	if x.HoldFor > 0 {
		x.until = d.now + x.HoldFor
		d.held = append(d.held, x)
		return
	}
	d.end(x, served)
}

func (d *driver) end(x *driven, o outcome) {
	x.Leave(d.time())
	d.seen[x.came] = verdict{outcome: o, waited: x.waited, reason: x.Verdict.Reason, known: !x.Stranger()}
}

func (d *driver) advance() {
	d.alarm = 0
	if next := d.limiter.Advance(d.time()); !next.IsZero() {
		d.alarm = max(d.now+1, next.Sub(d.epoch))
	}
}

func (d *driver) tick() {
	queue := len(d.running) - len(d.computing())
	d.limiter.Backlog(d.time(), queue, d.Workers)
	for _, x := range d.running {
		x.Tick(d.time())
	}
	for _, x := range d.waiting {
		x.Reguess(d.time())
	}
	for _, x := range slices.Clone(d.held) {
		if x.until <= d.now {
			d.held = slices.DeleteFunc(d.held, func(y *driven) bool { return x == y })
			d.end(x, served)
		}
	}
	d.advance()
	d.settleDown()
	if d.now%(5*tick) == 0 {
		d.gate.Measure(d.time(), d.Rules.Meter, cpuaccount.Use{CPUs: min(1, (d.used-d.before)/(0.5*d.CPUs)), Own: d.used - d.before}, func(yield func(*lifecycle.Life) bool) {
			for _, x := range d.running {
				if !yield(&x.Life) {
					return
				}
			}
		})
		d.before = d.used
	}
	if d.now%(10*tick) == 0 {
		d.gate.SetWorkers(d.Rules.Meter)
	}
}

// settleDown lets go who was decided until nobody is any more.
func (d *driver) settleDown() {
	select {
	case <-d.limiter.Due():
		d.advance()
	default:
	}
	for {
		i := slices.IndexFunc(d.waiting, func(x *driven) bool {
			select {
			case <-x.Decided():
				return true
			default:
				return false
			}
		})
		if i < 0 {
			return
		}
		x := d.waiting[i]
		d.waiting = slices.Delete(d.waiting, i, i+1)
		x.waited = d.now - x.came
		if !x.Admitted() {
			d.end(x, refused)
			continue
		}
		x.Begin(d.time())
		d.running = append(d.running, x)
	}
}
