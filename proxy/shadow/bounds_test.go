package shadow

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// capped is a plan in which a network may use a tenth of a CPU, and owe for a second.
func capped() *Plan {
	p := limits(limiter.Cap)
	p.MaxHold = time.Second
	p.Classes[1].Budget = limiter.Budget{CPUs: 0.1}
	return &Plan{Mode: "cap", Policy: p, TableSize: 1 << 10, CPUs: 2}
}

// note tells a Twin of a request for a page of so many CPU-seconds.
func note(t testing.TB, twin *Twin, at time.Duration, client string, cpu float64, change ...func(*telemetry.Record)) {
	t.Helper()
	q := requestOf(&asked{client: client, target: "/page"})
	var who classify.Result
	classes(t).Classify(q, &who)
	took := seconds(cpu)
	r := &telemetry.Record{
		Arrived: noon.Add(at), Request: q, Who: &who, Status: 200, Asked: true, Cost: took, CPU: took, Stay: took, Guess: took, Group: telemetry.Stranger,
	}
	for _, f := range change {
		f(r)
	}
	twin.Note(r.Arrived.Add(took), r)
}

// TestSurvives: what was reckoned is there after a restart, and goes on in the same hour.
func TestSurvives(t *testing.T) {
	twin := New(2)
	twin.SetPlan(capped())
	for i := range 10 {
		note(t, twin, time.Duration(i)*time.Second, "192.0.2.1", 0.5)
	}
	twin.Flush()
	before := twin.Reply(24)
	sum := before.Modes[0]
	if sum.Requests != 10 || sum.Groups[2].Would.Refused < 5 || sum.Causes[0].Name != "slash24" || sum.Classes[0].Keys[0].Name != "192.0.2.0/24" {
		t.Fatalf("%+v", before)
	}
	next := New(2)
	if err := next.Restore(twin.Blocks()); err != nil {
		t.Fatal(err)
	}
	after := next.Reply(24)
	if diff := cmp.Diff(before.Modes, after.Modes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	next.SetPlan(capped())
	note(t, next, 30*time.Minute, "192.0.2.1", 0.5)
	note(t, next, 61*time.Minute, "192.0.2.1", 0.5)
	next.Flush()
	if got := next.Reply(24).Modes; len(got) != 1 || len(got[0].Hours) != 2 || got[0].Requests != 12 || got[0].Hours[0].Requests != 11 {
		t.Errorf("%+v", got)
	}
	if got := next.Reply(1).Modes; len(got[0].Hours) != 1 || got[0].Requests != 1 {
		t.Errorf("the last hour: %+v", got)
	}
	note(t, next, 5*time.Hour, "192.0.2.1", 0.5)
	next.Flush()
	if got := next.Reply(24).Modes; got[0].Requests != 1 {
		t.Errorf("of two hours are kept %+v", got)
	}
}

// TestUnsound: a damaged file begins anew, and makes nothing panic later.
func TestUnsound(t *testing.T) {
	twin := New(2)
	twin.SetPlan(capped())
	note(t, twin, 0, "192.0.2.1", 0.5)
	twin.Flush()
	good := string(twin.Blocks()[0])
	for _, bad := range []string{
		"", "{}", "[]", good[:len(good)/2], strings.Replace(good, `"At":1`, `"At":2`, 1), strings.Replace(good, `"Groups":[`, `"Groups":[{},`, 1),
		strings.Replace(good, `"Causes":{`, `"Causes":{"x":null,`, 1), strings.Replace(good, `"CPU":0.5`, `"CPU":-1`, 1),
	} {
		if bad == good {
			t.Fatal("nothing is bad about it")
		}
		next := New(2)
		if err := next.Restore([][]byte{[]byte(bad)}); err == nil {
			t.Errorf("taken for sound: %.300s", bad)
		}
		if m := next.Reply(24).Modes; len(m) > 0 {
			t.Errorf("%+v", m)
		}
	}
}

// TestBounded: a flood from anywhere, for anything, is counted in bounded memory, and what
// finds no room is told of.
func TestBounded(t *testing.T) {
	twin := New(2)
	plan := capped()
	twin.SetPlan(plan)
	n := 0
	for range 4 {
		for range 6_000 {
			n++
			note(t, twin, time.Duration(n)*time.Millisecond, fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), 1, func(r *telemetry.Record) {
				r.Who.Shape = fmt.Sprint("/shape", n)
			})
		}
		twin.Play(noon.Add(time.Duration(n) * time.Millisecond))
	}
	twin.Flush()
	m := twin.Reply(24).Modes[0]
	if m.Lost == 0 || m.Lost != twin.Lost() || m.Requests+m.Lost != uint64(n) {
		t.Errorf("of %d requests %d are counted and %d lost", n, m.Requests, m.Lost)
	}
	if len(twin.window.free) > mostWaiting+intakeShards*mostTaken || len(twin.costs.shapes) > shapesKept || len(twin.open.Keys["slash32"].all) > keysCounted {
		t.Errorf("%d requests, %d shapes and %d keys are kept", len(twin.window.free), len(twin.costs.shapes), len(twin.open.Keys["slash32"].all))
	}
	if b := twin.Blocks(); len(b[0]) > 1<<17 {
		t.Errorf("an hour has %d bytes", len(b[0]))
	}
}

