package main

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
)

// serveHistory runs an admin API with a history.
func serveHistory(t *testing.T, history func(hours int) api.HistoryReply) (path string) {
	t.Helper()
	return serve(t, admin.Options{
		Ledger: newLedger(), Now: func() time.Time { return adminNow }, Gate: func() limiter.GateState { return limiter.GateState{} },
		Status: func() api.StatusReply { return api.StatusReply{} }, Ready: func() error { return nil }, History: history,
	})
}

// hostileName is a User-Agent or a URL that a client may choose.
const hostileName = "\x1b]0;owned\a\u009b31m\u202egpj.\r\n</td></svg><script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{.}}"

// lastHour is the current hour of the history.
var lastHour = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// week is the history of a site with a crawler on Friday night. The proxy was off for some hours.
func week(hours int) api.HistoryReply {
	reply := api.HistoryReply{Version: api.Version, Hours: []api.HourRow{}}
	for i := range hours {
		at := lastHour.Add(-time.Duration(hours-1-i) * time.Hour)
		if lastHour.Sub(at) > 160*time.Hour || at.Weekday() == time.Sunday && at.Hour() >= 3 && at.Hour() < 6 {
			continue
		}
		reply.Hours = append(reply.Hours, hourOfWeek(at))
	}
	return reply
}

func hourOfWeek(at time.Time) api.HourRow {
	day := 1 + math.Sin(float64(at.Hour()-9)/24*2*math.Pi) // busy at three in the afternoon
	crawl := 0.0
	if at.Weekday() == time.Friday && at.Hour() >= 20 || at.Weekday() == time.Saturday && at.Hour() < 7 {
		crawl = 1
	}
	group := func(name string, cpu, each, p95 float64) api.HistoryPart {
		return api.HistoryPart{Name: name, CPU: cpu, Requests: uint64(cpu / each), P95: p95}
	}
	groups := []api.HistoryPart{
		group("known", 900*day, 0.11, 0.4+0.1*day), group("newcomers", 200*day, 0.12, 0.6+3*crawl),
		group("strangers", 150*day+5200*crawl, 0.2, 0.7+8*crawl), group("robots", 400, 0.3, 2.5), group("exempt", 20, 0.01, 0.02),
	}
	row := api.HourRow{At: float64(at.Unix()), Groups: groups, Refused: uint64(90 * crawl), Redirected: uint64(200*crawl + 5*day), Wasted: 40*day + 300*crawl}
	for _, g := range groups {
		row.CPU += g.CPU
		row.Requests += g.Requests
	}
	part := func(name string, cpu, wrong float64) api.HistoryPart {
		return api.HistoryPart{Name: name, CPU: cpu, Error: wrong, Requests: uint64(cpu * 5)}
	}
	row.Classes = []api.HistoryClass{
		{Class: "slash32", Keys: []api.HistoryPart{part("203.0.113.9", 300*day, 0), part("2001:db8:1:2::/64", 100+20*crawl, 12)}},
		{Class: "slash16", Keys: []api.HistoryPart{part("198.51.0.0/16", 40+2600*crawl, 0), part("203.0.0.0/16", 320*day, 1)}},
		{Class: "userAgent", Keys: []api.HistoryPart{part("chrome", 900*day+5000*crawl, 0), part("googlebot", 300, 0), part("", 20, 0), part(hostileName, 30, 0)}},
	}
	row.Shapes = []api.HistoryPart{part("/w/index.php?title&action", 300*day+5000*crawl, 0), part("/wiki/*", 700*day, 4)}
	row.URLs = []api.HistoryPart{
		part("/w/index.php?title=*&action=history", 100*day+4300*crawl, 0), part("/wiki/Main_Page", 120*day, 0),
		part("/search?q="+hostileName, 60, 0), part("/w/index.php?title=Special:RecentChanges&days=30&limit=500&hideminor=1", 50*day, 0),
	}
	return row
}

// TestReport compares the output with golden files.
func TestReport(t *testing.T) {
	path := serveHistory(t, week)
	for name, args := range map[string][]string{
		"report":      {"report"},
		"report-168":  {"report", "--hours", "168", "--limit", "3"},
		"report-1":    {"report", "--hours", "1"},
		"report-json": {"report", "--json", "--hours", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, nil, append(args, "--socket", path)...)
			if code != 0 || stderr != "" {
				t.Fatalf("status %d, %s", code, stderr)
			}
			golden(t, name+".golden", stdout)
			for line := range strings.SplitSeq(stdout, "\n") {
				if n := len([]rune(line)); n > 80 && !strings.Contains(name, "json") {
					t.Errorf("a line has %d columns: %s", n, line)
				}
			}
			for _, bad := range []string{"\x1b", "\a", "\u009b", "\u202e", "\r"} {
				if strings.Contains(stdout, bad) {
					t.Errorf("%q is in it", bad)
				}
			}
		})
	}
}

