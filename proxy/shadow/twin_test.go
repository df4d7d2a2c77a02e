package shadow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/replay"
	"tempomat/proxy/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the beginning of an hour.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// asked is a request of a trace.
type asked struct {
	at     time.Duration
	client string
	target string
	cpu    time.Duration
	idle   time.Duration
	group  telemetry.Group
}

// attack is a trace of 3 minutes: people who read a page now and then, each with a style
// sheet, and for 90 s of them a crawl from a network, of pages that cost
// as much, and as often as it likes. Nobody waits for an answer before the next request.
func attack(perSecond float64) (all []asked) {
	r := rand.New(rand.NewPCG(3, 3))
	spread := func(mean float64) time.Duration { return time.Duration(r.ExpFloat64() * mean * float64(time.Second)) }
	cost := func() time.Duration { return time.Duration(100+r.IntN(200)) * time.Millisecond }
	for person := range 25 {
		who := fmt.Sprintf("203.0.%d.9", person)
		for at := spread(8); at < 3*time.Minute; at += spread(8) {
			all = append(all, asked{at: at, client: who, target: fmt.Sprintf("/page?id=%d", r.IntN(50)), cpu: cost(), idle: cost() / 4, group: telemetry.Known},
				asked{at: at + 10*time.Millisecond, client: who, target: "/style.css", cpu: time.Millisecond, group: telemetry.Known})
		}
	}
	for at := 45 * time.Second; at < 135*time.Second; at += spread(1 / perSecond) {
		who := fmt.Sprintf("198.51.100.%d", r.IntN(60))
		all = append(all, asked{at: at, client: who, target: fmt.Sprintf("/page?id=%d&old=%d", r.IntN(50), r.IntN(1000)), cpu: cost(), group: telemetry.Robot})
	}
	slices.SortFunc(all, func(a, b asked) int { return int(a.at - b.at) })
	return all
}

// limits are those of the tests: two CPUs.
func limits(m limiter.Mode) limiter.Policy {
	return limiter.Policy{
		Mode: m, MaxHold: 10 * time.Second, MaxHeld: 512,
		Gate: limiter.Gate{CPUs: 2, Workers: 16},
		Classes: []limiter.ClassInfo{
			{Name: "slash32", Budget: limiter.Budget{CPUs: 0.2, Burst: 30 * time.Second, Workers: 0.5}},
			{Name: "slash24", Budget: limiter.Budget{CPUs: 0.5, Burst: 30 * time.Second, Workers: 0.75}},
		},
	}
}

