package main

import (
	"net/http"
	"slices"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// browserAt is the header of a browser at an address: its requests are a stranger's.
func browserAt(address string) http.Header {
	h := from(address)
	h.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0")
	return h
}

// TestInsideShowsWhatRuns: a page of some seconds shows before it is there, and in the
// series; the refused is among the recent.
func TestInsideShowsWhatRuns(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, "state: off\nlimits: [{name: few, path: /limited, max: 1, duration: 1h}]\n")
	answered := s.later(browserAt("203.0.113.9"), "/page.php?ms=2500")
	var shapes api.ShapesReply
	testkit.Eventually(t, "it shows while it runs", func() bool {
		s.ask("/v1/shapes", &shapes)
		return len(shapes.Rows) == 1 && shapes.Rows[0].CPU > 0 && shapes.Rows[0].Rate == 0
	})
	if got := <-answered; got != "200 OK" {
		t.Error(got)
	}
	testkit.Eventually(t, "it is counted", func() bool {
		s.ask("/v1/shapes", &shapes)
		return len(shapes.Rows) == 1 && shapes.Rows[0].Rate > 0 && shapes.Rows[0].Mean > 0
	})
	testkit.Eventually(t, "the series has it", func() bool {
		var series api.SeriesReply
		s.ask("/v1/series?minutes=5", &series)
		return slices.ContainsFunc(series.Points, func(p api.Point) bool { return p.CPU[2] > 0 })
	})
	for range 2 {
		s.get("203.0.113.10", "/limited")
	}
	var recent api.RecentReply
	testkit.Eventually(t, "the refused is there", func() bool {
		s.ask("/v1/recent", &recent)
		return len(recent.Rows) == 1
	})
	if r := recent.Rows[0]; r.Outcome != "refused" || r.Reason != "limit few" || r.Client != "203.0.113.10" || r.ID == "" || r.Status != 429 {
		t.Errorf("%+v", r)
	}
}
