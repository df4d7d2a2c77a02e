package master

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

const start = int64(1_700_000_000_000)

func per(requests int, of time.Duration, burst int) Rule {
	interval := of / time.Duration(requests)
	return Rule{Interval: interval, Burst: time.Duration(burst) * interval}
}

// TestCredit keeps a diary of an identifier that may use half a CPU.
func TestCredit(t *testing.T) {
	r := Rule{Kind: Credit, CPUs: 0.5, Burst: 10 * time.Second}
	var s state
	for _, step := range []struct {
		at, cost, until int64 // seconds; until 0: the identifier needn't wait
	}{
		{0, 4, 0}, // it has earned 2 in the meantime: 8
		{0, 6, 0},
		{0, 3, 2},
		{1, 1, 4},
		{4, 0, 0},
		{100, 24, 104},         // it had saved exactly the whole burst, and earned 12
		{104, 1000, 104 + 120}, // no debt takes longer to pay than the memory
		{10_000, 10, 0},
	} {
		until := r.account(&s, start+1000*step.at, &smockron.Accounting{Cost: time.Duration(step.cost) * time.Second})
		want := start + 1000*step.until
		if step.until == 0 {
			want = 0
		}
		testkit.Same(t, want, until, "at %d s: until", step.at)
	}
}

// TestCreditWithNoBurst: successive requests that use exactly the rate never wait, although nothing can be
// saved. Two requests at a time do.
func TestCreditWithNoBurst(t *testing.T) {
	r := Rule{Kind: Credit, CPUs: 1}
	var s state
	for i := range int64(10) {
		if until := r.account(&s, start+1000*i, &smockron.Accounting{Cost: time.Second}); until > start+1000*i {
			t.Fatalf("request %d has to wait until %d", i, until-start)
		}
	}
	testkit.Same(t, start+10_000, r.account(&s, start+9000, &smockron.Accounting{Cost: time.Second}), "a second request at the same time: until")
}

// TestHistoryMemory: the rule keeps no more timestamps than the burst has requests.
func TestHistoryMemory(t *testing.T) {
	r := per(1, time.Second, 10)
	r.Kind = History
	var s state
	for i := range int64(1000) {
		r.account(&s, start+100*i, &smockron.Accounting{Received: start + 100*i})
	}
	if len(s.times) != 10 || cap(s.times) > 16 {
		t.Errorf("%d timestamps in room for %d, want 10", len(s.times), cap(s.times))
	}
}

// TestStatesSurviveAStore: saved states lead to the same decisions when they are loaded, and merging them
// twice, or into existing states, changes nothing.
func TestStatesSurviveAStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := per(2, time.Second, rapid.IntRange(1, 6).Draw(t, "burst"))
		history.Kind = History
		rules := []Rule{
			per(5, time.Second, rapid.IntRange(1, 20).Draw(t, "bucket")),
			{Kind: Credit, CPUs: 0.5, Burst: 3 * time.Second},
			history,
		}
		now := start
		states := make([]state, len(rules))
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			now += rapid.Int64Range(0, 900).Draw(t, "pause")
			a := smockron.Accounting{Event: limiter.Accepted, Received: now, Cost: time.Duration(rapid.IntRange(0, 900).Draw(t, "ms")) * time.Millisecond}
			for i := range rules {
				rules[i].account(&states[i], now, &a)
			}
		}
		text := string(appendStates(nil, rules, states))
		copied := make([]state, len(rules))
		mergeStates(text, rules, copied, now)
		mergeStates(text, rules, copied, now)
		mergeStates(text, rules, states, now)
		now += rapid.Int64Range(0, 900).Draw(t, "later")
		var first, second []int64
		for i := range rules {
			first = append(first, max(now, rules[i].next(&states[i], now))/10) // credit rounds
			second = append(second, max(now, rules[i].next(&copied[i], now))/10)
		}
		testkit.Same(t, first, second, "the decisions after %q", text)
	})
}

func FuzzMerge(f *testing.F) {
	f.Add("1700000000000|1700000000000 -5.000|1700000000000 1700000000100")
	f.Add("|NaN Inf| |")
	history := per(2, time.Second, 3)
	history.Kind = History
	rules := []Rule{per(5, time.Second, 5), {Kind: Credit, CPUs: 0.5, Burst: time.Second}, history}
	f.Fuzz(func(t *testing.T, text string) {
		states := make([]state, len(rules))
		mergeStates(text, rules, states, start)
		a := smockron.Accounting{Received: start, Cost: time.Millisecond}
		for i := range rules {
			rules[i].account(&states[i], start, &a)
		}
		if s := states[1]; s.level != s.level || s.level > 1000 {
			t.Errorf("%q made a level of %v", text, s.level)
		}
		if n := len(states[2].times); n > 3 {
			t.Errorf("%q made %d timestamps", text, n)
		}
	})
}

func TestQueueDropsTheOldest(t *testing.T) {
	s := &service{queue: make(chan smockron.Accounting, 4)}
	for i := range 7 {
		s.push(smockron.Accounting{Received: int64(i)})
	}
	var got []int64
	for range 4 {
		a := <-s.queue
		got = append(got, a.Received)
	}
	if diff := cmp.Diff([]int64{3, 4, 5, 6}, got); diff != "" || s.dropped.Load() != 3 {
		t.Errorf("%d lost, -want +got:\n%s", s.dropped.Load(), diff)
	}
}
