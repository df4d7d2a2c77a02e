package metrics

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// full is a State in which every line of the table has numbers.
func full() *State {
	c := telemetry.NewCounts()
	c.SetNames([]string{"slash32", "my-key"}, []string{"login"})
	return &State{
		Release: "1.2", Mode: "fair", Totals: c.Totals(), Strict: &Strict{Checks: 7},
		Gate:         limiter.GateState{Shed: 5, Busy: 3, Utilisation: 0.5, Sites: []limiter.SiteState{{Name: "shop", Share: 2, Busy: 1, Queued: 4, CPU: 7, Waited: 3, Ended: 9, Refused: 1}}},
		Sharing:      Sharing{Kind: "gossip", SharingStatus: limiter.SharingStatus{Up: map[string]bool{"other sidecars": true}, Dropped: 2}},
		ConnStats:    ConnStats{Handshakes: map[string]uint64{"ok": 3, "no_common": 1}, Proxied: map[string]uint64{"ok": 2}},
		Certificates: []api.Certificate{{File: "/etc/a.pem", Expires: time.Unix(1_900_000_000, 0)}},
		Keys:         9, Reloads: 4, ReloadOK: true,
	}
}

// TestTable: each line has its own name, and a description in words.
func TestTable(t *testing.T) {
	names, series := map[string]bool{}, map[string]bool{}
	for _, m := range Table() {
		if m.Name == "" && m.Series == "" || m.Name != "" && names[m.Name] || m.Series != "" && series[m.Series] {
			t.Errorf("%q, %q: without a name, or there are two", m.Name, m.Series)
		}
		names[m.Name], series[m.Series] = true, true
		if m.Name != "" && !regexp.MustCompile(`^[a-z_]+$`).MatchString(m.Name) || m.Series != "" && !regexp.MustCompile(`^[a-zA-Z]+$`).MatchString(m.Series) {
			t.Errorf("%q, %q: not such a name", m.Name, m.Series)
		}
		if m.Name != "" && (m.Kind == Counter) != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s", m.Name, m.Kind)
		}
		if !strings.HasSuffix(m.Help, ".") || strings.Contains(m.Help, "\n") {
			t.Errorf("%s: %q is no sentence", m.Name, m.Help)
		}
		told := 0
		m.get(full(), func(_ float64, labels ...string) {
			if told++; len(labels) != len(m.Labels) {
				t.Errorf("%s has the labels %v, told %v", m.Name, m.Labels, labels)
			}
		})
		if told == 0 {
			t.Errorf("%s tells nothing", m.Name)
		}
	}
}

// TestOneTableForAll: the status has the same numbers as Graphite.
func TestOneTableForAll(t *testing.T) {
	s := full()
	series := Series(s)
	for name, n := range Counters(s) {
		testkit.Same(t, float64(n), series[name], "%s in Graphite", name)
	}
	for name, want := range map[string]float64{
		"gateShed": 5, "gateBusy": 3, "keys": 9, "reloads": 4, "strictChecks": 7, "requests": 0,
		"requestsOf.known.clientGone": 0, "classDelayed.my-key": 0, "sharingDropped.gossip": 2, "sharingUp.otherSidecars": 1,
	} {
		if got, ok := series[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v (there %t)", name, got, want, ok)
		}
	}
	for name := range series {
		if !regexp.MustCompile(`^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$`).MatchString(name) {
			t.Errorf("Graphite has no series %q", name)
		}
	}
	if c := Counters(s); c["keys"] != 9 || c["gateShed"] != 5 || len(c) < 20 {
		t.Errorf("the status has %v", c)
	}
}

func TestCamel(t *testing.T) {
	for label, want := range map[string]string{
		"client gone": "clientGone", "master tcp://10.0.0.1:10004": "masterTcp___10_0_0_1_10004", "a-b_9": "a-b_9", "ä b": "_B", "": "",
	} {
		testkit.Same(t, want, camel(label), "%q", label)
	}
}

// flood records requests of the given number of clients, which end in all possible ways.
func flood(all telemetry.Recorder, clients int) {
	now, who, q := time.Unix(1_000_000, 0), new(classify.Result), &http.Request{Header: http.Header{"User-Agent": {""}}}
	for i := range clients {
		who.Client = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		text := who.Client.String()
		q.Host, q.RequestURI, q.Header["User-Agent"][0] = text, text, text
		all.Note(now, &telemetry.Record{
			Arrived: now.Add(-time.Duration(i) * time.Microsecond), Who: who, Request: q, Limit: text, ID: text,
			Group: telemetry.Group(i % telemetry.Groups), Outcome: telemetry.Outcome(i % telemetry.Outcomes),
			Verdict: limiter.Verdict{Reason: limiter.Debt, Key: limiter.Key{Class: text, ID: text}},
			Held:    time.Duration(i) * time.Microsecond, Cost: time.Microsecond,
		})
	}
}

// TestSeriesDoNotGrow: fifty times as many clients don't create more series, and no label comes from a client.
func TestSeriesDoNotGrow(t *testing.T) {
	count := func(clients int) (n int) {
		s, counts := full(), telemetry.NewCounts()
		d := NewDurations()
		counts.SetNames([]string{"slash32"}, []string{"login"})
		flood(telemetry.Recorders{counts, d}, clients)
		s.Totals = counts.Totals()
		all := s.Totals.All()
		testkit.Same(t, uint64(clients), all.Requests(), "requests")
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(newCollector(func() *State { return s }), d.took.seconds, d.waited.seconds)
		families, err := registry.Gather()
		testkit.Must(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				n += 1 + len(m.GetHistogram().GetBucket())
				for _, l := range m.GetLabel() {
					if _, err := netip.ParseAddr(l.GetValue()); err == nil {
						t.Errorf("%s has the label %s", f.GetName(), l)
					}
				}
			}
		}
		return n
	}
	few, many := count(1000), count(50_000)
	if few != many || few < 200 {
		t.Errorf("%d series of 1000 clients, %d of 50,000", few, many)
	}
}

