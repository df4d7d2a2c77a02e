package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry/telemetrytest"
)

const fleetToken = "0123456789abcdef0123"

// ward is an instance of a fleet. It records the actions for clients.
type ward struct {
	night
	n       int
	address string
	others  []api.Instance // the instances that it knows

	mu   sync.Mutex
	done []string
}

func (w *ward) Explain(_ time.Time, of string) (api.ExplainReply, error) {
	e := api.ExplainReply{Version: api.Version, Of: of, Kind: "address", Summary: "7 instances: Nothing is known about it."}
	if w.n == 3 {
		e.Summary, e.Waits = "One of its requests waits.", 1
		e.Waiting = []api.WaiterRow{{Client: of, Method: "GET", URL: "/slow", Age: 2, Why: "all workers are busy"}}
		e.Sections = []api.ExplainSection{{Title: "Accounts", Facts: []api.ExplainFact{{Name: "slash32", Value: "owes 1 CPU-s"}}}}
	}
	return e, nil
}

func (w *ward) note(what string) (api.ActReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, what)
	return api.ActReply{Version: api.Version, Done: what}, nil
}

func (w *ward) Forgive(_ time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	if !strings.HasPrefix(by, "uid ") && !strings.HasPrefix(by, "token, from ") {
		return api.ActReply{}, errors.New("nobody asks")
	}
	return w.note("forgave " + a.Key)
}

func (w *ward) Pin(_ time.Time, _ string, a api.ActRequest) (api.ActReply, error) {
	return w.note(fmt.Sprintf("pinned %s to %g", a.Key, a.Standing))
}

func (w *ward) options() admin.Options {
	overview := api.OverviewReply{
		Version: api.Version, Now: 1000 + float64(w.n)/10, Seconds: 10, Release: "1.2.3", Mode: "fair", Uptime: 100, CPUs: 4, CPU: 2, Use: 0.5, Sampled: 1,
		Groups: []api.GroupRow{{Name: "known", CPU: 0.5, Rate: 1, P95: float64(w.n), Waiting: w.n}, {Name: "newcomers"}, {Name: "strangers", CPU: 1.5}, {Name: "robots"}, {Name: "exempt"}},
		Gate:   limiter.GateState{Workers: 10, Busy: w.n, Utilisation: 0.5},
	}
	if w.n == 5 {
		overview.Conditions = []api.Condition{{Name: "backend-down", Bad: true, What: "The backend is down.", Do: "Start it."}}
	}
	status := api.StatusReply{Release: "1.2.3", Uptime: 100, Held: w.n, Instance: api.Instance{
		Name: "web", Release: "1.2.3", Mode: "fair", Sharing: "gossip", Secret: "abcd", Now: float64(time.Now().Unix()),
		Classes: map[string]string{"slash32": "share 0.1, burst 30s"},
	}}
	if w.n == 6 {
		status.Instance.Secret, status.Instance.Classes = "", map[string]string{"slash32": "share 0.2, burst 30s"}
		status.Instance.Now -= 3600
	}
	access := new(admin.Access)
	access.Set(fleetToken, nil)
	ledger := telemetrytest.Ledger{ClassList: []limiter.ClassInfo{{Name: "slash32"}}, Rows: []limiter.Row{
		{Class: "slash32", ID: "203.0.113.9", Level: -float64(w.n), CPU: 0.25, Rate: 2, Wait: float64(w.n), Last: float64(10 - w.n)},
		{Class: "slash32", ID: fmt.Sprintf("198.51.100.%d", w.n), CPU: 0.5, Rate: 1},
	}}
	return admin.Options{
		Ledger: ledger, Now: time.Now, Ready: func() error { return nil }, Access: access, Inspector: w,
		Status: func() api.StatusReply { return status }, Gate: func() limiter.GateState { return overview.Gate },
		Share:   func() api.ShareReply { return api.ShareReply{Kind: "gossip", Known: w.others, Instances: w.others} },
		History: week,
		Inside: admin.Inside{
			Overview: func() api.OverviewReply { return overview },
			Shapes: func(int) api.ShapesReply {
				return api.ShapesReply{Version: api.Version, Rows: []api.ShapeRow{{Shape: "/slow", CPU: 1, Rate: 1, Groups: map[string]float64{"strangers": 1}}}}
			},
			Recent: func(int) api.RecentReply { return api.RecentReply{Version: api.Version} },
		},
	}
}

