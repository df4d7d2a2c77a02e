package master

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(ms int64) time.Time { return time.UnixMilli(start + ms) }

// receive passes frames to a master. It returns the resulting orders: identifier and milliseconds since the
// start.
func receive(m *Master, now time.Time, frames string) []string {
	a, err := smockron.ParseAccounting(parts(frames))
	if err != nil {
		m.reject(err)
		return nil
	}
	if o, any := m.Account(now, &a); any {
		return []string{fmt.Sprintf("%s %d", o.Identifier, o.Until-start)}
	}
	return nil
}

func oneRule() *Master {
	return New(Settings{Domains: []Domain{{Name: "foo", Rules: []Rule{per(1, time.Second, 10)}}}})
}

// TestMalformedChangesNothing sends all messages that confused the first master, between valid ones. Each
// invalid message is counted, and has no other effect.
func TestMalformedChangesNothing(t *testing.T) {
	ts := func(ms int64) string { return fmt.Sprint(start + ms) }
	for _, bad := range []string{
		"foo\x00", "foo\x00|ACCEPTED|u|" + ts(0), "bar\x00|ACCEPTED|u|" + ts(0) + "||", "\x00|ACCEPTED|u|" + ts(0) + "||",
		"foo\x00\x00|ACCEPTED|u|" + ts(0) + "||", "fo\x00o|ACCEPTED|u|" + ts(0) + "||", "constructor\x00|ACCEPTED|u|" + ts(0) + "||",
		"foo\x00|REJECTED|u|" + ts(0) + "||", "foo\x00||u|" + ts(0) + "||", "foo\x00|accepted|u|" + ts(0) + "||", "foo\x00|BOGUS|u|" + ts(0) + "||",
		"foo\x00|DELAYED|u|" + ts(0) + "||", "foo\x00|DELAYED|u|" + ts(0) + "|abc|", "foo\x00|DELAYED|u|" + ts(0) + "|" + ts(86_400_000) + "|",
		"foo\x00|ACCEPTED|u|||", "foo\x00|ACCEPTED|u|abc||", "foo\x00|ACCEPTED|u|123abc||", "foo\x00|ACCEPTED|u|0x10||", "foo\x00|ACCEPTED|u|1e3||",
		"foo\x00|ACCEPTED|u|-5||", "foo\x00|ACCEPTED|u|Infinity||", "foo\x00|ACCEPTED|u|" + ts(60_000) + ".5||",
		"foo\x00|ACCEPTED|u|" + ts(86_400_000) + "||", "foo\x00|ACCEPTED|u|" + ts(-86_400_000) + "||",
	} {
		m := oneRule()
		for i := range 15 {
			got := receive(m, at(0), "foo\x00|ACCEPTED|u|"+ts(0)+"||")
			want := []string(nil)
			if i >= 10 {
				want = []string{fmt.Sprint("u ", 1000*(i-9))}
			}
			testkit.Same(t, want, got, "request %d", i)
			before := m.State()
			testkit.Same(t, nil, receive(m, at(0), bad), "%q causes", bad)
			if cmp.Equal(before, m.State()) {
				t.Errorf("%q is not counted", bad)
			}
		}
		testkit.Same(t, 1, m.State().Domains[0].Identifiers, "identifiers after %q", bad)
	}
}

// TestParallelRequestsEarnOnce: earnings during one request don't also pay for another one that ran at the same
// time, even if the identifier was never in debt in between.
func TestParallelRequestsEarnOnce(t *testing.T) {
	m := New(Settings{Domains: []Domain{{Name: "foo", Rules: []Rule{{Kind: Credit, CPUs: 1, Burst: time.Second}}}}})
	done := func(ms int64) []string {
		return receive(m, at(ms), fmt.Sprintf("foo\x00|ACCEPTED|u|%d||cost_ms=10000", start+ms-10_000))
	}
	testkit.Same(t, nil, done(0), "one request at a time has to wait")
	m.sweep(at(5_000))
	if got := done(5_000); len(got) != 1 || got[0] != "u 9000" { // 1 s was saved, and 5 s were earned
		t.Errorf("the second request: %v, want a wait until 9000", got)
	}
}

