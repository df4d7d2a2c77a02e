// Package admintest provides a proxy for tests of programs that show the admin API: the doctor's top, and the
// dashboard. Its fixed documents describe a server under attack by strangers from many addresses.
package admintest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// Now is the time on the proxy's clock: 3 a.m.
const Now = 1_700_017_200.0

// Hostile is a User-Agent or URL that a client might choose. It contains commands for the terminal,
// right-to-left text, too many accents, and characters that are two columns wide.
const Hostile = "\x1b]0;owned\a\x1b[2J\u009b31m\u202egpj.\r\n検索e\u0301\u0301\u0301\u0301\u0301👍🏽<b>"

// Server answers with documents, by path. It may be used concurrently.
type Server struct {
	mu    sync.Mutex
	docs  map[string][]byte // documents as JSON, by path
	asked []string
	away  error
}

// New returns a Server with documents that describe an attack.
func New() *Server {
	s := &Server{docs: make(map[string][]byte)}
	for path, document := range map[string]any{
		"/v1/overview": Overview(), "/v1/shapes": Shapes(), "/v1/queue": Queue(), "/v1/recent": Recent(),
		"/v1/classes": Classes(), "/v1/buckets": Buckets(), "/v1/explain": Explain(),
	} {
		s.Set(path, document)
	}
	return s
}

// Set sets the document of a path, or of a path with a limit, such as /v1/shapes?limit=20.
func (s *Server) Set(path string, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		panic(err) // tests set only documents that JSON can represent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.docs[path] = body
}

// Without removes the document of a path.
func (s *Server) Without(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.docs, path)
}

// Away makes all requests fail with an error, until it is called with nil.
func (s *Server) Away(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err
}

// Asked returns the requests since its last call, with their parameters.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *Server) answer(path string, query url.Values) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return nil, s.away
	}
	s.asked = append(s.asked, (&url.URL{Path: path, RawQuery: query.Encode()}).String())
	body, ok := s.docs[path+"?limit="+query.Get("limit")]
	if !ok {
		body, ok = s.docs[path]
	}
	if !ok {
		return nil, fmt.Errorf("there is no %s", path)
	}
	return body, nil
}

// Get decodes a document into reply, without using a socket.
func (s *Server) Get(_ context.Context, path string, query url.Values, reply any) error {
	body, err := s.answer(path, query)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, reply)
}

// ServeHTTP serves the documents over HTTP.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := s.answer(r.URL.Path, r.URL.Query())
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		body, _ = json.Marshal(api.ErrorReply{Version: api.Version, Error: err.Error()})
	}
	_, _ = w.Write(body)
}

// Overview returns the document with the groups.
func Overview() api.OverviewReply {
	return api.OverviewReply{
		Version: api.Version, Now: Now, Seconds: 10, Release: "1.2.3", Mode: "fair", Uptime: 3 * 86400, CPUs: 8, CPU: 7.41, Wasted: 0.55, Use: 0.95,
		Groups: []api.GroupRow{
			{Name: "known", CPU: 0.52, Rate: 3.1, P50: 0.21, P95: 0.94, Waiting: 2, Longest: 0.8},
			{Name: "newcomers", CPU: 0.31, Rate: 2.4, P50: 0.6, P95: 3.2, Waiting: 9, Longest: 2.5},
			{Name: "strangers", CPU: 6.08, Rate: 14.2, P50: 11, P95: 29.6, Refused: 4.5, Redirected: 1.25, Waiting: 398, Longest: 28.2},
			{Name: "robots", CPU: 0.5, Rate: 0.9, P50: 4, P95: 12, Waiting: 3, Longest: 12},
			{Name: "exempt"},
		},
		Strangers: api.StrangersRow{Addresses: 1240, CPU: 6.39, Waiting: 407, Longest: 28.2},
		Gate: limiter.GateState{Workers: 16, WorkersBy: "prompt answers", Busy: 9, LongMost: 11, LongBusy: 4, Holding: 1, Orphans: 1,
			Room: 2, Computing: [7]int{2, 2, 1, 1, 1}, Queued: 412, Shed: 7, Clock: 1234.5, Utilisation: 0.96},
		Sampled: 0.25,
	}
}

