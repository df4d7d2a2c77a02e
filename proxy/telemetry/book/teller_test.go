package book

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/proxy/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the beginning of an hour.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// teller passes requests to a History.
type teller struct {
	t       testing.TB
	history *History
	names   *classify.Classifier
	weight  float64 // weight of each request
}

func newTeller(t testing.TB, hours int) *teller {
	names := classify.New(classify.Config{Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}, {Name: "slash16", By: classify.Slash16}}})
	return &teller{t: t, history: NewHistory(hours, telemetry.NewWords()), names: names, weight: 1}
}

// Take implements telemetry.Sink: each request counts as several.
func (c *teller) Take(now time.Time, b *telemetry.Batch) {
	for i := range b.Entries {
		b.Entries[i].Weight *= c.weight
	}
	c.history.Take(now, batchOf(b.Entries...))
}

// request passes on a request that ends now, took a second, and cost some CPU-seconds.
func (c *teller) request(now time.Time, client, target string, cost float64, change ...func(*telemetry.Record)) {
	c.t.Helper()
	u, err := url.ParseRequestURI(target)
	testkit.Must(c.t, err)
	r := &http.Request{Method: "GET", URL: u, RequestURI: target, RemoteAddr: client + ":1", Header: http.Header{"Cookie": {"session=secret"}}}
	var who classify.Result
	c.names.Classify(r, &who)
	record := telemetry.Record{Arrived: now.Add(-time.Second), Request: r, Who: &who, Status: 200, Cost: time.Duration(cost * float64(time.Second))}
	for _, f := range change {
		f(&record)
	}
	feed := telemetry.NewCounts()
	feed.Note(now, &record)
	feed.Drain(now, c)
}

// fullHour returns an hour with the highest possible number of names, all as long as possible.
func fullHour() *hour {
	h := newHour(noon.Unix())
	fill := func(s *costliest, length int) {
		for i := range counted {
			s.add(fmt.Sprintf("%0*d", length, i), float64(1+i), 1)
		}
	}
	for i := range mostClasses {
		fill(h.keys(fmt.Sprintf("%0*d", mostClassName, i)), 64)
	}
	fill(h.shapes, 96)
	fill(h.urls, 160)
	for i := range h.took {
		for j := range telemetry.Bins {
			h.took[i][j] = 1
		}
	}
	return h
}

// batchOf makes a Batch of requests, each of which counts as often as its weight says.
func batchOf(entries ...telemetry.Entry) *telemetry.Batch {
	b := &telemetry.Batch{Entries: entries}
	for i := range entries {
		e := &entries[i]
		s := &b.Sums[e.Group]
		times := func(d time.Duration) time.Duration { return time.Duration(float64(d) * e.Weight) }
		s.Ended[e.Outcome] += uint64(e.Weight)
		s.Cost += times(e.Cost)
		s.Told += times(e.Told)
		s.ToldWasted += times(e.ToldWasted)
		if e.Shadow {
			s.Shadowed += uint64(e.Weight)
		}
		if e.Orphan {
			s.Wasted += times(e.Cost)
		}
	}
	return b
}