// serveFleet runs ten instances, half of them over TCP. One is down and one hangs. serveFleet returns the others, and
// the flags that select all ten.
func serveFleet(t *testing.T) (living []*ward, flags []string) {
	t.Helper()
	for n := range 10 {
		w := &ward{n: n}
		var l net.Listener
		var err error
		if n%2 == 0 {
			w.address = socketPath(t)
			l, err = net.Listen("unix", w.address)
		} else {
			l, err = net.Listen("tcp", "127.0.0.1:0")
			w.address = "http://" + l.Addr().String()
		}
		testkit.Must(t, err)
		flags = append(flags, "--socket", w.address)
		switch n {
		case 7:
			_ = l.Close()
			continue
		case 8: // the kernel accepts the connection, but no program answers
			t.Cleanup(func() { _ = l.Close() })
			continue
		}
		serve := (*admin.Server).Serve
		if n%2 > 0 {
			serve = (*admin.Server).ServeWeb
		}
		serveAt(t, w.options(), serve, l)
		living = append(living, w)
	}
	token := filepath.Join(t.TempDir(), "token")
	testkit.WriteFile(t, token, fleetToken+"\n", 0o600)
	return living, append(flags, "--token", token)
}

// TestFleet sends requests to ten instances. The doctor names the two that don't answer and shows the others.
func TestFleet(t *testing.T) {
	living, flags := serveFleet(t)
	name := func(n int) string { return strings.TrimPrefix(flags[2*n+1], "http://") }
	t.Run("all", func(t *testing.T) { askFleet(t, flags, name) })
	for _, w := range living {
		w.mu.Lock()
		slices.Sort(w.done)
		testkit.Same(t, "forgave 203.0.113.9; pinned 203.0.113.9 to 4", strings.Join(w.done, "; "), "what instance %d did", w.n)
		w.mu.Unlock()
	}
}

func askFleet(t *testing.T, flags []string, name func(int) string) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"top", "--once", "--pane", "overview"}, []string{
			"CPU 16.00 of 32", "30 wait", "tempomat 1.2.3 on 8 of 10 instances", "known       4.00   8.00      -   9.0s      30",
			"! 2 of 10 instances don't answer", "! " + name(5) + ": The backend is down. Start it.", "67 % of it is /slow",
		}},
		{[]string{"top", "--once", "--pane", "keys"}, []string{" 2.00  16.00   -9.00   9.0s  1.0s", " 0.50   1.00       0", "9 of 9"}},
		{[]string{"top", "--once", "--pane", "queue"}, []string{"24 of 336", "instance", name(1)}},
		{nil, []string{"|slash32  9 keys", "   9.00     2.00    16.00        1  203.0.113.9"}},
		{[]string{"--bucket", "slash32", "--sort", "cpu", "--limit", "1"}, []string{"   2.00    16.00        1  203.0.113.9"}},
		{[]string{"explain", "203.0.113.9"}, []string{
			"At " + name(3) + ": One of its requests waits.", "7 instances: Nothing is known about it.", "all workers are busy", "owes 1 CPU-s",
		}},
		{[]string{"explain", "slash32", "203.0.113.9"}, []string{"level    -9\n", "cpu      2\n"}},
		{[]string{"explain", "slash32", "198.51.100.4"}, []string{"cpu      0.5\n"}}, // only one instance knows this key
		{[]string{"forgive", "slash32", "203.0.113.9"}, []string{"8 instances: forgave 203.0.113.9"}},
		{[]string{"pin", "slash32", "203.0.113.9", "--standing", "4"}, []string{": pinned 203.0.113.9 to 4"}},
		{[]string{"pin"}, []string{"   8.00", "at " + name(0) + ", " + name(1)}},
		{[]string{"status"}, []string{
			"Instances differ in the shared secret, by its fingerprint: " + name(6) + ": none; 7 instances: abcd.",
			"Instances differ in the class slash32: " + name(6) + ": share 0.2, burst 30s; ",
			"s ahead of " + name(6), "! " + name(5) + ": The backend is down.", "instances  8 of 10 answer",
		}},
		{[]string{"report", "--hours", "2"}, []string{"8 instances together."}},
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			code, stdout, stderr := call(t, []string{"COLUMNS=250"}, append(slices.Clone(c.args), flags...)...)
			t.Logf("%q answered in %s", c.args, time.Since(began).Round(10*time.Millisecond))
			for _, text := range c.says {
				if !strings.Contains(stdout, text) {
					t.Errorf("nothing says %q:\n%s", text, stdout)
				}
			}
			want := []string{name(7) + ": nothing answers there", name(8) + " didn't answer in time"}
			if code != 1 || strings.Count(stderr, "\n") != len(want) || !strings.Contains(stderr, want[0]) || !strings.Contains(stderr, want[1]) {
				t.Errorf("status %d, %s", code, stderr)
			}
		})
	}
}

