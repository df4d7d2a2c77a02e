package book

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// TestRecent: requests that went wrong are listed, the newest first, and one client can't displace those of
// others.
func TestRecent(t *testing.T) {
	b := New(began)
	note := func(at int, client netip.Addr, change func(*telemetry.Record)) {
		now := began.Add(time.Duration(at) * time.Second)
		r := request(client, "/a", "/a?x=1", 0)
		r.Arrived = now.Add(-2 * time.Second)
		change(&r)
		b.Take(now, batchOf(entry(now, r, 1)))
	}
	note(1, address(1), func(*telemetry.Record) {})
	note(2, address(2), func(r *telemetry.Record) {
		r.Outcome, r.Status, r.ID, r.Limit = telemetry.Refused, 429, "0a", "search"
	})
	note(3, address(3), func(r *telemetry.Record) { r.Outcome, r.Queued = telemetry.Redirected, 2*time.Second })
	note(4, address(4), func(r *telemetry.Record) {
		r.Verdict = limiter.Verdict{Wait: 3 * time.Second, Reason: limiter.Debt, Key: limiter.Key{Class: "c", ID: "k"}}
	})
	note(5, address(5), func(r *telemetry.Record) { r.Outcome, r.Queued = telemetry.ClientGone, 2*time.Second })
	note(6, address(6), func(r *telemetry.Record) { r.Outcome, r.Cost = telemetry.ClientGone, time.Second })
	note(6, address(6), func(r *telemetry.Record) { r.Outcome = telemetry.ClientGone }) // the client disconnected while it sent its body
	note(7, address(7), func(r *telemetry.Record) { r.Outcome, r.Queued = telemetry.Refused, 6*time.Second })
	rows := b.Recent(10).Rows
	want := []string{"refused 6 none", "client gone 2 none", "answered 3 debt", "redirected 2 newcomer", "refused 0 limit search"}
	for i, r := range rows {
		if got := fmt.Sprint(r.Outcome, " ", r.Waited, " ", r.Reason); i >= len(want) || got != want[i] {
			t.Errorf("row %d: %s", i, got)
		}
	}
	if len(rows) != len(want) || rows[4].ID != "0a" || rows[2].Class != "c" || rows[0].URL != "/a?x=1" || rows[1].At != 1_000_005 {
		t.Errorf("got %+v", rows)
	}
	for i := range 200 {
		note(10+i, address(9<<24+i), func(r *telemetry.Record) { r.Outcome = telemetry.Refused })
	}
	for range 20_000 {
		note(300, address(8<<24), func(r *telemetry.Record) { r.Outcome = telemetry.Refused })
	}
	others := 0
	for _, r := range b.Recent(10_000).Rows {
		if strings.HasPrefix(r.Client, "9.") {
			others++
		}
	}
	if others < 150 {
		t.Errorf("one client's leave %d of 200 others", others)
	}
}

// TestRecentOfAFlood: requests that people ask about stay listed while thousands are redirected and refused.
func TestRecentOfAFlood(t *testing.T) {
	b := New(began)
	for i := range 20_000 {
		now := began.Add(time.Duration(i) * time.Millisecond)
		r := request(address(10<<24+i), "/a", "/a", 0)
		r.Queued, r.Outcome, r.Verdict.Reason = 3*time.Second, telemetry.Refused, limiter.Busy
		switch {
		case i == 0:
			r.Group, r.ID = telemetry.Known, "person"
		case i < 20:
			r.ID = "stranger"
		default:
			r.Outcome, r.Verdict.Reason = telemetry.Redirected, limiter.None
		}
		b.Take(now, batchOf(entry(now, r, 1)))
	}
	counts := map[string]int{}
	rows := b.Recent(100).Rows
	for i, r := range rows {
		counts[r.ID+" "+r.Outcome+" "+r.Reason]++
		if r.Waited != 3 || i > 0 && r.At > rows[i-1].At {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if counts["person refused busy"] != 1 || counts["stranger refused busy"] != 19 || counts[" redirected newcomer"] != 80 {
		t.Errorf("of 100: %v", counts)
	}
	if rows := b.Recent(20).Rows; len(rows) != 20 || rows[4].Outcome != "redirected" || rows[5].Outcome != "refused" {
		t.Errorf("of 20: %+v", rows)
	}
}
