//go:build world

package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// evil is what a client may choose for a User-Agent or a URL.
const evil = "/w/<img src=x onerror=\"document.title='owned'\">?a=\u202egnp.exe\x1b[31m\n&b=" + `'";alert(1)//`

// fake answers the documents of a site under attack, which do not change.
type fake struct {
	t     *testing.T
	now   float64
	token string // that is asked for; empty: none

	mu    sync.Mutex // guards the following
	posts []string   // bodies of POST /v1/forgive
	away  bool
}

func startFake(t *testing.T, token string) (*fake, string) {
	t.Helper()
	f := &fake{t: t, now: float64(time.Now().Unix()), token: token}
	mux := pages()
	mux.Handle("/v1/", f.api())
	mux.HandleFunc("/v1/access", f.accessible)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return f, s.URL
}

func (f *fake) api() http.Handler {
	mux := http.NewServeMux()
	for path, document := range f.documents() {
		mux.HandleFunc("GET /v1/"+path, func(w http.ResponseWriter, r *http.Request) { reply(w, document(r.URL.Query())) })
	}
	mux.HandleFunc("POST /v1/forgive", func(w http.ResponseWriter, r *http.Request) {
		var asked api.ActRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Header.Get("Authorization") != "Bearer "+f.token {
			http.Error(w, `{"error":"not like this"}`, http.StatusForbidden)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.posts = append(f.posts, asked.Class+" "+asked.Key)
		reply(w, api.ActReply{Version: 1, Done: "forgave " + asked.Key})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.isAway() {
			panic(http.ErrAbortHandler)
		}
		if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"version":1,"error":"the token is missing or wrong"}`))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// accessible answers the page's question whether it needs the token.
func (f *fake) accessible(w http.ResponseWriter, _ *http.Request) {
	reply(w, api.AccessReply{Version: 1, Token: f.token != ""})
}

func reply(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

// setAway has the API break all connections.
func (f *fake) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fake) isAway() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

func (f *fake) documents() map[string]func(url.Values) any {
	return map[string]func(url.Values) any{
		"overview": func(url.Values) any { return f.overview() },
		"shapes":   func(url.Values) any { return shapes() },
		"queue":    func(url.Values) any { return queue() },
		"recent":   func(url.Values) any { return f.recent() },
		"series":   func(q url.Values) any { return f.series(q.Get("minutes")) },
		"classes": func(url.Values) any {
			return api.ClassesReply{Version: 1, Classes: []api.ClassReply{{Name: "slash32", CPUs: 0.4, Burst: 30, Keys: 812}, {Name: "slash16", CPUs: 2, Burst: 30, Keys: 97}, {Name: "userAgent", CPUs: 0.4, Burst: 120, Keys: 64}}}
		},
		"buckets": func(q url.Values) any { return buckets(q.Get("class")) },
		"share": func(url.Values) any {
			return api.ShareReply{Version: 1, Kind: "smockron", State: []any{
				map[string]any{"master": "tcp://10.0.0.5:10004", "domains": []string{"site.slash32"}, "present": true, "synced": true, "sent": 120345, "dropped": 0},
				map[string]any{"master": "tcp://10.0.0.6:10004", "domains": []string{"site.userAgent"}, "present": false, "synced": false, "sent": 11, "dropped": 3},
			}}
		},
		"explain": func(q url.Values) any { return f.explain(q.Get("of")) },
		"history": func(url.Values) any { return f.history() },
	}
}

func (f *fake) overview() api.OverviewReply {
	return api.OverviewReply{
		Version: 1, Now: f.now, Seconds: 10, Release: "v2.3.0", Mode: "fair", Uptime: 186_300, CPUs: 4, CPU: 3.62, Wasted: 0.21, Sampled: 1,
		Conditions: []api.Condition{{Name: "errors", Bad: true, What: "The site answers with errors.", Do: "Check <b>the log</b>."}},
		Groups: []api.GroupRow{
			{Name: "known", CPU: 0.84, Rate: 21.4, P50: 0.112, P95: 0.418},
			{Name: "newcomers", CPU: 0.31, Rate: 6.2, P50: 0.35, P95: 2.91, Redirected: 1.7, Waiting: 4, Longest: 3.2},
			{Name: "strangers", CPU: 2.12, Rate: 5.9, P50: 8.4, P95: 27.3, Refused: 3.4, Waiting: 61, Longest: 29.4},
			{Name: "robots", CPU: 0.34, Rate: 1.1, P50: 0.61, P95: 4.4, Refused: 0.2, Waiting: 2, Longest: 4.9},
			{Name: "exempt", CPU: 0.01, Rate: 0.5, P50: 0.004, P95: 0.009},
		},
		Strangers: api.StrangersRow{Addresses: 1432, CPU: 2.43, Waiting: 65, Longest: 29.4},
		Gate:      limiter.GateState{Workers: 16, Busy: 11, Room: 6, Queued: 67, Utilisation: 0.93},
	}
}

func shapes() api.ShapesReply {
	part := func(name string, cpu, rate float64) api.PartRow {
		return api.PartRow{Name: name, CPU: cpu, Rate: rate, Mean: cpu / rate}
	}
	rows := []api.ShapeRow{
		{Shape: "/w/index.php?title&diff&oldid", CPU: 1.61, Rate: 3.1, Mean: 0.519, Addresses: 903,
			Groups:     map[string]float64{"strangers": 1.55, "newcomers": 0.06},
			Parameters: []api.PartRow{part("diff=prev", 0.9, 1.7), part("title=Special:RecentChanges", 0.4, 0.8)},
			Networks:   []api.PartRow{part("203.0.0.0/16", 0.74, 1.4), part("198.51.0.0/16", 0.41, 0.8), part("2001:db8::/32", 0.1, 0.2)}},
		{Shape: "/wiki/*", CPU: 0.92, Rate: 24.9, Mean: 0.037, Addresses: 401, Groups: map[string]float64{"known": 0.7, "newcomers": 0.19, "robots": 0.03},
			Networks: []api.PartRow{part("192.0.0.0/16", 0.2, 6)}},
		{Shape: "/w/index.php?title&action=history", CPU: 0.51, Rate: 1.2, Mean: 0.425, Addresses: 288, Groups: map[string]float64{"strangers": 0.4, "robots": 0.11}},
		{Shape: evil, CPU: 0.3, Rate: 1.4, Mean: 0.214, Addresses: 3, Groups: map[string]float64{"robots": 0.3},
			Parameters: []api.PartRow{part(evil, 0.3, 1.4)}, Networks: []api.PartRow{part("192.0.0.0/16", 0.2, 6)}},
	}
	for i := range 8 {
		cpu := 0.16 / float64(i+1)
		rows = append(rows, api.ShapeRow{Shape: fmt.Sprintf("/w/api.php?action&prop%d", i), CPU: cpu, Rate: 0.9, Mean: cpu / 0.9, Addresses: 10 + i, Groups: map[string]float64{"known": cpu}})
	}
	return api.ShapesReply{Version: 1, Seconds: 10, Rows: rows}
}

func queue() api.QueueReply {
	q := api.QueueReply{Version: 1, Total: 67}
	for i := range 12 {
		q.Rows = append(q.Rows, api.WaiterRow{Client: fmt.Sprintf("203.0.113.%d", 10+i), Group: "strangers", Agent: "Chrome 139", Method: "GET", Host: "wiki.example.org",
			URL: fmt.Sprintf("/w/index.php?title=Main_Page&diff=prev&oldid=%d", 81723+i), Shape: "/w/index.php?title&diff&oldid", Age: 29.4 - float64(i)*1.7, Guess: 0.5 + float64(i)/50,
			Sure: i%3 > 0, Before: i, Why: "strangers together have had their share; newcomers and known clients go first"})
	}
	q.Rows[3].Group, q.Rows[3].URL, q.Rows[3].Agent = "newcomers", evil, evil
	return q
}

func (f *fake) recent() api.RecentReply {
	r := api.RecentReply{Version: 1}
	for i := range 14 {
		row := api.VerdictRow{At: f.now - float64(i)*0.8, ID: fmt.Sprintf("k3v9x%02d", i), Client: fmt.Sprintf("203.0.113.%d", 40+i), Group: "strangers", Agent: "Chrome 139", Method: "GET",
			Host: "wiki.example.org", URL: "/w/index.php?title=Main_Page&diff=prev", Shape: "/w/index.php?title&diff", Status: 429, Outcome: "refused", Reason: "debt",
			Class: "slash16", Key: "203.0.0.0/16", Waited: 30, Guess: 0.5}
		switch i % 4 {
		case 1:
			row.Group, row.Status, row.Outcome, row.Reason, row.Class, row.Key, row.Waited = "newcomers", 302, "redirected", "none", "", "", 0.002
		case 2:
			row.Group, row.Agent, row.URL, row.Reason, row.Class, row.Key, row.Status, row.Waited = "robots", evil, evil, "limit feeds", "", "", 503, 0
		case 3:
			row.Group, row.Status, row.Outcome, row.Reason, row.Class, row.Key, row.Cost, row.Waited = "known", 200, "served", "busy", "", "", 0.41, 2.3
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func buckets(class string) api.BucketsReply {
	b := api.BucketsReply{Version: 1, Class: class, Sort: "cpu", Total: 812}
	for i := range 14 {
		id := map[string]string{"slash32": fmt.Sprintf("203.0.113.%d", 10+i), "slash16": fmt.Sprintf("203.%d.0.0/16", i)}[class]
		if class == "userAgent" {
			id = []string{"", evil, "Chrome 139"}[min(i, 2)] + map[bool]string{true: fmt.Sprint(i)}[i > 2]
		}
		b.Rows = append(b.Rows, limiter.Row{Class: class, ID: id, Level: 4 - float64(i*i), Wait: float64(i) / 3, CPU: 1.2 / float64(i+1), Rate: 8 / float64(i+1), Last: 0.4, Running: i % 3, Waiting: i % 5})
	}
	return b
}

func (f *fake) explain(of string) api.ExplainReply {
	return api.ExplainReply{Version: 1, Of: of, Kind: "address", Summary: "It waits: its network 203.0.0.0/16 owes 8.2 CPU-seconds, and strangers go last.",
		Sections: []api.ExplainSection{{Title: "Its keys", Facts: []api.ExplainFact{
			{Name: "slash32 203.0.113.9", Value: "-1.4 CPU-s", Means: "it may use 0.40 CPUs steadily"}, {Name: "slash16 203.0.0.0/16", Value: "-8.2 CPU-s", Means: "of 2.00 CPUs; 143 addresses use it"}}},
			{Title: "Evidence", Facts: []api.ExplainFact{{Name: "cookie", Value: "none", Means: ""}, {Name: "User-Agent", Value: evil, Means: "a browser's, of this year"}}}},
		Advice:  []string{"A login counts as evidence: the backend attests it.", "Forgive its network, if it is somebody's office."},
		Waiting: queue().Rows[:2], Recent: f.recent().Rows[:3]}
}

func (f *fake) history() api.HistoryReply {
	h := api.HistoryReply{Version: 1, Since: f.now - 7*86400}
	for i := range 25 {
		h.Hours = append(h.Hours, api.HourRow{At: math.Floor(f.now/3600-24+float64(i)) * 3600, Requests: 81_233, CPU: 9123, Refused: 1200,
			Shapes:  []api.HistoryPart{{Name: "/w/index.php?title&diff&oldid", CPU: 4021, Requests: 8123}, {Name: evil, CPU: 20, Requests: 5}},
			Classes: []api.HistoryClass{{Class: "slash16", Keys: []api.HistoryPart{{Name: "203.0.0.0/16", CPU: 2876, Requests: 5000}}}}})
	}
	return h
}

func (f *fake) series(minutes string) api.SeriesReply {
	s := api.SeriesReply{Version: 1, Step: map[string]float64{"5": 1, "60": 10, "1440": 60}[minutes]}
	n := map[string]int{"5": 300, "60": 360, "1440": 1440}[minutes]
	last := math.Floor(float64(time.Now().Unix())/s.Step) * s.Step
	for i := range n {
		s.Points = append(s.Points, f.point(last-float64(n-1-i)*s.Step))
	}
	return s
}

// point is quiet until 150 s before now; then strangers come.
func (f *fake) point(at float64) api.Point {
	wave := func(period, low, high float64) float64 {
		noise := math.Sin(at*1.7) * math.Sin(at*0.61) * 0.12
		return max(0, low+(high-low)*(0.5+0.5*math.Sin(at/period)+noise))
	}
	flood := 1 / (1 + math.Exp((f.now-150-at)/8))
	p := api.Point{
		At: at, CPU: [5]float64{wave(40, 0.6, 1.1), wave(23, 0.1, 0.35), flood * wave(17, 1.7, 2.3), wave(31, 0.15, 0.4), 0.01},
		Rate: [5]float64{21, 6, 6 * flood, 1, 0.5}, P50: [5]float64{0.1, 0.3, 8 * flood, 0.6, 0.004},
		P95:     [5]float64{wave(13, 0.2, 0.6), wave(29, 0.4, 3), flood * wave(19, 18, 28), wave(11, 0.5, 5), 0.009},
		Waiting: [5]int{0, int(flood * wave(9, 2, 6)), int(flood * wave(37, 40, 62)), int(flood * 2), 0},
		Longest: 29 * flood, Refused: 3.4 * flood * wave(7, 0.7, 1.1), Redirected: 1.7 * flood, Wasted: 0.2 * flood, Workers: 16,
	}
	total := 0.0
	for _, c := range p.CPU {
		total += c
	}
	p.Use, p.Busy, p.Room = min(0.97, total/4), int(2+total*2.4), int(8-2*flood)
	return p
}
