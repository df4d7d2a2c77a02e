package telemetry

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// note logs n ordinary or remarkable requests to buf.
func note(j *AccessLog, now time.Time, n int, r *Record) {
	if r.Request == nil {
		r.Request, _ = http.NewRequest("GET", "http://h/", nil)
	}
	if r.Who == nil {
		r.Who = new(classify.Result)
	}
	for range n {
		j.Note(now, r)
	}
}

func bufferedAccessLog() (*AccessLog, *bytes.Buffer) {
	var buf bytes.Buffer
	config := zap.NewProductionEncoderConfig()
	return NewAccessLog(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(config), zapcore.AddSync(&buf), zap.InfoLevel)), NewWords()), &buf
}

func TestJournalSamples(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, tc := range []struct {
		name   string
		access Access
		r      *Record
		want   int // lines for 250 requests
	}{
		{"off", AccessOff, &Record{}, 0},
		{"off, eventful", AccessOff, &Record{Outcome: Refused}, 0},
		{"sampled", AccessSampled, &Record{}, 3},
		{"sampled, barely held", AccessSampled, &Record{Held: remarkable - 1}, 3},
		{"sampled, held", AccessSampled, &Record{Held: remarkable}, sampledRate},
		{"sampled, waited", AccessSampled, &Record{Verdict: limiter.Verdict{Wait: remarkable}}, sampledRate},
		{"sampled, would have waited", AccessSampled, &Record{Verdict: limiter.Verdict{Wait: remarkable, Shadow: true}}, 3},
		{"sampled, refused", AccessSampled, &Record{Outcome: Refused}, sampledRate},
		{"sampled, broken", AccessSampled, &Record{Outcome: BackendBroke}, sampledRate},
		{"all", AccessAll, &Record{}, 250},
	} {
		j, buf := bufferedAccessLog()
		tc.r.Access = tc.access
		note(j, now, 250, tc.r)
		testkit.Same(t, tc.want, strings.Count(buf.String(), "\n"), "%s: lines of 250", tc.name)
	}
}

// TestJournalRate logs more lines than fit in a second, and then one more.
func TestJournalRate(t *testing.T) {
	for access, most := range map[Access]int{AccessSampled: sampledRate, AccessAll: allRate} {
		j, buf := bufferedAccessLog()
		now := time.Unix(1_000_000, 0)
		r := &Record{Access: access, Outcome: Refused}
		note(j, now, most+77, r)
		if got := strings.Count(buf.String(), "\n"); got != most || strings.Contains(buf.String(), "lines_left_out") {
			t.Errorf("%d lines in a second, want %d", got, most)
		}
		buf.Reset()
		note(j, now.Add(time.Second), 2, r)
		first, second, _ := strings.Cut(buf.String(), "\n")
		if !strings.Contains(first, `"lines_left_out":77`) || strings.Contains(second, "lines_left_out") || second == "" {
			t.Errorf("in the next second: %s", buf)
		}
	}
}

// TestJournalLineIsOneLine: clients can write neither lines of their own nor very long lines into the log.
func TestJournalLineIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, buf := bufferedAccessLog()
		q, _ := http.NewRequest("GET", "http://h/", nil)
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.Just("\n{\"level\":\"info\"}\r\n"), rapid.Just(strings.Repeat("é\n", 40000)))
		q.Method, q.Host, q.URL.Path = text.Draw(t, "method"), text.Draw(t, "host"), text.Draw(t, "path")
		note(j, time.Now(), 1, &Record{Access: AccessAll, Request: q})
		line, rest, ok := bytes.Cut(buf.Bytes(), []byte("\n"))
		if !ok || len(rest) != 0 || !json.Valid(line) || !utf8.Valid(line) || len(line) > 12000 {
			t.Fatalf("%d bytes: %.200q", buf.Len(), buf)
		}
	})
}

func TestClip(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512} {
		if s := strings.Repeat("x", n); Clip(s) != s {
			t.Errorf("%d bytes became %d", n, len(Clip(s)))
		}
	}
	testkit.Same(t, strings.Repeat("x", 512)+"…", Clip(strings.Repeat("x", 513)), "513 bytes became")
}

// TestJournalHidesQueries: text that people typed is removed from queries in the log.
func TestJournalHidesQueries(t *testing.T) {
	j, buf := bufferedAccessLog()
	q, _ := http.NewRequest("GET", "http://h/a?user=alice", nil)
	note(j, time.Now(), 1, &Record{Access: AccessAll, Request: q, Who: &classify.Result{Shape: "/a?user"}})
	if !strings.Contains(buf.String(), `"shape":"/a?user"`) || !strings.Contains(buf.String(), `"query":"*"`) || strings.Contains(buf.String(), "alice") {
		t.Errorf("%s", buf)
	}
}

// TestFieldsAreInTheManual: docs/access-log.md lists every field that a line can have.
func TestFieldsAreInTheManual(t *testing.T) {
	manual := testkit.ReadFile(t, "../../docs/access-log.md")
	q, _ := http.NewRequest("GET", "http://h/?a=1", nil)
	names := map[string]bool{}
	for _, exempt := range []bool{false, true} {
		r := &Record{
			Request: q, Who: &classify.Result{Exempt: exempt}, Judged: true, Limit: "login", ID: "1",
			Verdict: limiter.Verdict{Reason: limiter.Debt, CostMultiplier: 2, Shadow: !exempt},
		}
		r.Verdict.Would.Key.Class = "slash16"
		for _, f := range r.fields(time.Now(), NewWords(), 7) {
			names[f.Key] = true
		}
	}
	documented := regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllStringSubmatch(manual, -1)
	n := 0
	for _, row := range documented {
		for name := range strings.SplitSeq(row[1], ", ") {
			if name = strings.Trim(name, "`"); names[name] {
				n++
			}
		}
	}
	if n != len(names) || n < 20 {
		t.Errorf("docs/access-log.md has %d of the fields %v", n, names)
	}
}
