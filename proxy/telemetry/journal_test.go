package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"

	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

func nopLog() *zap.Logger { return zap.NewNop() }

// note writes n uneventful requests, or eventful ones, into a journal that logs
// to buf.
func note(j *Journal, now time.Time, n int, x *exchange) {
	if x.request == nil {
		x.request, _ = http.NewRequest("GET", "http://h/", nil)
	}
	for range n {
		j.note(now, x)
	}
}

func bufferedJournal() (*Journal, *bytes.Buffer) {
	var buf bytes.Buffer
	config := zap.NewProductionEncoderConfig()
	return NewJournal(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(config), zapcore.AddSync(&buf), zap.InfoLevel))), &buf
}

func TestJournalSamples(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, tc := range []struct {
		name   string
		access Access
		x      *exchange
		want   int // lines of 250
	}{
		{"off", AccessOff, &exchange{}, 0},
		{"off, eventful", AccessOff, &exchange{outcome: Refused}, 0},
		{"sampled", AccessSampled, &exchange{}, 3},
		{"sampled, barely held", AccessSampled, &exchange{held: remarkable - 1}, 3},
		{"sampled, held", AccessSampled, &exchange{held: remarkable}, sampledRate},
		{"sampled, waited", AccessSampled, &exchange{Life: lifecycle.Life{Verdict: limiter.Verdict{Wait: remarkable}}}, sampledRate},
		{"sampled, would have waited", AccessSampled, &exchange{Life: lifecycle.Life{Verdict: limiter.Verdict{Wait: remarkable, Shadow: true}}}, 3},
		{"sampled, refused", AccessSampled, &exchange{outcome: Refused}, sampledRate},
		{"sampled, broken", AccessSampled, &exchange{outcome: BackendBroke}, sampledRate},
		{"all", AccessAll, &exchange{}, 250},
	} {
		j, buf := bufferedJournal()
		tc.x.policy = &Policy{Access: tc.access}
		note(j, now, 250, tc.x)
		if got := strings.Count(buf.String(), "\n"); got != tc.want {
			t.Errorf("%s: %d lines of 250, want %d", tc.name, got, tc.want)
		}
		if got := j.Counters()["requests"]; got != 250 {
			t.Errorf("%s: %d requests counted", tc.name, got)
		}
	}
}

// TestJournalRate writes more than fits in a second, and then a line more.
func TestJournalRate(t *testing.T) {
	for access, most := range map[Access]int{AccessSampled: sampledRate, AccessAll: allRate} {
		j, buf := bufferedJournal()
		now := time.Unix(1_000_000, 0)
		x := &exchange{policy: &Policy{Access: access}, outcome: Refused}
		note(j, now, most+77, x)
		if got := strings.Count(buf.String(), "\n"); got != most || strings.Contains(buf.String(), "lines_left_out") {
			t.Errorf("%d lines in a second, want %d", got, most)
		}
		buf.Reset()
		note(j, now.Add(time.Second), 2, x)
		first, second, _ := strings.Cut(buf.String(), "\n")
		if !strings.Contains(first, `"lines_left_out":77`) || strings.Contains(second, "lines_left_out") || second == "" {
			t.Errorf("in the next second: %s", buf)
		}
	}
}

func TestJournalCounts(t *testing.T) {
	j := NewJournal(nopLog())
	now := time.Now()
	p := &Policy{}
	note(j, now, 1, &exchange{policy: p, Life: lifecycle.Life{Cost: time.Second}, held: 2 * time.Second})
	note(j, now, 2, &exchange{policy: p, outcome: Refused, Life: lifecycle.Life{Verdict: limiter.Verdict{Action: limiter.Refuse, Wait: time.Hour}}})
	note(j, now, 3, &exchange{policy: p, outcome: ClientGone})
	note(j, now, 4, &exchange{policy: p, outcome: BackendDown})
	note(j, now, 5, &exchange{policy: p, outcome: BackendSlow})
	note(j, now, 6, &exchange{policy: p, outcome: BackendBroke})
	note(j, now, 9, &exchange{policy: p, outcome: Redirected})
	note(j, now, 7, &exchange{policy: p, Life: lifecycle.Life{Verdict: limiter.Verdict{Shadow: true, Wait: time.Hour}}})
	e := &exchange{}
	e.policy, e.Who.Exempt = p, true
	note(j, now, 8, e)
	j.Malformed()
	want := map[string]uint64{
		"malformed": 1, "requests": 45, "exempt": 8, "delayed": 1, "shadowed": 7, "refused": 2,
		"clientGone": 3, "backendDown": 4, "backendSlow": 5, "backendBroke": 6, "redirected": 9,
	}
	if diff := cmp.Diff(want, j.Counters()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := j.Series(); s["costSeconds"] != 1 || s["delaySeconds"] != 2 || s["refused"] != 2 {
		t.Errorf("series %v", s)
	}
}

// TestJournalFields looks at whole lines.
func TestJournalFields(t *testing.T) {
	common := []string{"bytes", "classes", "client", "cost_ms", "guess_ms", "host", "method", "outcome", "path", "status", "took_ms", "verdict", "wait_ms"}
	for _, tc := range []struct {
		name   string
		change func(*setup)
		more   []string
		want   map[string]any
	}{
		{"answered", mode(limiter.Observe), []string{"known", "lane", "price"}, map[string]any{
			"status": int64(200), "bytes": int64(5), "method": "GET", "host": "site.example", "path": "/a b", "client": "192.0.2.1",
			"outcome": "answered", "verdict": "go", "took_ms": 1000.0, "cost_ms": 1000.0, "wait_ms": 0.0,
		}},
		{"waited", heldFor, nil, map[string]any{"status": int64(200), "took_ms": 1000.0 + 9000, "cost_ms": 1000.0, "wait_ms": 9000.0}},
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

// TestJournalLineIsOneLine has clients that try to write lines of their own, and
// long ones.
func TestJournalLineIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, buf := bufferedJournal()
		q, _ := http.NewRequest("GET", "http://h/", nil)
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.Just("\n{\"level\":\"info\"}\r\n"), rapid.Just(strings.Repeat("é\n", 40000)))
		q.Method, q.Host, q.URL.Path = text.Draw(t, "method"), text.Draw(t, "host"), text.Draw(t, "path")
		note(j, time.Now(), 1, &exchange{policy: &Policy{Access: AccessAll}, request: q})
		line, rest, ok := bytes.Cut(buf.Bytes(), []byte("\n"))
		if !ok || len(rest) != 0 || !json.Valid(line) || !utf8.Valid(line) || len(line) > 12000 {
			t.Fatalf("%d bytes: %.200q", buf.Len(), buf)
		}
	})
}

func TestClip(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512} {
		if s := strings.Repeat("x", n); clip(s) != s {
			t.Errorf("%d bytes became %d", n, len(clip(s)))
		}
	}
	if got := clip(strings.Repeat("x", 513)); got != strings.Repeat("x", 512)+"…" {
		t.Errorf("513 bytes became %q", got)
	}
}