// TestDurations checks which requests the histograms contain.
func TestDurations(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name         string
		r            telemetry.Record
		took, waited uint64
	}{
		{"answered at once", telemetry.Record{}, 1, 0},
		{"answered late", telemetry.Record{Held: time.Second}, 1, 1},
		{"the backend is down", telemetry.Record{Outcome: telemetry.BackendDown}, 1, 0},
		{"refused", telemetry.Record{Outcome: telemetry.Refused, Queued: time.Second}, 0, 1},
		{"refused by a request limit", telemetry.Record{Outcome: telemetry.Refused, Limit: "login"}, 0, 0},
		{"redirected", telemetry.Record{Outcome: telemetry.Redirected, Queued: time.Second}, 0, 1},
		{"the backend was given up as the client had left", telemetry.Record{Outcome: telemetry.BackendSlow, Orphan: true}, 0, 0},
		{"the client left", telemetry.Record{Outcome: telemetry.ClientGone}, 0, 0},
	} {
		d := NewDurations()
		c.r.Arrived, c.r.Who = now.Add(-time.Second), new(classify.Result)
		d.Note(now, &c.r)
		registry := prometheus.NewRegistry()
		registry.MustRegister(d.took.seconds, d.waited.seconds)
		families, err := registry.Gather()
		testkit.Must(t, err)
		var got []uint64
		for _, f := range families { // by name
			n := uint64(0)
			for _, m := range f.GetMetric() {
				n += m.GetHistogram().GetSampleCount()
				if m.GetHistogram().GetSchema() <= 0 || len(m.GetHistogram().GetBucket()) == 0 {
					t.Errorf("%s is not both native and classic", f.GetName())
				}
			}
			got = append(got, n)
		}
		testkit.Same(t, []uint64{c.took, c.waited}, got, "%s: counted", c.name)
	}
}

// TestNoLabelLosesTheOthers: names that aren't UTF-8 or that occur twice don't suppress other numbers.
func TestNoLabelLosesTheOthers(t *testing.T) {
	s, now := full(), time.Unix(1_900_000_000, 0)
	s.Certificates = []api.Certificate{
		{File: "/etc/\xe9.pem", Expires: now}, {File: "/etc/a.pem", Expires: now.Add(time.Hour)},
		{File: "/etc/a.pem", Expires: now, Fault: "expired"}, {File: "/etc/b.pem"},
	}
	s.Gate.Sites = []limiter.SiteState{{Name: "\xff", Ended: 1}, {Name: "\xfe", Ended: 2}}
	s.ConnStats.Handshakes["\xfc"] = 1
	w := httptest.NewRecorder()
	Handler(func() *State { return s }, NewDurations()).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	for _, want := range []string{
		"tempomat_tls_certificate_expiry_seconds{certificate=\"/etc/\ufffd.pem\"} 1.9e+09\n",
		"tempomat_tls_certificate_expiry_seconds{certificate=\"/etc/a.pem\"} 1.9e+09\n",
		"tempomat_tls_certificate_ok{certificate=\"/etc/a.pem\"} 0\n", "tempomat_tls_certificate_ok{certificate=\"/etc/b.pem\"} 1\n",
		"tempomat_site_requests_total{site=\"\ufffd\"} 3\n", "tempomat_tls_handshakes_total{result=\"ok\"} 3\n", "tempomat_build_info{version=\"1.2\"} 1\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	testkit.Same(t, 3, Series(s)["siteRequests._"], "requests of the sites in Graphite")
}

var update = flag.Bool("update", false, "write the table into docs/metrics.md")

// TestManual: docs/metrics.md contains the current table.
func TestManual(t *testing.T) {
	const file, begin, end = "../../../docs/metrics.md", "<!-- table -->\n", "<!-- end of the table -->\n"
	before, rest, ok := strings.Cut(testkit.ReadFile(t, file), begin)
	is, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if *update {
		testkit.WriteFile(t, file, before+begin+manual()+end+after, 0o644)
		return
	}
	testkit.Same(t, manual(), is, "%s is not up to date", file)
}

// manual formats the table for the manual.
func manual() string {
	var b strings.Builder
	b.WriteString("| Prometheus | Graphite | meaning |\n|---|---|---|\n")
	var rows [][3]string
	for _, m := range Table() {
		name, series := "", ""
		if m.Name != "" {
			name = Prefix + m.Name
			if len(m.Labels) > 0 {
				name += "{" + strings.Join(m.Labels, ",") + "}"
			}
			name = "`" + name + "`"
		}
		if m.Series != "" {
			series = "`" + m.Series + strings.Repeat(".*", len(m.Labels)) + "`"
		}
		if last := len(rows) - 1; name == "" && last >= 0 && strings.HasPrefix(rows[last][2], strings.TrimSuffix(m.Help, ".")+", by group") {
			rows[last][1] += ", " + series // the sum of the row's groups
			continue
		}
		rows = append(rows, [3]string{name, series, m.Help})
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	return b.String()
}
