package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry/telemetrytest"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

func TestMain(m *testing.M) {
	if os.Getenv(asDoctor) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// newLedger returns accounts: classes with few, many, hostile and no keys.
func newLedger() telemetrytest.Ledger {
	l := telemetrytest.Ledger{ClassList: []limiter.ClassInfo{{Name: "slash32"}, {Name: "slash24"}, {Name: "slash16"}, {Name: "userAgent"}}, Rows: []limiter.Row{
		{Class: "slash32", ID: "203.0.113.9", Level: -4.25, Wait: 0.734, CPU: 0.404, Rate: 1.5, Last: 0.4, Running: 2, Waiting: 4, Paid: 42.5, Holds: 2, Orphans: 1,
			Client: &limiter.ClientRow{Known: true, Standing: 4, Lead: 1.25}},
		{Class: "slash32", ID: "198.51.100.77", Level: 12, CPU: 0.031, Rate: 0.25, Last: 42.5,
			Client: &limiter.ClientRow{Standing: 0.5}},
		{Class: "slash32", ID: "2001:db8:1:2::/64", Level: 11, CPU: 0.031, Rate: 0.2, Last: 7},
		{Class: "userAgent", ID: "\x1b]0;owned\a\x1b[2J\u009b31m\u202egpj.\r\nSlash32", Level: 1, Wait: 12345.678, CPU: 3, Rate: 98765.4321, Last: 1},
		{Class: "userAgent", ID: `say "friend" \o/ 検索エンジン収集ロボット` + strings.Repeat(" and enter", 8), Wait: 2, CPU: 0.5, Rate: 4, Last: 3},
		{Class: "userAgent", ID: "", Wait: 1, CPU: 0.5, Rate: 4, Last: 86_400},
	}}
	for i := range 60 {
		l.Rows = append(l.Rows, limiter.Row{Class: "slash24", ID: fmt.Sprintf("10.0.%d.0/24", i), Wait: float64(60-i) / 10, CPU: 1, Rate: float64(i)})
	}
	return l
}

// kernelHelp reports a missing feature, with a description from a malicious proxy.
func kernelHelp() api.Kernel {
	return api.Kernel{
		Seconds: 65, Lowered: 2,
		Costs:   []api.CostRow{{Source: "process", CPU: 12.345, Requests: 12345}, {Source: "database", CPU: 4.5}, {Source: "header", Requests: 1}, {Source: "estimate", CPU: 3, Requests: 99}},
		Stepped: []api.StepRow{{Below: 5, Steps: 1200}, {Below: 10, Steps: 30}, {Below: 20}},
		Missing: []api.MissingRow{
			{For: "costs", What: "the right is missing (CAP_SYS_PTRACE)", Remedy: "grant it (docs/exact-costs.md)"},
			{For: "priority", What: "owned\x1b[2J\nby nobody"},
		},
	}
}

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string { return filepath.Join(testkit.ShortDir(t), "admin.sock") }

// serve runs a real admin API on a socket until the test ends.
func serve(t *testing.T, o admin.Options) (path string) {
	t.Helper()
	path = socketPath(t)
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	serveAt(t, o, (*admin.Server).Serve, l)
	return path
}

func serveAt(t *testing.T, o admin.Options, serve func(*admin.Server, net.Listener) error, l net.Listener) {
	t.Helper()
	o.Proof, o.Waiting, o.Log = func(limiter.Key) string { return "" }, func() []string { return nil }, zap.NewNop()
	if o.Kernel == nil {
		o.Kernel = func() api.Kernel { return api.Kernel{} }
	}
	if o.Access == nil {
		o.Access = new(admin.Access)
	}
	if o.Inside.Overview == nil {
		o.Inside.Overview = func() api.OverviewReply { return api.OverviewReply{Conditions: []api.Condition{}} }
	}
	a, served := admin.New(o), make(chan error, 1)
	go func() { served <- serve(a, l) }()
	t.Cleanup(func() {
		if err := errors.Join(a.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
}

// adminNow is the admin API's clock.
var adminNow = time.Unix(1_000_000, 0).Add(100 * time.Minute)

// serveAdmin runs an admin API with most of the documents.
func serveAdmin(t *testing.T, reload func() error) (path string) {
	t.Helper()
	return serve(t, admin.Options{
		Ledger: newLedger(),
		Now:    func() time.Time { return adminNow },
		Status: func() api.StatusReply {
			return api.StatusReply{Release: "1.2.3", Uptime: 6000, Mode: "cooperative", Held: 4,
				Buffer:   spool.Stats{Memory: 1<<20 + 200<<10, Disk: 340 << 20, Files: 12, Spools: 31, NoAddress: 3},
				Counters: map[string]uint64{"requests": 1234, "delayed": 56}}
		},
		Gate:   func() limiter.GateState { return limiter.GateState{Workers: 16, Busy: 9} },
		Kernel: kernelHelp,
		Share:  func() api.ShareReply { return api.ShareReply{Kind: "none"} },
		Inside: admin.Inside{Overview: func() api.OverviewReply {
			return api.OverviewReply{Conditions: []api.Condition{{Name: "backend-down", Bad: true, What: "The backend is down.", Do: "Start it."}}}
		}},
		Ready:     func() error { return nil },
		Reload:    reload,
		Inspector: night{},
	})
}

// call runs the doctor and returns its exit status and output.
func call(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs, env)
	return code, out.String(), errs.String()
}

// fails runs the doctor with arguments that must fail. It must print only the reason, and return the given status.
func fails(t *testing.T, env []string, status int, why string, args ...string) {
	t.Helper()
	code, stdout, stderr := call(t, env, args...)
	if code != status || !strings.Contains(stderr, why) || stdout != "" {
		t.Errorf("%q: status %d, stdout %q, stderr %q; want %d and %q", args, code, stdout, stderr, status, why)
	}
}

// golden compares the output with a file in testdata/doctor.
func golden(t *testing.T, name, got string) {
	t.Helper()
	testkit.Golden(t, *update, filepath.Join("..", "..", "testdata", "doctor", name), got)
}

func TestGoldens(t *testing.T) {
	path := serveAdmin(t, func() error { return nil })
	for _, c := range []struct {
		golden string
		env    []string
		args   []string
	}{
		{"all.golden", nil, nil},
		{"all-80.golden", []string{"COLUMNS=80"}, nil},
		{"all-sort-cpu-limit-2.golden", nil, []string{"--sort", "cpu", "--limit=2"}},
		{"bucket.golden", []string{"COLUMNS=-3"}, []string{"--bucket", "Slash24"}},
		{"bucket-userAgent-60.golden", []string{"COLUMNS=60"}, []string{"--class=useragent"}},
		{"bucket-empty.golden", []string{"COLUMNS=wide"}, []string{"--class", "slash16"}},
		{"bucket-json.golden", nil, []string{"--bucket", "userAgent", "--json"}},
		{"key.golden", nil, []string{"explain", "Slash32", "203.0.113.9"}},
		{"key-stranger.golden", nil, []string{"explain", "slash32", "198.51.100.77"}},
		{"key-json.golden", nil, []string{"explain", "Slash32", "203.0.113.9", "--json"}},
		{"status.golden", nil, []string{"status"}},
		{"queue-json.golden", nil, []string{"top", "--pane", "queue", "--json"}},
		{"explain.golden", nil, []string{"explain", "203.0.113.9"}},
		{"explain-60.golden", []string{"COLUMNS=60"}, []string{"explain", "203.0.113.9"}},
		{"explain-json.golden", nil, []string{"explain", "198.51.100.1", "--json"}},
		{"explain-unknown.golden", nil, []string{"explain", "198.51.100.1"}},
		{"forgive.golden", nil, []string{"forgive", "Slash32", "203.0.113.9"}},
		{"pin.golden", nil, []string{"pin", "slash32", "203.0.113.9", "--standing", "4", "--for", "90m"}},
		{"pin-off.golden", nil, []string{"pin", "slash32", "203.0.113.9", "--off"}},
		{"pin-json.golden", nil, []string{"pin", "slash32", "203.0.113.9", "--json"}},
		{"pins.golden", nil, []string{"pin"}},
		{"pins-json.golden", nil, []string{"pin", "--json"}},
		{"reload.golden", nil, []string{"reload"}},
	} {
		code, stdout, stderr := call(t, c.env, append(c.args, "--socket", path)...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: status %d, stderr %q", c.golden, code, stderr)
		}
		golden(t, c.golden, stdout)
	}
}

func TestSocketIsFoundByFlagAndEnvironment(t *testing.T) {
	path := serveAdmin(t, nil)
	env := []string{listenVariable + "=unix:" + path}
	wrong := []string{listenVariable + "=unix:/nowhere/admin.sock"}
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{env, []string{"status"}},
		{[]string{listenVariable + "=" + path}, []string{"status"}},
		{wrong, []string{"status", "--socket", path}},
		{wrong, []string{"--socket=unix:" + path, "status"}},
		{nil, []string{"-socket", path, "-bucket", "Slash16"}}, // with a single hyphen, like the flags of the original program
	} {
		if code, _, stderr := call(t, c.env, c.args...); code != 0 {
			t.Errorf("%q %q: status %d, %s", c.env, c.args, code, stderr)
		}
	}
}

// TestShare: status prints the document of any kind of sharing line by line. Names that peers chose can't
// control the terminal.
func TestShare(t *testing.T) {
	path := serveOther(t, 200, `{"version":1,"kind":"other\u001b[2J","trouble":"no route\r\n","state":{
		"name":"b","sent":123456789,"rate":0.25,"nothing":null,"empty":[],"domains":["a","\u001b]0;owned\u0007"],
		"peers":[{"name":"x\u202e","live":true},{"name":"y","live":false}],"deep":[1,[2]]}}`)
	code, stdout, stderr := call(t, nil, "status", "--socket", path)
	const want = `sharing               other\x1b[2J
trouble       no route\r\n
deep.1        1
deep.2.1      2
domains       a, \x1b]0;owned\a
empty         none
name          b
peers.1.live  true
peers.1.name  x\u202e
peers.2.live  false
peers.2.name  y
rate          0.25
sent          123456789
`
	plain := regexp.MustCompile(` {2,}`).ReplaceAllString(stdout, "  ")
	for line := range strings.Lines(want) {
		if !strings.Contains(plain, regexp.MustCompile(` {2,}`).ReplaceAllString(line, "  ")) {
			t.Errorf("status %d, stderr %q: no %q in\n%s", code, stderr, line, stdout)
		}
	}
}

// hostile is a text that a client may choose.
const hostile = "\x1b]0;owned\a\x1b[2J\u009b31m\u202e<b>&\r\nx"

// night is an Inspector with waiting requests, some of which have hostile texts.
type night struct{}

func (night) Queue(_ time.Time, limit int) api.QueueReply {
	rows := []api.WaiterRow{
		{Client: "203.0.113.9", Group: "robots", Agent: "gptbot", Method: "GET", Host: "wiki.example", URL: "/index.php?title=X&action=history",
			Shape: "/index.*?title&action", Age: 12.34, Guess: 0.41, Sure: true, Before: 3, Why: "2 of its client's own requests of its size go first"},
		{Client: "2001:db8:1:2::3", Group: "strangers", Agent: hostile, Method: "POST", Host: hostile, URL: "/" + hostile,
			Age: 0.5, Guess: 0.05, Before: 0, Why: "the cost of its page is unknown, and only one such request is tried at a time"},
		{Client: "198.51.100.77", Group: "known", Method: "GET", URL: "/w/" + strings.Repeat("long", 60), Age: 0.1, Guess: 0.02, Sure: true, Before: -1,
			Why: "as many requests of up to 400 ms compute as may: 2 of 2"},
	}
	if limit == 1 {
		return api.QueueReply{Version: api.Version, Rows: []api.WaiterRow{}}
	}
	return api.QueueReply{Version: api.Version, Total: 42, Rows: rows}
}

func (n night) Explain(now time.Time, of string) (api.ExplainReply, error) {
	e := api.ExplainReply{Version: api.Version, Of: of, Kind: "address", Sections: []api.ExplainSection{}, Advice: []string{},
		Waiting: []api.WaiterRow{}, Recent: []api.VerdictRow{}}
	switch of {
	case "":
		return e, errors.New("of: nothing is asked for")
	case "198.51.100.1":
		e.Summary = "Nothing is known about " + of + ": it asked for nothing lately."
		return e, nil
	}
	e.Summary = "3 of its requests are waiting, the first for 12.3 s: 2 of its client's own requests of its size go first; 3 go before it."
	e.Sections = []api.ExplainSection{
		{Title: "Accounts", Facts: []api.ExplainFact{
			{Name: "slash32 203.0.113.9", Value: "owes 4.25 CPU-s, paid in 42.5 s", Means: "Its requests that ended recently used 0.40 CPUs, at 1.5 requests per second. Its share is 0.20 CPUs."},
			{Name: "userAgent " + hostile, Value: "not known", Means: "it was not charged recently: it owes nothing"},
		}},
		{Title: "As a client", Facts: []api.ExplainFact{{Name: "known", Value: "yes"}}},
	}
	e.Advice = []string{"The debt of slash32 203.0.113.9 is paid in 42.5 s if it asks for nothing more; to take it away: tempomat-doctor forgive slash32 203.0.113.9."}
	e.Waiting = n.Queue(now, 100).Rows[:2]
	e.Recent = []api.VerdictRow{{At: 1_000_000, ID: "5f0c9a1e", Client: of, Method: "GET", URL: "/" + hostile, Status: 429, Outcome: "refused", Reason: "debt",
		Class: "slash32", Key: of, Waited: 30}}
	return e, nil
}

func (night) Forgive(_ time.Time, _ string, a api.ActRequest) (api.ActReply, error) {
	return api.ActReply{Version: api.Version, Done: fmt.Sprintf("%s %s owes nothing now; it owed 4.25 CPU-s.", a.Class, a.Key)}, nil
}

func (night) Pin(_ time.Time, _ string, a api.ActRequest) (api.ActReply, error) {
	if a.Standing > 8 {
		return api.ActReply{}, errors.New("standing: 9; it must be 0.5 to 8, or 0 to remove a pin")
	}
	return api.ActReply{Version: api.Version, Done: fmt.Sprintf("%s %s: standing %g for %g s.", a.Class, a.Key, a.Standing, a.Seconds)}, nil
}

func (night) Pins(time.Time) api.PinsReply {
	return api.PinsReply{Version: api.Version, Pins: []api.PinRow{
		{Class: "slash32", Key: "203.0.113.9", Standing: 8, Left: 3599}, {Class: "userAgent", Key: hostile, Standing: 0.5, Left: 1},
	}}
}

// TestActsThatAreNotAllowed: the doctor prints why an action isn't allowed, and its exit status isn't 0.
func TestActsThatAreNotAllowed(t *testing.T) {
	path := serveAdmin(t, nil)
	for says, c := range map[string]struct {
		code int
		args []string
	}{
		"standing: 9; it must be 0.5 to 8":                                 {1, []string{"pin", "slash32", "192.0.2.1", "--standing", "9"}},
		"--standing: 0 is not allowed; use 0.5 to 8":                       {1, []string{"pin", "slash32", "192.0.2.1", "--standing", "0"}},
		"--off removes a pin":                                              {1, []string{"pin", "slash32", "192.0.2.1", "--off", "--for", "1h"}},
		"an argument is missing. Usage: tempomat-doctor forgive CLASS KEY": {2, []string{"forgive", "slash32"}},
		"of: nothing is asked for":                                         {1, []string{"explain", ""}},
		`--for: "soon" is not a duration, such as 90s or 1h`:               {2, []string{"pin", "slash32", "192.0.2.1", "--for", "soon"}},
	} {
		fails(t, nil, c.code, says, append(c.args, "--socket", path)...)
	}
}
