package book

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// TestHours: the cost of a request counts in the hour in which it ended, under all its names.
func TestHours(t *testing.T) {
	c := newTeller(t, 168)
	robot := func(r *telemetry.Record) { r.Group = telemetry.Robot }
	c.request(noon.Add(time.Minute), "192.0.2.1", "/a", 1, func(r *telemetry.Record) { r.Verdict.Shadow = true })
	c.request(noon.Add(2*time.Minute), "192.0.2.2", "/b?x=1", 2, robot, func(r *telemetry.Record) { r.Orphan = true })
	c.request(noon.Add(3*time.Minute), "192.0.2.2", "/b?x=1", 0, robot, func(r *telemetry.Record) { r.Outcome = telemetry.Refused })
	c.request(noon.Add(4*time.Minute), "192.0.2.1", "/a", 0, func(r *telemetry.Record) { r.Outcome = telemetry.Redirected })
	c.weight = 4
	long := func(r *telemetry.Record) { r.Arrived = noon.Add(-3 * time.Hour) }
	c.request(noon.Add(61*time.Minute), "2001:db8::1", "/c", 100, long) // a request counts when it ends
	got := c.history.Reply(168)
	none := []api.HistoryPart{{Name: "known"}, {Name: "newcomers"}, {Name: "strangers"}, {Name: "robots"}, {Name: "exempt"}}
	first := append([]api.HistoryPart{}, none...)
	first[2] = api.HistoryPart{Name: "strangers", CPU: 1, Requests: 2, P95: 0.9872}
	first[3] = api.HistoryPart{Name: "robots", CPU: 2, Requests: 2, P95: 0.9872}
	second := append([]api.HistoryPart{}, none...)
	second[2] = api.HistoryPart{Name: "strangers", CPU: 400, Requests: 4, P95: 857.5802}
	want := api.HistoryReply{Version: 1, Hours: []api.HourRow{
		{
			At: float64(noon.Unix()), Requests: 4, CPU: 3, Wasted: 2, Refused: 1, Redirected: 1, Shadowed: 1, Groups: first,
			Classes: []api.HistoryClass{
				{Class: "slash32", Keys: []api.HistoryPart{{Name: "192.0.2.2", CPU: 2, Requests: 2}, {Name: "192.0.2.1", CPU: 1, Requests: 2}}},
				{Class: "slash16", Keys: []api.HistoryPart{{Name: "192.0.0.0/16", CPU: 3, Requests: 4}}},
			},
			Shapes: []api.HistoryPart{{Name: "/b?x", CPU: 2, Requests: 2}, {Name: "/a", CPU: 1, Requests: 2}},
			URLs:   []api.HistoryPart{{Name: "/b?*", CPU: 2, Requests: 2}, {Name: "/a", CPU: 1, Requests: 2}},
		}, {
			At: float64(noon.Add(time.Hour).Unix()), Requests: 4, CPU: 400, Groups: second,
			Classes: []api.HistoryClass{
				{Class: "slash32", Keys: []api.HistoryPart{{Name: "2001:db8::/64", CPU: 400, Requests: 4}}},
				{Class: "slash16", Keys: []api.HistoryPart{{Name: "2001:db8::/48", CPU: 400, Requests: 4}}},
			},
			Shapes: []api.HistoryPart{{Name: "/c", CPU: 400, Requests: 4}},
			URLs:   []api.HistoryPart{{Name: "/c", CPU: 400, Requests: 4}},
		},
	}}
	testkit.Same(t, want, got, "the history")
	if one := c.history.Reply(1); len(one.Hours) != 1 || one.Hours[0].CPU != 400 {
		t.Errorf("the last hour is %+v", one.Hours)
	}
	back := NewHistory(168, telemetry.NewWords())
	saved := savedText(t, c.history)
	testkit.Must(t, back.UnmarshalBinary(saved))
	testkit.Same(t, want, back.Reply(168), "restored")
	if strings.Contains(string(saved), "secret") {
		t.Error("a cookie is kept")
	}
	for _, bad := range []string{"", "{", `{"Open": {}}`, string(saved[:len(saved)-1])} {
		if err := back.UnmarshalBinary([]byte(bad)); err == nil || !cmp.Equal(want, back.Reply(168)) {
			t.Errorf("%.20q: %v, or it changed the history", bad, err)
		}
	}
}