// TestFleetIsFound: --fleet selects the instances that one instance knows. Some of these are down or can't be
// reached.
func TestFleetIsFound(t *testing.T) {
	living, flags := serveFleet(t)
	var others []api.Instance
	for n := 3; n < 10; n += 2 {
		others = append(others, api.Instance{Name: fmt.Sprint("web", n), Admin: flags[2*n+1]})
	}
	w := &ward{n: 1, others: append(others, others[0], api.Instance{Name: "web4"})}
	one := serve(t, w.options())
	code, stdout, stderr := call(t, nil, "top", "--once", "--fleet", "--socket", one, flags[20], flags[21])
	if code != 1 || !strings.Contains(stdout, "CPU 8.00 of 16") || !strings.Contains(stdout, "on 4 of 6 instances") || !strings.Contains(stdout, "! web5: The backend is down.") {
		t.Errorf("%d %s", code, stdout)
	}
	if !strings.Contains(stderr, "web4 can't be queried: its admin.web is off") || !strings.Contains(stderr, "can't connect to web7: nothing answers there") {
		t.Error(stderr)
	}
	for says, args := range map[string][]string{
		"coordination.secret is not set": {"--socket", living[0].address}, "give only one --socket": {"--socket", one, "--socket", living[0].address},
	} {
		fails(t, nil, 1, says, append(args, "pin", "--fleet")...)
	}
}

