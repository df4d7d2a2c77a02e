package admin

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/telemetrytest"
)

var _ telemetry.Ledger = (*limiter.Limiter)(nil)

func options() Options {
	start := time.Unix(1_000_000, 0)
	return Options{
		Ledger: telemetrytest.NewLedger(),
		Now:    func() time.Time { return start.Add(90 * time.Second) },
		Status: func() api.StatusReply {
			return api.StatusReply{Release: "1.2.3", Uptime: 90, Mode: "cap", Held: 7, Buffer: spool.Stats{Memory: 16384, Spools: 2},
				Counters: map[string]uint64{"requests": 12}}
		},
		Gate: func() limiter.GateState { return limiter.GateState{Workers: 16, Queued: 3, Utilisation: -1} },
		Share: func() api.ShareReply {
			return api.ShareReply{Kind: "smockron", State: []any{map[string]any{"master": "tcp://m:1", "present": true}}}
		},
		Proof:   func(limiter.Key) string { return "" },
		Kernel:  func() api.Kernel { return api.Kernel{} },
		Waiting: func() []string { return nil },
		Access:  new(Access),
		Log:     zap.NewNop(),
		Inside:  inside(),
		Ready:   func() error { return nil },
		Reload:  func() error { return nil },
	}
}

// ask sends one request to the API and strictly decodes the answer into reply.
func ask(t *testing.T, o Options, method, target string, reply any) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	New(o).Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, target, nil))
	var version struct{ Version int }
	if err := json.Unmarshal(rec.Body.Bytes(), &version); err != nil || version.Version != 1 {
		t.Fatalf("%s %s: not a document of version 1 (%v): %s", method, target, err, rec.Body)
	}
	testkit.Same(t, "application/json", rec.Header().Get("Content-Type"), "%s %s: Content-Type", method, target)
	dec := json.NewDecoder(rec.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(reply); err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return rec
}