// TestTimes: accounting that was queued for too long, or comes from a wrong clock, is dropped. A request whose
// cost is reported may have arrived long before, because it has run since then.
func TestTimes(t *testing.T) {
	const hour = 3_600_000
	for _, c := range []struct {
		received, until int64 // milliseconds relative to the master's time
		cost            string
		taken           bool
	}{
		{0, 0, "", true},
		{-9_000, 0, "", true},
		{-11_000, 0, "", false},
		{9_000, 0, "", true},
		{11_000, 0, "", false},
		{0, 9_000, "", true},
		{0, 11_000, "", false}, // no order was for such a long wait
		{0, 60_000, "", false},
		{0, 2 * hour, "", false},
		{-600_000, 0, "cost_ms=500000", true},
		{-2 * hour, 0, "cost_ms=1", false},
		{11_000, 0, "cost_ms=1", false},
	} {
		m := oneRule()
		status, until := "ACCEPTED", ""
		if c.until > 0 {
			status, until = "DELAYED", fmt.Sprint(start+c.until)
		}
		receive(m, at(0), fmt.Sprintf("foo\x00|%s|u|%d|%s|%s", status, start+c.received, until, c.cost))
		d := m.State().Domains[0]
		if got := d.Counts.Skewed == 0; got != c.taken || (d.Identifiers > 0) != c.taken {
			t.Errorf("%+v: accepted %v, %d identifiers", c, got, d.Identifiers)
		}
	}
}

// TestDelayedByOrders: a request may report a delay until the time that was ordered for its identifier, but not
// a longer one, because a longer delay would make all clients of that identifier wait.
func TestDelayedByOrders(t *testing.T) {
	delayed := func(m *Master, until int64) []string {
		return receive(m, at(0), fmt.Sprintf("foo\x00|DELAYED|u|%d|%d|", start, start+until))
	}
	m := oneRule()
	var told []string
	for range 30 {
		told = receive(m, at(0), fmt.Sprintf("foo\x00|ACCEPTED|u|%d||", start))
	}
	testkit.Same(t, []string{"u 20000"}, told, "told")
	if got := delayed(m, 20_000); len(got) != 1 || got[0] != "u 21000" {
		t.Errorf("delayed as ordered: %v, want the next second", got)
	}
	if got := delayed(m, 31_001); got != nil || m.State().Domains[0].Counts.Skewed != 1 {
		t.Errorf("delayed until ten seconds after the ordered time: %v, %+v", got, m.State().Domains[0].Counts)
	}
	if got := receive(m, at(0), fmt.Sprintf("foo\x00|DELAYED|other|%d|%d|", start, start+20_000)); got != nil || m.State().Domains[0].Identifiers != 1 {
		t.Errorf("another identifier, without an order: %v", got)
	}
}

// TestBeforeItBegan: accounting that gatekeepers queued before the master started is dropped, however short
// that time was; otherwise, so many messages at once would lock the gatekeepers' clients out. A request's cost
// is still charged, because it is reported when the request ends.
func TestBeforeItBegan(t *testing.T) {
	m := oneRule()
	m.begin(at(0))
	for i := range 1000 { // the messages that ZeroMQ keeps for a Node gatekeeper during an outage of 5 s
		if got := receive(m, at(100), fmt.Sprintf("foo\x00|ACCEPTED|u|%d||", start-5000+int64(i)*5-1)); got != nil {
			t.Fatalf("message %d: %v", i, got)
		}
	}
	if s := m.State().Domains[0]; s.Counts.Skewed != 1000 || s.Identifiers != 0 {
		t.Errorf("%+v", s)
	}
	for i := range 11 {
		got := receive(m, at(100), fmt.Sprintf("foo\x00|ACCEPTED|u|%d||", start))
		if (got != nil) != (i == 10) {
			t.Errorf("request %d after that: %v", i, got)
		}
	}
	c := New(Settings{Domains: []Domain{{Name: "foo", Rules: []Rule{{Kind: Credit, CPUs: 1, Burst: time.Second}}}}})
	c.begin(at(0))
	receive(c, at(100), fmt.Sprintf("foo\x00|ACCEPTED|u|%d||cost_ms=8100", start-8000))
	if s := c.State().Domains[0]; s.Counts.Skewed != 0 || s.Identifiers != 1 {
		t.Errorf("with its cost: %+v", s)
	}
}

