package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestDemoAttack runs the demonstration for a moment. How much faster people are
// is for a longer one to show; here both lines of the table are there, people and
// the crawler got pages, and nothing is left.
func TestDemoAttack(t *testing.T) {
	tmp := tempDir(t)
	t.Setenv("TMPDIR", tmp)
	var said string
	stderr := newOutput()
	// A page that the crawler asks for takes seconds where there is no gate, and
	// longer on a machine that has other things to do: then it gets more time.
	for measure := 5 * time.Second; measure <= 20*time.Second; measure *= 2 {
		stdout := newOutput()
		times := attackTimes{settle: 500 * time.Millisecond, measure: measure}
		if err := runDemoAttack(t.Context(), source{}, times, stdout, stderr); err != nil {
			t.Fatal(err)
		}
		if said = stdout.String(); !strings.Contains(said, " 0.0 pages/s") {
			break
		}
	}
	for _, want := range []string{"people", "without the gate ", "with the gate ", "95 of 100 pages came within"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, " 0.0 pages/s") {
		t.Errorf("somebody got nothing:\n%s", said)
	}
	if out := stderr.String(); strings.TrimSpace(out) != "" {
		t.Errorf("it complains: %s", out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestAttackResult(t *testing.T) {
	from := time.Unix(100, 0)
	r := &attackResult{mode: "fair", from: from, measured: 10 * time.Second}
	if r.percentile(0.5) != 0 || r.within() != 0 {
		t.Error("nobody got anything")
	}
	early := demoVisit{at: from.Add(-time.Second), took: time.Second / 2, ended: true}
	var vs []demoVisit
	for i := range 100 {
		vs = append(vs, demoVisit{at: from.Add(-time.Second), took: time.Duration(i+1) * 20 * time.Millisecond, ended: true})
	}
	r.people(append(vs, early))
	r.crawler([]demoVisit{early, {at: from, took: time.Second, ended: true}, {at: from, took: 9 * time.Second}})
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
