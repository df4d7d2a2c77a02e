package demo

import (
	"strings"
	"testing"
	"time"
)

func TestResult(t *testing.T) {
	from := time.Unix(100, 0)
	r := &result{mode: "fair", from: from, measured: 10 * time.Second}
	if r.percentile(0.5) != 0 || r.within() != 0 {
		t.Error("nobody got anything")
	}
	early := visit{at: from.Add(-time.Second), took: time.Second / 2, ended: true}
	var vs []visit
	for i := range 100 {
		vs = append(vs, visit{at: from.Add(-time.Second), took: time.Duration(i+1) * 20 * time.Millisecond, ended: true})
	}
	r.people(append(vs, early))
	r.crawler([]visit{early, {at: from, took: time.Second, ended: true}, {at: from, took: 9 * time.Second}})
	// Those of more than a second ended after from.
	if got := len(r.pages); got != 50 {
		t.Fatalf("%d pages count, want 50", got)
	}
	if got := r.percentile(0.5); got != 1520*time.Millisecond {
		t.Errorf("p50 %v", got)
	}
	if got := r.percentile(1); got != 2*time.Second {
		t.Errorf("p100 %v", got)
	}
	if got := r.crawled(); got != 0.1 {
		t.Errorf("the crawler got %v pages a second", got)
	}
	var out strings.Builder
	r.print(&out, true)
	want := "people              pages/s      p50      p95      p99 within 1s   crawler\n" +
		"with the gate           5.0    1.5 s    2.0 s    2.0 s       0 %   0.1 pages/s\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
