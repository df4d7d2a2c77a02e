package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const tiny = `cpuCount: 1
classes: {slash32: {share: 0.000001, burst: 0s}, slash24: off, slash16: off, userAgent: off}
`

// TestRefused: who owes more than may be held is told so, and costs nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, tiny+"throttle: {mode: cap, maxHold: 10s}\n")
	const debtor = "198.51.100.1"
	if a := s.get(debtor, "/page.php?ms=20"); a.StatusCode != http.StatusOK {
		t.Fatalf("nobody owes anything yet: %s", a.Status)
	}
	for !strings.Contains(backend.log("access.log"), "/page.php?ms=20") { // Apache logs after it has answered
		if t.Context().Err() != nil {
			t.Fatal("the backend did not log its one request")
		}
		time.Sleep(10 * time.Millisecond)
	}
	seen := strings.Count(backend.log("access.log"), "\n")
	owed, _ := s.account("slash32", debtor)

	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { isToldWhy(t, p.client(t), s.url, debtor) })
	}

	if n := strings.Count(backend.log("access.log"), "\n"); n != seen {
		t.Errorf("the backend saw %d refused requests", n-seen)
	}
	if now, _ := s.account("slash32", debtor); now.Level < owed.Level {
		t.Errorf("refusing was charged: the level was %v and is %v", owed.Level, now.Level)
	}
	if a := s.get("198.51.100.2", "/style.css"); a.StatusCode != http.StatusOK {
		t.Errorf("somebody else got %s", a.Status)
	}
	if n := s.stats().Counters["refused"]; n != 6 {
		t.Errorf("%d refusals are counted, want 6", n)
	}
}

// isToldWhy looks at a refusal as a person and as a program.
func isToldWhy(t *testing.T, c *http.Client, url, debtor string) {
	const page, text, problem = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/problem+json"
	for accept, want := range map[string]string{
		"text/html,application/xhtml+xml,*/*;q=0.8": page, "": text, "application/json": problem,
	} {
		h := from(debtor)
		if accept != "" {
			h.Set("Accept", accept)
		}
		a := fetch(t, c, http.MethodGet, url+"/page.php?ms=20", h, nil)
		after, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if a.StatusCode != http.StatusTooManyRequests || err != nil || after < 1 {
			t.Errorf("Accept: %s: %s, Retry-After %q", accept, a.Status, a.Header.Get("Retry-After"))
		}
		why := "Your address, 198.51.100.1, used more than its share of this server's time."
		if want == page {
			why = "Your address, 198.51.100.1, has used more of this server’s time than one visitor’s share, perhaps"
		}
		if a.Header.Get("Content-Type") != want || !strings.Contains(a.body, why) {
			t.Errorf("Accept: %s: %s\n%s", accept, a.Header.Get("Content-Type"), a.body)
		}
		if want != problem {
			continue
		}
		var told struct {
			Status, RetryAfter       int
			Detail, Class, RequestID string
		}
		if err := json.Unmarshal([]byte(a.body), &told); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		if told.Status != 429 || told.RetryAfter != after || !strings.Contains(told.Detail, why) ||
			told.Class != "slash32" || told.RequestID == "" {
			t.Errorf("%s: %s", a.Header.Get("Content-Type"), a.body)
		}
	}
}