// TestFleetTellsWhatWasRefused: the doctor names an instance that rejects the token. In JSON, each answer contains the
// name of its instance. If no instance answers, there is no output.
func TestFleetTellsWhatWasRefused(t *testing.T) {
	_, flags := serveFleet(t)
	wrong := filepath.Join(t.TempDir(), "wrong")
	testkit.WriteFile(t, wrong, "another", 0o600)
	code, stdout, stderr := call(t, nil, "pin", "--json", "--socket", flags[1]+","+flags[3], "--token", wrong)
	var all []struct {
		Instance string
		Answer   api.PinsReply
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all) != 1 || all[0].Instance != flags[1] || len(all[0].Answer.Pins) != 2 {
		t.Errorf("%v, %s", err, stdout)
	}
	if code != 1 || !strings.Contains(stderr, strings.TrimPrefix(flags[3], "http://")+": the token is wrong") {
		t.Errorf("%d, %s", code, stderr)
	}
	code, stdout, stderr = call(t, nil, "pin", "--socket", flags[3], "--socket", flags[15], "--token", wrong)
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 2 {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	if _, stdout, _ = call(t, nil, "forgive", "slash32", "203.0.113.9", "--socket", flags[1], "--socket", flags[15], flags[20], flags[21]); stdout != flags[1]+": forgave 203.0.113.9\n" {
		t.Errorf("the only instance that answers: %q", stdout)
	}
	fails(t, nil, 1, "/dev/null is empty", "pin", "--socket", flags[3], "--token", "/dev/null")
	fails(t, nil, 1, "--token: open /nowhere", "pin", "--socket", flags[3], "--token", "/nowhere")
}

// TestFleetLive: while an instance doesn't answer, top names this instance and shows the others.
func TestFleetLive(t *testing.T) {
	path := socketPath(t)
	_, flags := serveFleet(t)
	d := &doctor{sockets: []string{flags[1], path}}
	f, err := d.fleet(t.Context())
	testkit.Must(t, err)
	var o api.OverviewReply
	if err := f.Get(t.Context(), "/v1/overview", nil, &o); err != nil || len(o.Conditions) != 1 || o.CPUs != 4 {
		t.Fatalf("%v, %+v", err, o)
	}
	w := &ward{n: 1}
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	serveAt(t, w.options(), (*admin.Server).Serve, l)
	f.mu.Lock()
	f.faults[f.all[1]] = fault{time.Now().Add(-askedAgain), f.faults[f.all[1]].err}
	f.mu.Unlock()
	testkit.Eventually(t, "both are shown", func() bool {
		err := f.Get(t.Context(), "/v1/overview", nil, &o)
		return err == nil && len(o.Conditions) == 0 && o.CPUs == 8 && f.missing() == nil
	})
}

// serveDashboard runs the command until the test ends, and returns the page's URL without the slash at its end.
func serveDashboard(t *testing.T, flags []string) (base string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var stderr testkit.Output
	var running sync.WaitGroup
	running.Go(func() { run(ctx, append(flags, "dashboard", "--listen", "127.0.0.1:0"), io.Discard, &stderr, nil) })
	t.Cleanup(func() { stop(); running.Wait() })
	line, _ := stderr.Await(t, 0, "The dashboard is served at http://")
	_, rest, _ := strings.Cut(line, "http://")
	address, _, _ := strings.Cut(rest, "/")
	return "http://" + address
}

// TestFleetDashboard: the dashboard shows the documents of all instances, names those that don't answer, and forgives
// debts at all of them. It needs the token.
func TestFleetDashboard(t *testing.T) {
	living, flags := serveFleet(t)
	name := func(n int) string { return strings.TrimPrefix(flags[2*n+1], "http://") }
	base := serveDashboard(t, flags)
	ask := func(method, path, token, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		testkit.Must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		testkit.Must(t, err)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	for _, c := range []struct {
		path string
		says []string
	}{
		{"/", []string{"<title>"}},
		{"/v1/access", []string{`"token":true`}},
		{"/v1/overview", []string{"on 8 of 10 instances", `"cpus":32`, "2 of 10 instances don't answer"}},
		{"/v1/shapes?limit=25", []string{`"cpu":8`}},
		{"/v1/classes", []string{`"name":"slash32"`}},
		{"/v1/buckets?class=slash32&sort=cpu&limit=1", []string{`"id":"203.0.113.9"`, `"cpu":2,`}},
		{"/v1/queue?limit=50", []string{`"instance":"` + name(1) + `"`}},
		{"/v1/recent?limit=50", []string{`"rows":`}},
		{"/v1/explain?of=203.0.113.9", []string{"At " + name(3) + ": One of its requests waits."}},
		{"/v1/share", []string{
			`{"name":"` + name(1) + `","well":true,"text":"1.2.3 fair, up 100s, sharing by gossip"}`, name(7) + ": nothing answers there",
			`{"name":"Settings","well":false,"text":"Instances differ in the shared secret`,
		}},
	} {
		status, body := ask("GET", c.path, fleetToken, "")
		for _, text := range c.says {
			if status != 200 || !strings.Contains(body, text) {
				t.Errorf("%s: %d, without %q: %s", c.path, status, text, body)
			}
		}
	}
	if _, body := ask("GET", "/v1/queue?limit=5", fleetToken, ""); strings.Count(body, `"instance":`) != 5 {
		t.Errorf("not the first 5 rows: %s", body)
	}
	if status, body := ask("GET", "/v1/queue", "another", ""); status != 401 {
		t.Errorf("with a wrong token: %d %s", status, body)
	}
	if status, body := ask("POST", "/v1/forgive", fleetToken, `{"class":"slash32","key":"203.0.113.9"}`); status != 200 || !strings.Contains(body, "8 instances: forgave 203.0.113.9") {
		t.Errorf("forgive: %d %s", status, body)
	}
	if status, body := ask("POST", "/v1/forgive", fleetToken, `{"class":"slash32","ky":"203.0.113.9"}`); status != 400 || !strings.Contains(body, "ky") {
		t.Errorf("a misspelt field: %d %s", status, body)
	}
	for _, w := range living {
		w.mu.Lock()
		testkit.Same(t, "forgave 203.0.113.9", strings.Join(w.done, "; "), "what instance %d did", w.n)
		w.mu.Unlock()
	}
}

// TestTheTokenStaysEncrypted: if the first instance is reached over HTTPS, the token is never sent to another instance
// without encryption.
func TestTheTokenStaysEncrypted(t *testing.T) {
	var others []api.Instance
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.ShareReply{Version: api.Version, Known: &others, Instances: others})
	}))
	defer server.Close()
	others = []api.Instance{{Name: "plain", Admin: "http://192.0.2.1:8880"}, {Name: "socket", Admin: "/run/other.sock"}, {Name: "good", Admin: server.URL}}
	token := filepath.Join(t.TempDir(), "token")
	testkit.WriteFile(t, token, fleetToken, 0o600)
	d := &doctor{token: token}
	f := &fleet{timeout: fleetTimeout, faults: make(map[*client]fault)}
	testkit.Must(t, d.add(f, server.URL))
	f.all[0].http = server.Client()
	testkit.Must(t, d.find(t.Context(), f))
	for n, c := range f.all {
		if open := n == 0 || c.name == "good"; open != (c.token != "") || open != (c.closed == nil) {
			t.Errorf("%s has the token: %t, %v", c.name, c.token != "", c.closed)
		}
	}
}