// Shapes returns the document with the pages that use the CPU.
func Shapes() api.ShapesReply {
	r := api.ShapesReply{Version: api.Version, Seconds: 10, Rows: []api.ShapeRow{
		{Shape: "/wiki/index.php?title&action", CPU: 4.5, Rate: 9.6, Mean: 0.47, Addresses: 1240,
			Groups:     map[string]float64{"strangers": 4.32, "known": 0.1, "robots": 0.08},
			Parameters: []api.PartRow{{Name: "action=history", CPU: 3.9, Rate: 7, Mean: 0.56}, {Name: "action=edit", CPU: 0.4, Rate: 2, Mean: 0.2}},
			Networks:   []api.PartRow{{Name: "10.1.0.0/16", CPU: 2.9, Rate: 6, Mean: 0.48}, {Name: "2001:db8::/32", CPU: 0.7, Rate: 2, Mean: 0.35}}},
		{Shape: "/wiki/Special:RecentChanges?days", CPU: 1.4, Rate: 2, Mean: 0.7, Addresses: 312,
			Groups:     map[string]float64{"strangers": 1.3, "newcomers": 0.1},
			Parameters: []api.PartRow{{Name: "days=30", CPU: 0.3, Rate: 1, Mean: 0.3}},
			Networks:   []api.PartRow{{Name: "203.0.0.0/16", CPU: 0.4, Rate: 1, Mean: 0.4}}},
		{Shape: "/" + Hostile + "?x", CPU: 0.25, Rate: 0.5, Mean: 0.5, Addresses: 1, Groups: map[string]float64{"robots": 0.25},
			Parameters: []api.PartRow{{Name: "x=" + Hostile, CPU: 0.25}}, Networks: []api.PartRow{{Name: "192.0.0.0/16", CPU: 0.25}}},
	}}
	for i := range 40 {
		r.Rows = append(r.Rows, api.ShapeRow{Shape: fmt.Sprintf("/blog/%d/*", 2025-i), CPU: 0.02 - float64(i)/2500, Rate: 0.2, Mean: 0.1,
			Addresses: 7, Groups: map[string]float64{"known": 0.01}})
	}
	return r
}

// Queue returns the document with the waiting requests.
func Queue() api.QueueReply {
	r := api.QueueReply{Version: api.Version, Total: 412}
	for i := range 60 {
		r.Rows = append(r.Rows, api.WaiterRow{Client: fmt.Sprintf("10.1.%d.%d", i/7, i), Group: "strangers", Agent: "Chrome", Method: "GET", Host: "wiki.example",
			URL: fmt.Sprintf("/wiki/index.php?title=Page_%d&action=history", i), Shape: "/wiki/index.php?title&action",
			Age: 28.2 - float64(i)*0.4, Guess: 0.47, Sure: i%3 > 0, Before: i * 6, Why: "it is a stranger, and strangers share one part of the CPUs"})
	}
	r.Rows[1].Agent, r.Rows[1].URL, r.Rows[1].Method, r.Rows[1].Before = Hostile, "/"+Hostile, "POST", -1
	return r
}

// Recent returns the document with the last verdicts.
func Recent() api.RecentReply {
	r := api.RecentReply{Version: api.Version}
	for i := range 50 {
		v := api.VerdictRow{At: Now - float64(i)*0.7, ID: fmt.Sprintf("r%06d", i), Client: fmt.Sprintf("10.1.3.%d", i), Group: "strangers", Agent: "Chrome",
			Method: "GET", Host: "wiki.example", URL: fmt.Sprintf("/wiki/index.php?title=P%d&action=history", i), Status: 503, Outcome: "refused",
			Reason: "server full", Waited: 30, Guess: 0.47}
		switch i % 4 {
		case 1:
			v.Status, v.Outcome, v.Reason, v.Class, v.Key, v.Waited = 429, "refused", "debt", "slash24", "10.1.3.0/24", 0.4
		case 2:
			v.Status, v.Outcome, v.Reason, v.Shadow = 307, "redirected", "busy", true
		}
		r.Rows = append(r.Rows, v)
	}
	r.Rows[3].Agent, r.Rows[3].URL = Hostile, "/"+Hostile
	return r
}

// Classes returns the document with the classes.
func Classes() api.ClassesReply {
	return api.ClassesReply{Version: api.Version, Classes: []api.ClassReply{
		{Name: "slash32", CPUs: 0.8, Burst: 48, Keys: 1302}, {Name: "slash24", CPUs: 1.6, Burst: 96, Keys: 240}, {Name: "userAgent", CPUs: 2, Keys: 31}}}
}

// Buckets returns the document with the first class's keys.
func Buckets() api.BucketsReply {
	r := api.BucketsReply{Version: api.Version, Class: "slash32", Sort: "cpu", Total: 1302}
	for i := range 80 {
		r.Rows = append(r.Rows, limiter.Row{Class: "slash32", ID: fmt.Sprintf("10.1.0.%d", i), Level: 40 - float64(i), Wait: float64(i) / 7,
			CPU: 0.4 / float64(i+1), Rate: 1.5, Last: float64(i), Running: i % 3, Waiting: i % 2, Client: &limiter.ClientRow{Standing: 0.5}})
	}
	r.Rows[0].Level, r.Rows[0].Client = -4.25, &limiter.ClientRow{Known: true, Standing: 4}
	r.Rows[2].ID = Hostile
	return r
}

// Explain returns the explanation of an address.
func Explain() api.ExplainReply {
	return api.ExplainReply{Version: api.Version, Of: "10.1.0.0", Kind: "address",
		Summary: "It waits as a stranger: strangers share one part of the CPUs, and 407 of their requests wait.",
		Sections: []api.ExplainSection{{Title: "What it used", Facts: []api.ExplainFact{
			{Name: "CPU", Value: "0.40 CPU-s/s", Means: "five times what a client of its kind may use"},
			{Name: "User-Agent", Value: Hostile}}}},
		Advice:  []string{"Let it through for an hour: tempomat-doctor pin 10.1.0.0 1h"},
		Waiting: Queue().Rows[:2], Recent: Recent().Rows[:5]}
}