// TestOffCostsNothing: nothing is kept of a request while nothing is in shadow.
func TestOffCostsNothing(t *testing.T) {
	twin := New(2)
	r := &telemetry.Record{Asked: true}
	if n := testing.AllocsPerRun(100, func() { twin.Note(noon, r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	twin.Play(noon)
	twin.Flush()
	if reply := twin.Reply(24); reply.Mode != "" || len(reply.Modes) > 0 || twin.Lost() > 0 {
		t.Errorf("%+v", reply)
	}
}

// TestPlans: each mode has its sum, and what was under way ends as its mode had it.
func TestPlans(t *testing.T) {
	twin := New(24)
	twin.SetPlan(capped())
	note(t, twin, 0, "192.0.2.1", 0.5)
	twin.SetPlan(nil)
	note(t, twin, time.Second, "192.0.2.1", 0.5) // nobody is told
	fair := &Plan{Mode: "fair", Policy: limits(limiter.Fair), TableSize: 1 << 10, CPUs: 2}
	twin.SetPlan(fair)
	note(t, twin, 2*time.Second, "192.0.2.1", 0.5)
	twin.Play(noon.Add(2 * time.Second))
	if twin.Reply(1).Mode != "fair" || len(twin.Reply(1).Modes) != 1 {
		t.Errorf("within the window of the second: %+v", twin.Reply(1))
	}
	twin.Play(noon.Add(2*time.Second + patience))
	again := *fair
	again.Policy.Classes = nil // as a reload may
	twin.SetPlan(&again)
	note(t, twin, 10*time.Second, "192.0.2.1", 0.5)
	twin.Flush()
	r := twin.Reply(24)
	if len(r.Modes) != 2 || r.Modes[0].Mode != "cap" || r.Modes[0].Requests != 1 || r.Modes[1].Mode != "fair" || r.Modes[1].Requests != 2 {
		t.Errorf("%+v", r.Modes)
	}
}

// everybody is eligible.
type everybody struct{}

func (everybody) Eligible(time.Time, *http.Request, *classify.Result) bool { return true }

// TestKinds: requests that never asked for a place, that a limit in shadow would have refused,
// and those that the backend did not see, are what they are.
func TestKinds(t *testing.T) {
	twin := New(24)
	p := &Plan{Mode: "fair", Policy: limits(limiter.Fair), TableSize: 1 << 10, CPUs: 2, Newcomers: everybody{}}
	twin.SetPlan(p)
	note(t, twin, 0, "192.0.2.1", 0, func(r *telemetry.Record) { r.Asked = false })                  // robots.txt, say
	note(t, twin, 0, "192.0.2.1", 1, func(r *telemetry.Record) { r.Limit = "login" })                // in shadow
	note(t, twin, 0, "192.0.2.2", 0, func(r *telemetry.Record) { r.Outcome = telemetry.Redirected }) // comes again
	note(t, twin, 0, "192.0.2.3", 1, func(r *telemetry.Record) {
		r.Outcome, r.CPU, r.Stay, r.Guess = telemetry.Refused, 0, 0, 2*time.Second
	})
	for i := range 12 { // more than have room at a time: some wait, and would be sent back
		note(t, twin, time.Minute+time.Duration(i), fmt.Sprintf("198.51.%d.1", i), 1)
	}
	twin.Flush()
	m := twin.Reply(24).Modes[0]
	if m.Requests != 15 {
		t.Errorf("%d requests", m.Requests)
	}
	was, would, _ := estimate(twin.Reply(24), telemetry.Stranger)
	if was.Redirected != 1 || was.Refused != 1 || would.Redirected < 6 || would.Redirected > 10 || would.CPU != 14 || would.Refused != 1 {
		t.Errorf("was %+v, would %+v", was, would)
	}
	if len(twin.sent) != int(would.Redirected) {
		t.Errorf("%d have a pass of %d", len(twin.sent), would.Redirected)
	}
	found := map[string]uint64{}
	twin.Totals(func(cause, action string, n uint64) { found[cause+" "+action] = n })
	if found["limit login refused"] != 1 || found["gate redirected"] != would.Redirected || found["gate delayed"] != would.Delayed {
		t.Errorf("%v", found)
	}
}

func BenchmarkNote(b *testing.B) {
	twin := New(2)
	twin.SetPlan(capped())
	q := requestOf(&asked{client: "192.0.2.1", target: "/page?id=7"})
	r := &telemetry.Record{Arrived: noon, Request: q, Who: new(classify.Result), Asked: true}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1024 == 0 {
			for s := range twin.shards {
				twin.shards[s].all = twin.shards[s].all[:0]
			}
		}
		twin.Note(noon, r)
	}
}