// classes tells who asks.
func classes(t testing.TB) *classify.Classifier {
	t.Helper()
	c, err := classify.New(classify.Config{
		Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24}},
		Sites:   []classify.Site{{Name: "read", Hosts: []string{"read.test"}}, {Name: "crawled", Hosts: []string{"crawled.test"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cost is how a sidecar knows what requests cost.
type cost uint8

const (
	guessed  cost = iota // from how long they took
	told                 // by the backend
	measured             // at its workers
)

// truth is what became of a group in a sidecar that measures costs itself.
type truth struct {
	cpu              float64
	delayed, refused uint64
}

// serve plays a trace through a sidecar with a policy, before a backend of two CPUs and 16
// workers, and tells of all that is over.
func serve(t *testing.T, p limiter.Policy, known cost, trace []asked, r telemetry.Recorder) (groups [telemetry.Groups]truth) {
	t.Helper()
	names := classes(t)
	setup := replay.Setup{Policy: p, TableSize: 1 << 12, CPUs: 2, Workers: 16, Measures: true}
	source := cpuaccount.Corrected
	if known != guessed {
		source = cpuaccount.Header
	}
	setup.Rules.Meter = cpuaccount.NewMeter(source, 2, 0)
	live := replay.NewLive(noon, setup, func(now time.Time, q *replay.Request, f replay.Fate) {
		a, record := q.Note.(*asked), recordOf(q, &f)
		g := &groups[a.group]
		record.Group = a.group
		if known == measured && !f.Refused { // the kernel knows who waited for a CPU, and who for something else
			record.Idle = a.idle
		}
		switch d := record.Delay(); {
		case f.Refused:
			g.refused++
		case d >= noticed:
			g.delayed++
			fallthrough
		default:
			g.cpu += f.CPU.Seconds()
		}
		if r != nil {
			r.Note(now, record)
		}
	})
	for i := range trace {
		a := &trace[i]
		q := &replay.Request{Target: a.target, Came: noon.Add(a.at), Status: 200, CPU: a.cpu, Idle: a.idle, Note: a}
		names.Classify(requestOf(a), &q.Who)
		live.Arrive(q)
		if twin, ok := r.(*Twin); ok && i%50 == 0 {
			twin.Play(live.Now())
		}
	}
	live.Drain()
	return groups
}

func requestOf(a *asked) *http.Request {
	u, _ := url.Parse(a.target)
	host := "read.test"
	if a.group == telemetry.Robot {
		host = "crawled.test"
	}
	return &http.Request{Method: "GET", URL: u, Host: host, RequestURI: a.target, RemoteAddr: a.client + ":1", Header: http.Header{}}
}

// recordOf is what a sidecar tells of a request.
func recordOf(q *replay.Request, f *replay.Fate) *telemetry.Record {
	a := q.Note.(*asked)
	r := &telemetry.Record{
		Arrived: q.Came, Request: requestOf(a), Who: &q.Who, Verdict: f.Verdict, Status: 200, Asked: true,
		Guess: f.Guess, Cost: f.Cost, CPU: f.CPU, Stay: f.Stay, Idle: f.Idle, Exact: f.Exact, Beside: f.Beside, Held: f.Held,
	}
	if f.Refused {
		r.Outcome = telemetry.Refused
	}
	return r
}

// estimate is what a Twin says of a group.
func estimate(r api.ShadowReply, group telemetry.Group) (was, would api.ShadowDone, requests uint64) {
	for _, m := range r.Modes {
		for _, g := range m.Groups {
			if g.Name == group.String() {
				return g.Was, g.Would, g.Requests
			}
		}
	}
	return was, would, requests
}

// near tells whether two amounts are within 10 % of each other, or both next to nothing.
func near(a, b, nothing float64) bool {
	return math.Abs(a-b) <= max(0.1*max(a, b), nothing)
}

// TestWhoWasNotServedWouldHaveBeen: who left while nobody had accepted its request used nothing, and
// would have used what its like does, had it been served; who left a page that was dearer than that, as much
// as it used.
func TestWhoWasNotServedWouldHaveBeen(t *testing.T) {
	for name, c := range map[string]struct {
		outcome telemetry.Outcome
		exact   bool
		used    time.Duration
		want    float64 // CPU-seconds
	}{
		"it was answered":           {telemetry.Answered, true, 100 * time.Millisecond, 0.1},
		"it left before":            {telemetry.ClientGone, true, 100 * time.Millisecond, 0.4},
		"it left a dearer one":      {telemetry.ClientGone, true, time.Second, 1},
		"no worker accepted it":     {telemetry.BackendDown, true, 0, 0.4},
		"what it used is a guess":   {telemetry.ClientGone, false, 100 * time.Millisecond, 0.1},
		"its answer was broken off": {telemetry.BackendBroke, true, 300 * time.Millisecond, 0.4},
	} {
		twin := New(1)
		twin.SetPlan(capped())
		note(t, twin, 0, "192.0.2.1", 0.4, func(r *telemetry.Record) {
			r.Outcome, r.Exact, r.CPU, r.Stay, r.Guess = c.outcome, c.exact, c.used, 20*time.Second, 400*time.Millisecond
		})
		twin.Flush()
		if _, would, _ := estimate(twin.Reply(1), telemetry.Stranger); math.Abs(would.CPU-c.want) > 1e-6 {
			t.Errorf("%s: it would use %g CPU-seconds, want %g", name, would.CPU, c.want)
		}
	}
}

// TestWhoGaveUpGivesUp: clients that left after ten seconds would have left the queue after as long: they are told
// as delayed, and use nothing. Who was answered in the end waits on.
func TestWhoGaveUpGivesUp(t *testing.T) {
	const requests = 40 // of a CPU-second each, at once: two CPUs are done with 20 of them after ten seconds
	for name, left := range map[string]time.Duration{"all stay": 0, "all leave after ten seconds": 10 * time.Second} {
		twin := New(1)
		p := limits(limiter.Fair)
		p.MaxHold = time.Minute
		twin.SetPlan(&Plan{Mode: "fair", Policy: p, TableSize: 1 << 10, CPUs: 2, Measures: true})
		for i := range requests {
			note(t, twin, time.Duration(i)*time.Millisecond, fmt.Sprintf("192.0.%d.1", i), 1, func(r *telemetry.Record) {
				r.Exact = true
				if r.Left = left; left > 0 {
					r.Outcome = telemetry.ClientGone
				}
			})
		}
		twin.Flush()
		_, would, _ := estimate(twin.Reply(1), telemetry.Stranger)
		stays := left == 0
		if would.Refused > 0 || would.Delayed < requests-4 || stays != (would.CPU == requests) || !stays && math.Abs(would.CPU-20) > 3 {
			t.Errorf("%s: %+v", name, would)
		}
	}
}

// TestWhoLeavesAtOnceIsNotDelayed: a client that never waits longer than 30 ms is delayed by no more, in truth as in the
// estimate.
func TestWhoLeavesAtOnceIsNotDelayed(t *testing.T) {
	twin := New(1)
	p := limits(limiter.Fair)
	p.MaxHold = time.Minute
	twin.SetPlan(&Plan{Mode: "fair", Policy: p, TableSize: 1 << 10, CPUs: 2, Measures: true})
	for i := range 40 {
		note(t, twin, time.Duration(7*i)*time.Millisecond, fmt.Sprintf("192.0.%d.1", i), 1, func(r *telemetry.Record) {
			r.Exact, r.Left, r.Outcome = true, 30*time.Millisecond, telemetry.ClientGone
		})
	}
	twin.Flush()
	if was, would, _ := estimate(twin.Reply(1), telemetry.Stranger); was.Delayed != 0 || would.Delayed != 0 {
		t.Errorf("%d were delayed, and would have been %d", was.Delayed, would.Delayed)
	}
}

// TestLeft: who leaves while it waits was delayed for as long.
func TestLeft(t *testing.T) {
	for name, c := range map[string]struct {
		outcome telemetry.Outcome
		queued  time.Duration
		want    uint64 // delayed
	}{
		"it left as it waited":     {telemetry.ClientGone, time.Second, 1},
		"it left at once":          {telemetry.ClientGone, time.Millisecond, 0},
		"it left as it was served": {telemetry.ClientGone, 0, 0},
		"it was refused":           {telemetry.Refused, time.Second, 0},
	} {
		twin := New(1)
		twin.SetPlan(capped())
		note(t, twin, 0, "192.0.2.1", 0.1, func(r *telemetry.Record) { r.Outcome, r.Queued, r.Left = c.outcome, c.queued, c.queued })
		twin.Flush()
		if was, _, _ := estimate(twin.Reply(1), telemetry.Stranger); was.Delayed != c.want {
			t.Errorf("%s: %d were delayed", name, was.Delayed)
		}
	}
}

// TestReportIsWhatEnforcingDoes: an attack is recorded while nothing acts, and then played
// again while it does. What the first one was reported to have been is what the second was.
func TestReportIsWhatEnforcingDoes(t *testing.T) {
	type change func(p *limiter.Policy)
	whole := func(p *limiter.Policy) { p.Shadow = true }
	observe := func(p *limiter.Policy) { p.Mode = limiter.Observe }
	sited := func(p *limiter.Policy) {
		p.Sites = []limiter.SiteInfo{{Name: "read"}, {Name: "crawled"}}
	}
	for name, c := range map[string]struct {
		acting   limiter.Mode
		before   change // what makes it shadow
		act      change // beside the mode
		requests float64
		known    cost
		crowded  bool // while nothing acts the backend has more requests than workers
	}{
		"observe, then fair":              {acting: limiter.Fair, before: observe, requests: 14, crowded: true},
		"observe, and costs are told":     {acting: limiter.Fair, before: observe, requests: 14, known: told, crowded: true},
		"observe, and costs are measured": {acting: limiter.Fair, before: observe, requests: 14, known: measured, crowded: true},
		"observe, and a bit too much":     {acting: limiter.Fair, before: observe, requests: 8, crowded: true},
		"cap in shadow":                   {acting: limiter.Cap, before: whole, requests: 6},
		"cooperative in shadow":           {acting: limiter.Cooperative, before: whole, requests: 6},
		"fair, with cap in shadow":        {acting: limiter.Cap, before: func(p *limiter.Policy) { p.Mode = limiter.Fair }, requests: 5},
		"observe, then fair for each of two sites": {
			acting: limiter.Fair, act: sited, requests: 14, crowded: true,
			before: func(p *limiter.Policy) {
				p.Mode, p.Sites = limiter.Observe, []limiter.SiteInfo{{Name: "read"}, {Name: "crawled"}}
			},
		},
		"observe, and nobody is there": {acting: limiter.Fair, before: observe, requests: 0.01},
		"a class of fair that is new": {
			acting: limiter.Fair, before: func(p *limiter.Policy) { p.Classes[1].Budget.Shadow = true },
			act: func(p *limiter.Policy) { p.Classes[1].Budget.Cap = true }, requests: 5,
		},
	} {
		if raceEnabled && c.crowded { // a minute each, of a limiter that one goroutine has to itself
			continue
		}
		t.Run(name, func(t *testing.T) {
			trace := attack(c.requests)
			acts := limits(c.acting)
			if c.act != nil {
				c.act(&acts)
			}
			shadowed := acts
			shadowed.Classes = slices.Clone(acts.Classes)
			c.before(&shadowed)
			twin := New(24)
			twin.SetPlan(&Plan{Mode: c.acting.String(), Policy: acts, TableSize: 1 << 12, CPUs: 2, Measures: true, Told: c.known == told, Workers: func() int { return 16 }})
			inTruth := serve(t, shadowed, c.known, trace, twin)
			twin.Flush()
			reply := twin.Reply(24)
			if len(reply.Modes) != 1 || reply.Modes[0].Requests != uint64(len(trace)) || reply.Modes[0].Lost+reply.Modes[0].Late > 0 {
				t.Fatalf("%d requests: %+v", len(trace), reply)
			}
			want := serve(t, acts, c.known, trace, nil)
			for _, g := range []telemetry.Group{telemetry.Known, telemetry.Robot} {
				was, would, requests := estimate(reply, g)
				t.Logf("%s, %d requests: reported %+v, enforced %+v", g, requests, would, want[g])
				if !near(was.CPU, inTruth[g].cpu, 1e-3) || was.Delayed != inTruth[g].delayed || was.Refused != inTruth[g].refused {
					t.Errorf("%s: was %+v, told %+v", g, inTruth[g], was)
				}
				few := 0.01 * float64(len(trace))
				right := near(would.CPU, want[g].cpu, 1)
				switch {
				case c.crowded && c.known == guessed: // what single ones cost is not seen, and so not surely who waits too long
					few = 0.1 * float64(requests)
				case c.crowded:
					few = 0.03 * float64(requests)
				}
				right = right && near(float64(would.Refused), float64(want[g].refused), few) && near(float64(would.Delayed), float64(want[g].delayed), few)
				if !right {
					t.Errorf("%s: reported %+v, and enforcing did %+v", g, would, want[g])
				}
			}
		})
	}
}