// TestAnyRule: an identifier that breaks one of several rules waits for the slowest of them.
func TestAnyRule(t *testing.T) {
	slow, fast := per(1, time.Minute, 3), per(10, time.Second, 1)
	m := New(Settings{Domains: []Domain{{Name: "foo", Rules: []Rule{slow, fast}}, {Name: "free"}}})
	want := []string{"", "u 100", "u 200", "u 60000"}
	for i, w := range want {
		got := receive(m, at(0), fmt.Sprintf("foo\x00|ACCEPTED|u|%d||", start))
		if w == "" && got != nil || w != "" && !cmp.Equal(got, []string{w}) {
			t.Errorf("request %d: %v, want %v", i, got, w)
		}
	}
	testkit.Same(t, nil, receive(m, at(0), fmt.Sprintf("free\x00|ACCEPTED|u|%d||", start)), "a domain without rules gives")
}

// TestReconfigured: unchanged rules keep their state, and others start again.
func TestReconfigured(t *testing.T) {
	rule, other := per(1, time.Second, 10), per(1, time.Second, 20)
	both := []Domain{{Name: "a", Rules: []Rule{rule}}, {Name: "b", Rules: []Rule{rule}}}
	m := New(Settings{Domains: both})
	ask := func(domain string) []string {
		return receive(m, at(0), fmt.Sprintf("%s\x00|ACCEPTED|u|%d||", domain, start))
	}
	for range 11 {
		ask("a")
		ask("b")
	}
	m.Configure(Settings{Domains: []Domain{both[0], {Name: "b", Rules: []Rule{other}}}})
	if got := ask("a"); !cmp.Equal(got, []string{"u 2000"}) {
		t.Errorf("an unchanged rule lost its state: %v", got)
	}
	testkit.Same(t, nil, ask("b"), "after a changed rule")
}

// TestBoundedIdentifiers: invented identifiers never make the master forget an identifier in debt.
func TestBoundedIdentifiers(t *testing.T) {
	m := New(Settings{Domains: []Domain{{Name: "foo", Identifiers: 100, Rules: []Rule{per(1, time.Second, 10)}}}})
	for range 100 {
		receive(m, at(0), fmt.Sprintf("foo\x00|ACCEPTED|debtor|%d||", start))
	}
	for i := range 10_000 {
		receive(m, at(1), fmt.Sprintf("foo\x00|ACCEPTED|new-%d|%d||", i, start))
	}
	s := m.State().Domains[0]
	if s.Identifiers != 100 || s.Counts.Evicted != 10_001-100 {
		t.Errorf("%d identifiers, %d evicted", s.Identifiers, s.Counts.Evicted)
	}
	waits, _ := m.Identifiers(at(0), "foo", 1)
	if want := []IdentifierState{{"debtor", 90, at(90_000).UnixMilli()}}; !cmp.Equal(waits, want) {
		t.Errorf("the identifiers that wait longest: %v, want %v", waits, want)
	}
}

// TestSweep: identifiers that no longer matter take no memory.
func TestSweep(t *testing.T) {
	m := oneRule()
	for i := range 1000 {
		receive(m, at(0), fmt.Sprintf("foo\x00|ACCEPTED|id-%d|%d||", i, start))
	}
	m.sweep(at(5000))
	testkit.Same(t, 1000, m.State().Domains[0].Identifiers, "identifiers while they still matter")
	for range 50 {
		m.sweep(at(11_000))
	}
	testkit.Same(t, 0, m.State().Domains[0].Identifiers, "identifiers left")
}

// parts splits a text into frames at each |.
func parts(text string) [][]byte { return bytes.Split([]byte(text), []byte("|")) }

// TestForgottenIsNotSaved: while the store can't be reached, forgotten identifiers don't take the room of
// identifiers in debt.
func TestForgottenIsNotSaved(t *testing.T) {
	m := New(Settings{Domains: []Domain{{Name: "foo", Rules: []Rule{per(1, time.Second, 10)}, Identifiers: 10}}})
	m.saver.on = true
	for i := range 1000 {
		receive(m, at(0), fmt.Sprintf("foo\x00|ACCEPTED|u%d|%d||", i, start))
	}
	expect := func(when string, want int) {
		t.Helper()
		if s := m.State(); s.Unsaved != want || s.Lost != 0 {
			t.Errorf("%s: %d identifiers wait to be saved, %d were lost; want %d, 0", when, s.Unsaved, s.Lost, want)
		}
	}
	expect("the store is away", 10)
	m.putBack(m.takeUnsaved())
	expect("the store is still away", 10)
	batch := m.takeUnsaved()
	for range 50 {
		m.sweep(at(20_000))
	}
	m.putBack(batch)
	expect("all were forgotten while they were being saved", 0)
}
