package book

import (
	"net/http"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/proxy/telemetry"
)

// BenchmarkAll is what adding up costs a request, all of it, where 20,000 cheap ones end in
// a second: to note it, to take in the sample, and the points.
func BenchmarkAll(b *testing.B) {
	const perDrain = 5000
	feed, k := telemetry.NewFeed(telemetry.NewCounts()), New(began)
	r := telemetry.Record{
		Request: &http.Request{Method: "GET", Host: "site.example", RequestURI: "/w/index.php?title=A&action=history"},
		Status:  200, Who: &classify.Result{Shape: "/w/index.php?title&action"}, Cost: time.Millisecond,
	}
	now := began
	for i := range b.N {
		r.Who.Client = address(i % 10_000 << 8)
		feed.Note(now, &r)
		if i%perDrain == 0 {
			now = now.Add(time.Second / 4)
			feed.Drain(now, k)
			if i%(4*perDrain) == 0 {
				k.Tick(now, Moment{})
			}
		}
	}
}