// TestReportOfShadow: the report of a site in mode observe counts the requests that would have been delayed or
// rejected.
func TestReportOfShadow(t *testing.T) {
	path := serveHistory(t, func(int) api.HistoryReply {
		return api.HistoryReply{Version: api.Version, Hours: []api.HourRow{{At: float64(lastHour.Unix()), Requests: 200, Shadowed: 50}}}
	})
	const want = "In shadow                 50  25 % would have waited or been refused\n"
	if _, stdout, _ := call(t, nil, "report", "--hours", "1", "--socket", path); !strings.Contains(stdout, want) {
		t.Errorf("%q is not in\n%s", want, stdout)
	}
}

// TestReportDocs: the report in the manual is the one that the doctor prints.
func TestReportDocs(t *testing.T) {
	manual, printed := testkit.ReadFile(t, "../../docs/reports.md"), testkit.ReadFile(t, "../../testdata/doctor/report-168.golden")
	_, shown, _ := strings.Cut(manual, "on Friday night:\n")
	shown, _, _ = strings.Cut(shown, "The report continues with")
	if strings.Count(shown, "\n") < 20 {
		t.Fatalf("the manual shows %q", shown)
	}
	for line := range strings.Lines(shown) {
		if line = strings.TrimPrefix(line, "    "); strings.TrimSpace(line) != "…" && !strings.Contains(printed, line) {
			t.Errorf("docs/reports.md has %q, which is not printed", line)
		}
	}
}

// TestReportOfSeveral: the report adds up the hours and rows of several proxies.
func TestReportOfSeveral(t *testing.T) {
	early := func(hours int) api.HistoryReply { // this proxy stopped an hour ago
		r := week(hours)
		r.Hours = r.Hours[:len(r.Hours)-1]
		return r
	}
	one, other := serveHistory(t, week), serveHistory(t, early)
	of := func(sockets ...string) *report {
		t.Helper()
		f, err := (&doctor{sockets: sockets}).fleet(t.Context())
		testkit.Must(t, err)
		var h api.HistoryReply
		testkit.Must(t, f.Get(t.Context(), "/v1/history", url.Values{"hours": {"24"}}, &h))
		return newReport(&h, 24, len(sockets))
	}
	a, b, both := of(one), of(other), of(one, other)
	if both.to != a.to || both.all.Requests != 2*a.all.Requests-a.hours[23].Requests || both.all.CPU != a.all.CPU+b.all.CPU-b.hours[0].CPU {
		t.Errorf("%v, %v together are %v", a.all, b.all, both.all)
	}
	if got, want := both.all.Classes[0].Keys[0], a.all.Classes[0].Keys[0]; got.Name != want.Name || !(got.CPU > 1.9*want.CPU) {
		t.Errorf("%+v of one is %+v of two", want, got)
	}
}

// TestReportHasNothing: without a history, the doctor says why.
func TestReportHasNothing(t *testing.T) {
	none := func(int) api.HistoryReply { return api.HistoryReply{Version: api.Version, Hours: []api.HourRow{}} }
	idle := func(int) api.HistoryReply {
		return api.HistoryReply{Version: api.Version, Hours: []api.HourRow{{At: float64(lastHour.Unix())}}}
	}
	for _, c := range []struct {
		name    string
		history func(int) api.HistoryReply
		args    []string
		code    int
		want    string
	}{
		{"switched off", nil, nil, 1, "history.hours is 0"},
		{"new", none, nil, 0, "There is no history yet"},
		{"too many hours", week, []string{"--hours", "169"}, 1, "hours: \"169\" is not a whole number from 1 to 168"},
		{"an idle site", idle, nil, 0, ""},
	} {
		path := serveHistory(t, c.history)
		code, stdout, stderr := call(t, nil, append([]string{"report", "--socket", path}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stdout, "NaN") || strings.Contains(stdout, "Inf") {
			t.Errorf("%s: status %d, %s%s", c.name, code, stdout, stderr)
		}
	}
}