func TestAdminBucketsSortsAndBounds(t *testing.T) {
	for query, want := range map[string][]string{
		"":                                {"", "203.0.113.8", "203.0.113.9", "203.0.113.7"},
		"?sort=cpu":                       {"203.0.113.7", "203.0.113.9", "203.0.113.8", ""},
		"?sort=rate&limit=2":              {"203.0.113.7", "203.0.113.8"},
		"?sort=level":                     {"", "203.0.113.9", "203.0.113.7", "203.0.113.8"},
		"?sort=last":                      {"203.0.113.8", "203.0.113.9", "", "203.0.113.7"},
		"?class=userAgent":                {""},
		"?class=UserAgent":                {""},
		"?class=Slash32&sort=wait":        {"203.0.113.8", "203.0.113.9", "203.0.113.7"},
		"?class=slash32&limit=1":          {"203.0.113.8"},
		"?class=slash32&limit=10000":      {"203.0.113.8", "203.0.113.9", "203.0.113.7"},
		"?class=slash32&sort=cpu&limit=1": {"203.0.113.7"},
	} {
		var reply api.BucketsReply
		rec := ask(t, options(), "GET", "/v1/buckets"+query, &reply)
		var got []string
		for _, r := range reply.Rows {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(want, got); rec.Code != 200 || diff != "" {
			t.Errorf("%q: status %d, rows (-want +got):\n%s", query, rec.Code, diff)
		}
	}
	var reply api.BucketsReply
	ask(t, options(), "GET", "/v1/buckets?class=SLASH32&limit=1", &reply)
	if reply.Class != "slash32" || reply.Sort != "wait" || reply.Total != 3 {
		t.Errorf("got class %q, sort %q, total %d; want slash32, wait, 3", reply.Class, reply.Sort, reply.Total)
	}
}

func TestAdminBucketsOfAnEmptyTableIsAnEmptyList(t *testing.T) {
	o := options()
	o.Ledger = telemetrytest.Ledger{}
	rec := httptest.NewRecorder()
	New(o).Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/buckets", nil))
	if !strings.Contains(rec.Body.String(), `"rows":[]`) {
		t.Errorf("got %s", rec.Body)
	}
}

func TestAdminViews(t *testing.T) {
	var classes api.ClassesReply
	ask(t, options(), "GET", "/v1/classes", &classes)
	want := api.ClassesReply{Version: 1, Classes: []api.ClassReply{
		{Name: "slash32", CPUs: 0.4, Burst: 30, Keys: 3},
		{Name: "userAgent", CPUs: 0.5, Burst: 120, Cap: true, Shadow: true, Keys: 1},
	}}
	testkit.Same(t, want, classes, "classes")
	var gate api.GateReply
	ask(t, options(), "GET", "/v1/gate", &gate)
	testkit.Same(t, api.GateReply{Version: 1, GateState: limiter.GateState{Workers: 16, Queued: 3, Utilisation: -1}, Kernel: new(api.Kernel)}, gate, "gate")
	o := options()
	o.Kernel = func() api.Kernel { return api.Kernel{Steps: true, Lowered: 2} }
	ask(t, o, "GET", "/v1/gate", &gate)
	testkit.Same(t, &api.Kernel{Steps: true, Lowered: 2}, gate.Kernel, "the kernel's help")
	var share api.ShareReply
	ask(t, options(), "GET", "/v1/share", &share)
	wanted := options().Share()
	if wanted.Version = 1; cmp.Diff(wanted, share) != "" {
		t.Errorf("share (-want +got):\n%s", cmp.Diff(wanted, share))
	}
	var status api.StatusReply
	ask(t, options(), "GET", "/v1/status", &status)
	if status.Goroutines < 1 {
		t.Errorf("goroutines: %d", status.Goroutines)
	}
	status.Goroutines = 0
	if diff := cmp.Diff(api.StatusReply{Version: 1, Release: "1.2.3", Uptime: 90, Mode: "cap", Held: 7,
		Buffer: spool.Stats{Memory: 16384, Spools: 2}, Counters: map[string]uint64{"requests": 12}, Conditions: []api.Condition{}}, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	for _, id := range []string{"203.0.113.9", ""} {
		class := map[string]string{"203.0.113.9": "Slash32", "": "userAgent"}[id]
		var key api.KeyReply
		ask(t, options(), "GET", "/v1/key?"+url.Values{"class": {class}, "id": {id}}.Encode(), &key)
		if key.Row.ID != id || key.Row.Level >= 0 {
			t.Errorf("key %q: got %+v", id, key.Row)
		}
	}
	var ok api.OKReply
	if rec := ask(t, options(), "GET", "/v1/health", &ok); rec.Code != 200 || ok.Status != "ok" {
		t.Errorf("health: %d %+v", rec.Code, ok)
	}
	for bad, want := range map[bool]string{false: "ok", true: "degraded"} {
		o := options()
		o.Inside.Overview = func() api.OverviewReply {
			return api.OverviewReply{Conditions: []api.Condition{{Name: "backend-down", Bad: bad}}}
		}
		var ready api.ReadyReply
		if rec := ask(t, o, "GET", "/v1/ready", &ready); rec.Code != 200 || ready.Status != want || len(ready.Conditions) != 1 {
			t.Errorf("ready: %d %+v", rec.Code, ready)
		}
	}
}

func TestAdminErrors(t *testing.T) {
	broken := options()
	broken.Ready = func() error { return errors.New("draining") }
	broken.Reload = func() error { return errors.Join(errors.New("t.yaml:3: a"), errors.New("t.yaml:4: b")) }
	nan := options()
	nan.Ledger = telemetrytest.Ledger{Rows: []limiter.Row{{Wait: math.NaN()}}}
	for _, c := range []struct {
		method, target string
		opts           Options
		status         int
		text           string
	}{
		{"GET", "/", options(), 404, "no such path for GET; known: GET /v1/classes, GET /v1/buckets, "},
		{"POST", "/v1/buckets", options(), 404, "no such path for POST"},
		{"GET", "/v1/reload", options(), 404, ", POST /v1/reload, POST /v1/forgive, POST /v1/pin"},
		{"GET", "/v1/buckets?class=slash8", options(), 400, `class "slash8" is unknown; known: slash32, userAgent`},
		{"GET", "/v1/buckets?sort=title", options(), 400, `sort: "title" is unknown; known: wait, cpu, rate, level, last`},
		{"GET", "/v1/buckets?limit=0", options(), 400, `limit: "0" is not a whole number from 1 to 10000`},
		{"GET", "/v1/buckets?limit=2.5", options(), 400, `"2.5"`},
		{"GET", "/v1/history", options(), 404, "no history is kept, because history.hours is 0 in the configuration"},
		{"GET", "/v1/history?hours=169", withHistory(), 400, `hours: "169" is not a whole number from 1 to 168`},
		{"GET", "/v1/buckets?lmit=5", options(), 400, `unknown parameter "lmit"; known: class, sort, limit`},
		{"GET", "/v1/health?x=1", options(), 400, "known: none"},
		{"GET", "/v1/key?class=slash32", options(), 400, "class and id"},
		{"GET", "/v1/key?class=no&id=1", options(), 400, "known: slash32, userAgent"},
		{"GET", "/v1/key?class=Slash32&id=192.0.2.1", options(), 404, `class slash32 has no key "192.0.2.1"`},
		{"GET", "/v1/ready", broken, 503, "not ready: draining"},
		{"POST", "/v1/reload", broken, 422, "t.yaml:3: a\nt.yaml:4: b"},
		{"GET", "/v1/buckets", nan, 500, "NaN"},
		{"GET", "/v1/queue?limit=1001", options(), 400, "1 to 1000"},
		{"GET", "/v1/explain?on=a", options(), 400, "unknown parameter"},
		{"GET", "/v1/forgive", options(), 404, "POST /v1/forgive"},
		{"GET", "/v1/shapes?limit=0", options(), 400, "limit"},
		{"GET", "/v1/recent?limit=x", options(), 400, "limit"},
	} {
		var reply api.ErrorReply
		rec := ask(t, c.opts, c.method, c.target, &reply)
		if rec.Code != c.status || !strings.Contains(reply.Error, c.text) {
			t.Errorf("%s %s: got %d %q; want %d %q", c.method, c.target, rec.Code, reply.Error, c.status, c.text)
		}
	}
}

// withHistory returns options with a history of one hour. The hour's number of requests is the number of hours
// that the request asks for.
func withHistory() Options {
	o := options()
	o.History = func(hours int) api.HistoryReply {
		return api.HistoryReply{Version: api.Version, Hours: []api.HourRow{{
			Requests: uint64(hours),
			Classes:  []api.HistoryClass{{Class: "gone"}, {Class: "userAgent"}, {Class: "slash32"}},
		}}}
	}
	return o
}

func TestHistory(t *testing.T) {
	for query, want := range map[string]uint64{"": 24, "?hours=1": 1, "?hours=168": 168} {
		var reply api.HistoryReply
		rec := ask(t, withHistory(), "GET", "/v1/history"+query, &reply)
		if rec.Code != 200 || len(reply.Hours) != 1 || reply.Hours[0].Requests != want {
			t.Errorf("%q: status %d, %+v", query, rec.Code, reply)
			continue
		}
		if c := reply.Hours[0].Classes; c[0].Class != "slash32" || c[1].Class != "userAgent" || c[2].Class != "gone" {
			t.Errorf("%q: the classes are %+v", query, c)
		}
	}
}

func inside() Inside {
	return Inside{
		Overview: func() api.OverviewReply {
			return api.OverviewReply{Version: 1, CPU: 1.5, Conditions: []api.Condition{}}
		},
		Shapes: func(limit int) api.ShapesReply {
			return api.ShapesReply{Version: 1, Rows: make([]api.ShapeRow, limit)}
		},
		Recent: func(limit int) api.RecentReply {
			return api.RecentReply{Version: 1, Rows: make([]api.VerdictRow, limit)}
		},
	}
}

func TestInside(t *testing.T) {
	var overview api.OverviewReply
	if ask(t, options(), "GET", "/v1/overview", &overview); overview.CPU != 1.5 {
		t.Errorf("%+v", overview)
	}
	for query, want := range map[string]int{"": 50, "?limit=3": 3} {
		var shapes api.ShapesReply
		var recent api.RecentReply
		ask(t, options(), "GET", "/v1/shapes"+query, &shapes)
		ask(t, options(), "GET", "/v1/recent"+query, &recent)
		if len(shapes.Rows) != want || len(recent.Rows) != want {
			t.Errorf("%q: %d shapes, %d recent", query, len(shapes.Rows), len(recent.Rows))
		}
	}
	for query, want := range map[string]int{"": 100, "?limit=1000": 1000} {
		var queue api.QueueReply
		if ask(t, acted(new(actor)), "GET", "/v1/queue"+query, &queue); queue.Total != want {
			t.Errorf("%q: %d in the queue", query, queue.Total)
		}
	}
	var explained api.ExplainReply
	if ask(t, acted(new(actor)), "GET", "/v1/explain?of=a%20b", &explained); explained.Of != "a b" {
		t.Errorf("%+v", explained)
	}
	var pins api.PinsReply
	if ask(t, acted(new(actor)), "GET", "/v1/pins", &pins); pins.Pins == nil {
		t.Errorf("%+v", pins)
	}
}

// post sends one reload and returns the status of the answer.
func post(ctx context.Context, a *Server) int {
	rec := httptest.NewRecorder()
	a.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "POST", "/v1/reload", nil))
	return rec.Code
}

func TestAdminReloadsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most, runs := 0, 0, 0
		var mu sync.Mutex
		o := options()
		o.Reload = func() error {
			mu.Lock()
			running++
			runs++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}
		a := New(o)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				testkit.Same(t, 200, post(t.Context(), a), "status")
			})
		}
		group.Wait()
		if most != 1 || runs != 10 {
			t.Errorf("%d reloads, %d at a time; want 10, 1", runs, most)
		}
	})
}

func TestAdminReloadThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o := options()
		o.Reload = func() error { <-release; return nil }
		a := New(o)
		start := time.Now()
		for range 2 {
			testkit.Same(t, 503, post(t.Context(), a), "status")
		}
		testkit.Same(t, 2*reloadTimeout, time.Since(start), "both took")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		post(ctx, a) // must return
		close(release)
		synctest.Wait()
		testkit.Same(t, 200, post(t.Context(), a), "after its end: status")
	})
}