// savedText returns the saved form of a History.
func savedText(t *testing.T, h *History) []byte {
	t.Helper()
	text, err := h.AppendBinary(nil)
	testkit.Must(t, err)
	return text
}

// TestHoursEnd: there are no more hours than configured, and a wrong clock does no lasting harm.
func TestHoursEnd(t *testing.T) {
	at := func(h *History) (hours []int) {
		for _, row := range h.Reply(168).Hours {
			hours = append(hours, int(row.At-float64(noon.Unix()))/3600)
		}
		return hours
	}
	for _, c := range []struct {
		name string
		told []time.Duration // times since noon
		want []int
	}{
		{"in order", []time.Duration{0, time.Hour, 2 * time.Hour}, []int{0, 1, 2}},
		{"four", []time.Duration{0, time.Hour, 2 * time.Hour, 3 * time.Hour}, []int{1, 2, 3}},
		{"after a night", []time.Duration{0, time.Hour, 3 * time.Hour}, []int{1, 3}},
		{"after a year", []time.Duration{0, time.Hour, 9000 * time.Hour}, []int{9000}},
		{"set back a little", []time.Duration{0, time.Hour, time.Hour - time.Second, time.Hour}, []int{0, 1}},
		{"set back a lot", []time.Duration{0, 50 * time.Hour, time.Hour, 2 * time.Hour}, []int{1, 2}},
	} {
		h := NewHistory(3, telemetry.NewWords())
		for _, d := range c.told {
			h.Take(noon.Add(d), new(telemetry.Batch))
		}
		testkit.Same(t, c.want, at(h), "%s", c.name)
		again := NewHistory(2, telemetry.NewWords())
		if err := again.UnmarshalBinary(savedText(t, h)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		again.Take(noon.Add(c.told[len(c.told)-1]), new(telemetry.Batch))
		want := slices.DeleteFunc(slices.Clone(c.want), func(hour int) bool { return hour <= c.want[len(c.want)-1]-2 })
		if got := at(again); !cmp.Equal(got, want) {
			t.Errorf("%s: as two hours %v, want %v", c.name, got, want)
		}
	}
	testkit.Same(t, nil, at(NewHistory(3, telemetry.NewWords())), "hours of a history that was told nothing")
}

// TestTogether: replies are complete even while requests are being added.
func TestTogether(t *testing.T) {
	c := newTeller(t, 5)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			c.request(noon.Add(time.Duration(i)*time.Minute), fmt.Sprintf("192.0.2.%d", i%9), "/a", 1)
		}
	}()
	for ended := false; !ended; {
		ended = testkit.Ready(done)
		testkit.Must(t, NewHistory(5, telemetry.NewWords()).UnmarshalBinary(savedText(t, c.history)))
		for _, row := range c.history.Reply(5).Hours {
			if keys := row.Classes; len(keys) > 0 && row.Requests > 0 && float64(row.Requests) != row.CPU {
				t.Fatalf("%d requests cost %v", row.Requests, row.CPU)
			}
		}
	}
	if rows := c.history.Reply(5).Hours; len(rows) != 5 || rows[0].Requests != 60 || rows[4].CPU != 60 {
		t.Errorf("%d hours: %+v", len(rows), rows)
	}
}

// TestMemory: whatever names clients invent, all hours of a week take less than 10 MB.
func TestMemory(t *testing.T) {
	const hours = 168
	full := fullHour()
	before := testkit.Heap()
	saved, err := json.Marshal(full.document(kept))
	testkit.Must(t, err)
	h := NewHistory(hours, telemetry.NewWords())
	h.over = make([]api.HourRow, hours-1)
	for i := range h.over { // each hour has its own names
		testkit.Must(t, json.Unmarshal(saved, &h.over[i]))
	}
	h.open = reopen(full.document(counted), full.took)
	got := testkit.Heap() - before
	t.Logf("an hour takes %d bytes in a file, and all together %d in memory", len(saved), got)
	if got > 10<<20 {
		t.Errorf("all hours take %d bytes", got)
	}
	runtime.KeepAlive(h)
	runtime.KeepAlive(full)
}
