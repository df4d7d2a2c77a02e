package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/limiter"
)

// note writes n uneventful requests, or eventful ones, into an access log that logs
// to buf.
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
		want   int // lines of 250
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
		if got := strings.Count(buf.String(), "\n"); got != tc.want {
			t.Errorf("%s: %d lines of 250, want %d", tc.name, got, tc.want)
		}
	}
}

// TestJournalRate writes more than fits in a second, and then a line more.
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

// TestJournalLineIsOneLine has clients that try to write lines of their own, and
// long ones.
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
	if got := Clip(strings.Repeat("x", 513)); got != strings.Repeat("x", 512)+"…" {
		t.Errorf("513 bytes became %q", got)
	}
}

// escaped is what Apache 2.4 writes for each byte, as its source has it: "\x07" and "\f" have no
// letters there.
var escaped = map[byte]string{
	0: `\x00`, 7: `\x07`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\v': `\v`, '\f': `\x0c`, '\r': `\r`, 27: `\x1b`,
	'"': `\"`, '\\': `\\`, 127: `\x7f`, 128: `\x80`, 255: `\xff`, ' ': " ", '~': "~", 'a': "a", '\'': "'",
}

func TestEscapes(t *testing.T) {
	for c, want := range escaped {
		if got := string(appendEscaped(nil, string([]byte{c}))); got != want {
			t.Errorf("%q becomes %s, want %s", c, got, want)
		}
	}
}

// combinedLine is a line in Apache's combined format, and microseconds.
var combinedLine = regexp.MustCompile(`^([0-9a-f.:]+) - - \[(\d\d/\w{3}/\d{4}(?::\d\d){3} [+-]\d{4})\] "((?:[ !#-\[\]-~]|\\.)*)" (\d+) (\d+|-) "((?:[ !#-\[\]-~]|\\.)*)" "((?:[ !#-\[\]-~]|\\.)*)" (\d+)\n$`)

func TestCombined(t *testing.T) {
	j, buf := bufferedAccessLog()
	var lines bytes.Buffer
	j.SetCombined(&lines)
	q, _ := http.NewRequest("GET", "http://h/w/a%22b?user=alice", nil)
	q.RequestURI = "/w/a%22b?user=alice"
	q.Header = http.Header{"Referer": {"https://h/search?q=secret"}, "User-Agent": {"Mozilla/5.0 \"x\"\r\n\x1b[2J"}}
	now := time.Date(2026, 11, 22, 12, 30, 1, 250_000_000, time.FixedZone("", 3600))
	r := &Record{
		Access: AccessAll, Request: q, Who: &classify.Result{Client: netip.MustParseAddr("2001:db8::1"), Shape: "/w/a?user"},
		Arrived: now.Add(-time.Second / 4), Status: 200, Bytes: 17,
	}
	note(j, now, 1, r)
	want := `2001:db8::1 - - [22/Nov/2026:12:30:01 +0100] "GET /w/a%22b?* HTTP/1.1" 200 17 "https://h/search" "Mozilla/5.0 \"x\"\r\n\x1b[2J" 250000` + "\n"
	if got := lines.String(); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if buf.Len() > 0 {
		t.Errorf("as JSON, too: %s", buf)
	}
	lines.Reset()
	q.Header, r.Bytes = nil, 0
	note(j, now, 1, r)
	if got := lines.String(); !strings.Contains(got, ` 200 - "-" "-" 250000`) {
		t.Errorf("without fields: %s", got)
	}
	j.SetCombined(nil)
	note(j, now, 1, r)
	if !strings.Contains(buf.String(), `"shape":"/w/a?user","status":200`) || !strings.Contains(buf.String(), `"query":"*"`) || strings.Contains(buf.String(), "alice") {
		t.Errorf("as JSON: %s", buf)
	}
}

// TestCombinedLeavesOut: that lines are missing is told, though the format cannot.
func TestCombinedLeavesOut(t *testing.T) {
	j, buf := bufferedAccessLog()
	j.SetCombined(io.Discard)
	now := time.Unix(1_000_000, 0)
	note(j, now, sampledRate+5, &Record{Access: AccessSampled, Outcome: Refused})
	note(j, now.Add(time.Second), 1, &Record{Access: AccessSampled, Outcome: Refused})
	if !strings.Contains(buf.String(), `"lines_left_out":5`) {
		t.Errorf("%s", buf)
	}
}

// TestCombinedLineIsOneLine: whatever a client sends, there is one line with all its parts.
func TestCombinedLineIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, _ := bufferedAccessLog()
		var lines bytes.Buffer
		j.SetCombined(&lines)
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{`" 200 1 "x`, `\`, "\r\n", strings.Repeat("é\"", 900)}))
		q := &http.Request{
			Method: text.Draw(t, "method"), RequestURI: text.Draw(t, "target"), Proto: "HTTP/1.1",
			Header: http.Header{"Referer": {text.Draw(t, "referer")}, "User-Agent": {text.Draw(t, "agent")}},
		}
		note(j, time.Now(), 1, &Record{
			Access: AccessAll, Request: q, Status: 404, Arrived: time.Now(), Who: &classify.Result{Client: netip.MustParseAddr("192.0.2.1")},
		})
		if !combinedLine.Match(lines.Bytes()) || lines.Len() > 20_000 {
			t.Fatalf("%d bytes: %.300q", lines.Len(), lines.String())
		}
	})
}

// TestFieldsAreInTheManual: docs/access-log.md has each field that a line can have.
func TestFieldsAreInTheManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/access-log.md")
	if err != nil {
		t.Fatal(err)
	}
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
	documented := regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllStringSubmatch(string(manual), -1)
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
