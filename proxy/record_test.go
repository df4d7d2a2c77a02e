package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"tempomat/limiter"
)

func nopLog() *zap.Logger { return zap.NewNop() }

// TestRecordFields looks at whole lines.
func TestRecordFields(t *testing.T) {
	common := []string{"bytes", "classes", "client", "cost_ms", "group", "guess_ms", "host", "method", "outcome", "path", "shape", "status", "took_ms", "verdict", "wait_ms"}
	for _, tc := range []struct {
		name   string
		change func(*setup)
		more   []string
		want   map[string]any
	}{
		{"answered", mode(limiter.Observe), []string{"known", "lane", "price"}, map[string]any{
			"status": int64(200), "bytes": int64(5), "method": "GET", "host": "site.example", "path": "/a b", "shape": "/a-b", "group": "robots", "client": "192.0.2.1",
			"outcome": "answered", "verdict": "go", "took_ms": 1000.0, "cost_ms": 1000.0, "wait_ms": 0.0,
		}},
		{"waited", heldFor, []string{"request"}, map[string]any{"status": int64(200), "took_ms": 1000.0 + 9000, "cost_ms": 1000.0, "wait_ms": 9000.0}},
		{"refused", indebted(limiter.Cap), []string{"class", "key", "reason", "request"}, map[string]any{
			"status": int64(429), "outcome": "refused", "verdict": "refuse", "reason": "debt", "class": "slash32", "key": "192.0.2.1", "cost_ms": 0.0,
		}},
		{"shadow", func(s *setup) { indebted(limiter.Cap)(s); s.limits.Shadow = true },
			[]string{"class", "key", "reason", "shadow", "would_wait_ms"}, map[string]any{"status": int64(200), "verdict": "refuse", "wait_ms": 0.0, "shadow": true}},
		{"exempt", exempt("/*"), []string{"exempt", "-classes", "-guess_ms", "-verdict", "-wait_ms"}, map[string]any{"exempt": true, "cost_ms": 1000.0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					sleeper(w, q)
					_, _ = io.WriteString(w, "hello")
				}), tc.change)
				r.do(r.client, request(t, nil, "GET /a%20b"))
				if tc.name == "refused" || tc.name == "shadow" { // it is the second one that is
					r.do(r.client, request(t, nil, "GET /a%20b"))
				}
				lines := r.lines()
				line := lines[len(lines)-1]
				names := slices.Clone(common)
				for _, m := range tc.more {
					if gone, ok := strings.CutPrefix(m, "-"); ok {
						names = slices.DeleteFunc(names, func(n string) bool { return n == gone })
					} else {
						names = append(names, m)
					}
				}
				slices.Sort(names)
				var got []string
				for name := range line {
					got = append(got, name)
				}
				slices.Sort(got)
				if diff := cmp.Diff(names, got); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
				for name, want := range tc.want {
					if line[name] != want {
						t.Errorf("%s is %v, want %v", name, line[name], want)
					}
				}
			})
		})
	}
}
