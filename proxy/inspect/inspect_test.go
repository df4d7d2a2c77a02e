package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// night is a site and its Inspector. Tests set the requests that wait, run or have ended; everything else is
// real.
type night struct {
	*Inspector
	limiter          *limiter.Limiter
	policy           *proxy.Policy
	waiting, running []proxy.Underway
	recent           []api.VerdictRow
	log              *observer.ObservedLogs
}

func newNight(t *testing.T) *night {
	t.Helper()
	classes := []classify.Class{{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24}, {Name: "userAgent", By: classify.UserAgent}}
	classifier := classify.New(classify.Config{Classes: classes, Exempt: []classify.Exemption{{Prefix: netip.MustParsePrefix("192.0.2.200/32")}}})
	standing := standing.New([16]byte{1}, standing.Config{Attested: 4, ClientClass: "slash32", SessionClass: "session"})
	p := limiter.Policy{Mode: limiter.Fair, MaxHold: 30 * time.Second, MaxHeld: 64, Gate: limiter.GateOptions{CPUs: 1, Heavy: 1}}
	for _, c := range classes {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: c.Name, Budget: limiter.Budget{CPUs: 0.1}})
	}
	n := &night{limiter: limiter.New(noon, p, 64, nil), policy: &proxy.Policy{Rules: lifecycle.Rules{Classifier: classifier, Standing: standing}}}
	log, seen := observer.New(zap.InfoLevel)
	n.log = seen
	n.Inspector = &Inspector{
		Requests: n, Ledger: n.limiter, Guess: cpuaccount.NewEstimator(), Pinned: new(classify.Pins), Recent: n.Recent, Log: zap.New(log),
	}
	return n
}

func (n *night) Policy() *proxy.Policy { return n.policy }

func of(all []proxy.Underway, limit int, match func(*proxy.Underway) bool) (rows []proxy.Underway, total int) {
	for i := range all {
		if match == nil || match(&all[i]) {
			rows = append(rows, all[i])
		}
	}
	return rows[:min(len(rows), limit)], len(rows)
}

func (n *night) ListWaiting(_ time.Time, limit int, match func(*proxy.Underway) bool) ([]proxy.Underway, int) {
	return of(n.waiting, limit, match)
}

func (n *night) ListRunning(limit int, match func(*proxy.Underway) bool) ([]proxy.Underway, int) {
	return of(n.running, limit, match)
}

func (n *night) Recent(int) api.RecentReply { return api.RecentReply{Rows: n.recent} }

// asks sends a client's request to the limiter, with a guess of its cost.
func (n *night) asks(address, agent, target string, guess time.Duration) (proxy.Underway, *limiter.Ticket) {
	a := netip.MustParseAddr(address)
	family, keys := n.policy.Classifier.AgentKeys(agent)
	keys = slices.Concat(n.policy.Classifier.NetworkKeys(a), keys)
	x := n.limiter.Arrive(noon, limiter.Arrival{Client: keys[0], Others: keys[1:], Guess: guess, Sure: true, Proven: true})
	path, _, _ := strings.Cut(target, "?")
	return proxy.Underway{
		Client: a, Group: telemetry.Known, Agent: family, Method: "GET", Host: "wiki.example", Target: target, Shape: path, Keys: keys,
		Kind: cpuaccount.Kind{Shape: path, URL: target, Client: address}, Evidence: classify.Parts, Arrived: noon, Guess: guess,
	}, x
}

// besieged returns a site whose only CPU is used by a crawler. The crawler is in debt, and a person waits.
func besieged(t *testing.T) *night {
	n := newNight(t)
	_, x := n.asks("203.0.113.9", "evilbot/1.0", "/history?page=1", time.Second)
	n.limiter.Settle(noon, x, 3*time.Second)
	n.limiter.Leave(noon, x)
	first, _ := n.asks("203.0.113.9", "evilbot/1.0", "/history?page=2", time.Second)
	n.running = append(n.running, first)
	var waiting []*limiter.Ticket
	for _, address := range []string{"203.0.113.9", "192.0.2.1"} {
		u, w := n.asks(address, "evilbot/1.0", "/history?page=3", time.Second)
		n.waiting, waiting = append(n.waiting, u), append(waiting, w)
	}
	for i, o := range n.limiter.Outlooks(noon.Add(2*time.Second), waiting) {
		n.waiting[i].Outlook = o
	}
	return n
}

func TestExplain(t *testing.T) {
	n := besieged(t)
	shaped, _ := n.asks("192.0.2.77", "Firefox/140.0", "/w?x=1&y=2", time.Second)
	shaped.Shape, shaped.Kind.Shape = "/w?x&y", "/w?x&y"
	shaped.Outlook = limiter.Outlook{Waits: true, Before: 3}
	n.waiting = append(n.waiting, shaped)
	n.recent = []api.VerdictRow{
		{ID: "5f0c9a1e", Client: "203.0.113.9", Agent: "evilbot", URL: "/history?page=0", Outcome: "refused", Status: 429, Reason: "debt", Class: "slash24", Key: "203.0.113.0/24", Waited: 2},
		{ID: "5f0c9a1f", Client: "2001:db8::8", URL: "/y", Outcome: "redirected", Status: 307, Reason: "newcomer", Waited: 2},
		{ID: "given/1", Client: "2001:db8::7", URL: "/x", Outcome: "refused", Status: 503, Reason: "busy", At: float64(noon.Unix() - 2)},
	}
	for what, c := range map[string]struct {
		kind            string
		waiting, recent int
		says            []string // parts of the summary, facts and advice
	}{
		"203.0.113.9": {"address", 1, 1, []string{
			"One of its requests has been waiting for 2.0 s: the CPUs are busy: 1 of at most 1 requests of up to 1.6 s are computing; 1 request goes before it.",
			"at the backend: 1 request", "slash32 203.0.113.9: owes ", "slash24 203.0.113.0/24: owes ", "likely cost: ",
			"tempomat-doctor forgive slash32 203.0.113.9\n", "tempomat-doctor pin slash32 203.0.113.9\n",
		}},
		"192.0.2.1":                          {"address", 1, 0, []string{"; it is next among requests of its size."}},
		"::ffff:192.0.2.1":                   {"address", 1, 0, []string{"; it is next among requests of its size."}},
		"203.0.113.0/24":                     {"network", 1, 1, []string{"slash24 203.0.113.0/24: owes "}},
		"203.0.0.0/16":                       {"network", 1, 1, []string{"One of its requests has been waiting for"}},
		"evilbot/2.0":                        {"agent", 2, 1, []string{"2 of its requests are waiting, the first for 2.0 s. The next one to go is waiting because the CPUs are busy: 1 of at most 1 requests of up to 1.6 s are computing; it is next among requests of its size."}},
		"/history":                           {"page", 2, 1, []string{"2 of its requests are waiting", "It is only a guess: no such page was requested recently."}},
		"/w?x&y":                             {"page", 1, 0, []string{"One of its requests has been waiting for", "URL: /w?x=1&y=2", "shape: /w?x&y"}},
		"http://wiki.example/history?page=3": {"page", 2, 0, []string{"2 of its requests are waiting"}},
		"http://other.example/history":       {"page", 0, 0, []string{"Nothing is known about http://other.example/history: no such page was requested recently"}},
		"5f0c9a1e":                           {"request", 0, 1, []string{"It has ended: it was refused (status 429), after it had waited for 2.0 s. Why: slash24 203.0.113.0/24 owed more than allowed."}},
		"5f0c9a1f":                           {"request", 0, 1, []string{"It has ended: it was redirected and got a pass to come back with (status 307), after it had waited for 2.0 s. Why: the backend had no room for it, and its client was unknown"}},
		"given/1":                            {"request", 0, 1, []string{"It has ended"}},
		"2001:db8::7": {"address", 0, 1, []string{
			"None of its requests is waiting or running, and it owes nothing. Of its requests that failed, waited long, or were refused or redirected, the latest ended 4.0 s ago: it was refused (status 503). Why: the backend had no room for it.",
		}},
		"00000000":       {"request", 0, 0, []string{"Nothing is known about 00000000: it is not waiting or running", "-g 00000000"}},
		"198.51.100.1":   {"address", 0, 0, []string{"Nothing is known about 198.51.100.1: it sent no request recently"}},
		"198.51.0.0/16":  {"network", 0, 0, []string{"Nothing is known about 198.51.0.0/16"}},
		"NobodysBrowser": {"agent", 0, 0, []string{"Nothing is known about NobodysBrowser: no such program was seen recently"}},
		"192.0.2.200":    {"address", 0, 0, []string{"counts as: exempt: The configuration exempts it"}},
	} {
		e, err := n.Explain(noon.Add(2*time.Second), what)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if e.Kind != c.kind || len(e.Waiting) != c.waiting || len(e.Recent) != c.recent || e.Of != what {
			t.Errorf("%s: %+v", what, e)
		}
		text := flat(e)
		for _, says := range c.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s: nothing is said of %q in\n%s", what, says, text)
			}
		}
	}
	for what, says := range map[string]string{"": "of: empty", " ": "of: empty", strings.Repeat("a", 2049): "at most 2048"} {
		if _, err := n.Explain(noon, what); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v, want %q", what, err, says)
		}
	}
}

// flat joins an explanation into one text.
func flat(e api.ExplainReply) string {
	var b strings.Builder
	b.WriteString(e.Summary + "\n")
	for _, s := range e.Sections {
		for _, f := range s.Facts {
			b.WriteString(f.Name + ": " + f.Value + ": " + f.Means + "\n")
		}
	}
	return b.String() + strings.Join(e.Advice, "\n")
}

// TestFormIsExplained: the cost of a page to which clients only send something is known.
func TestFormIsExplained(t *testing.T) {
	n := newNight(t)
	for i := range 3 {
		n.Guess.Learn(noon, cpuaccount.Kind{Shape: "/xmlrpc.php", URL: "/xmlrpc.php", Client: fmt.Sprint(i), Sends: true}, time.Second, 0)
	}
	if e, err := n.Explain(noon, "/xmlrpc.php"); err != nil || !strings.Contains(flat(e), "Based on 3 answers to similar requests.") {
		t.Errorf("%v, %s", err, flat(e))
	}
}

// TestForgivenIsExplained: the explanation shows the effects of forgive and pin.
func TestForgivenIsExplained(t *testing.T) {
	n := besieged(t)
	at := noon.Add(2 * time.Second)
	_, err := n.Forgive(at, "uid 0", api.ActRequest{Class: "slash32", Key: "203.0.113.9"})
	testkit.Must(t, err)
	e, err := n.Explain(at, "203.0.113.9")
	if text := flat(e); err != nil || strings.Contains(text, "slash32 203.0.113.9: owes") || strings.Contains(text, "forgive slash32") {
		t.Errorf("%v: it still owes in\n%s", err, text)
	}
	_, err = n.Pin(at, "uid 0", api.ActRequest{Class: "slash32", Key: "203.0.113.9", Standing: 4, Seconds: 60})
	testkit.Must(t, err)
	if e, err = n.Explain(at, "203.0.113.9"); err != nil || !strings.Contains(flat(e), "counts as: pinned: An administrator has multiplied its share by 4, for another 60.0 s.") {
		t.Errorf("%v: nothing is said of the pin in\n%s", err, flat(e))
	}
	if pins := n.Pins(at); len(pins.Pins) != 1 || pins.Pins[0] != (api.PinRow{Class: "slash32", Key: "203.0.113.9", Standing: 4, Left: 60}) {
		t.Errorf("pins %+v", pins)
	}
	for i, want := range []string{"forgave a debt", "set a pin"} {
		if line := n.log.All()[i]; line.Message != want || line.ContextMap()["by"] != "uid 0" || line.ContextMap()["key"] != "203.0.113.9" {
			t.Errorf("line %d of the log: %v", i, line)
		}
	}
	for says, do := range map[string]func() (api.ActReply, error){
		"forgive takes class": func() (api.ActReply, error) {
			return n.Forgive(at, "", api.ActRequest{Class: "slash32", Key: "192.0.2.7", Seconds: 1})
		},
		"at most 256": func() (api.ActReply, error) {
			return n.Pin(at, "", api.ActRequest{Class: "slash32", Key: strings.Repeat("a", 257)})
		},
		"it must be 0.5 to 8, or 0 to remove a pin; seconds: a pin must last": func() (api.ActReply, error) {
			return n.Pin(at, "", api.ActRequest{Class: "slash32", Key: "192.0.2.7", Standing: 9, Seconds: 1e7})
		},
		"604800 s (a week)": func() (api.ActReply, error) {
			return n.Pin(at, "", api.ActRequest{Class: "slash32", Key: "192.0.2.7", Standing: 8, Seconds: 1e300})
		},
		`no pin for slash32 "192.0.2.7"`: func() (api.ActReply, error) { return n.Pin(at, "", api.ActRequest{Class: "slash32", Key: "192.0.2.7"}) },
	} {
		if _, err := do(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if reply, err := n.Forgive(at, "", api.ActRequest{Class: "slash32", Key: "192.0.2.7"}); err != nil || !strings.Contains(reply.Done, "owes nothing: it was not charged") {
		t.Errorf("%+v, %v", reply, err)
	}
	for key, says := range map[string]string{"nobody": `"nobody" is neither an address nor a network`, "2001:db8::7": "2001:db8::/64 has a standing"} {
		reply, err := n.Pin(at, "uid 0", api.ActRequest{Class: "slash32", Key: key, Standing: 2, Seconds: 60})
		if text := fmt.Sprint(reply.Done, err); !strings.Contains(text, says) {
			t.Errorf("%s: %s, want %q", key, text, says)
		}
	}
	testkit.Same(t, 2+1, n.log.Len(), "lines logged, none of an action that failed")
}

// TestAdviceCanBeCopied: in advice, a text that a client chose is a single word for the shell.
func TestAdviceCanBeCopied(t *testing.T) {
	for s, want := range map[string]string{
		"203.0.113.9": "203.0.113.9", "2001:db8::/64": "2001:db8::/64", "": "''", "a b": "'a b'", "$(reboot)": "'$(reboot)'", "it's`x`": `'it'\''s` + "`x`'",
	} {
		testkit.Same(t, want, shellWord(s), "%q", s)
	}
}

// TestQueue checks the document that lists waiting requests.
func TestQueue(t *testing.T) {
	n := besieged(t)
	q := n.Queue(noon.Add(2*time.Second), 1)
	if q.Total != 2 || len(q.Rows) != 1 {
		t.Fatalf("got %+v", q)
	}
	r := q.Rows[0]
	if r.Client != "203.0.113.9" || r.Group != "known" || r.Agent != "evilbot" || r.URL != "/history?page=3" || r.Age != 2 || !r.Sure || r.Before != 1 || r.Why == "" {
		t.Errorf("got %+v", r)
	}
	n.waiting[0].Outlook = limiter.Outlook{Before: -1}
	if r := n.Queue(noon, 1).Rows[0]; r.Before != 0 || r.Why != "it was just let through" {
		t.Errorf("of one that was let go: %+v", r)
	}
}

// TestAClientIsOneThing: an explanation says only once what an address counts as, with the evidence of the same
// requests.
func TestAClientIsOneThing(t *testing.T) {
	const address = "203.0.113.9"
	request := func(g telemetry.Group, of classify.Evidence) proxy.Underway {
		return proxy.Underway{Client: netip.MustParseAddr(address), Group: g, Evidence: of}
	}
	for name, c := range map[string]struct {
		meets   func(*night)
		running []proxy.Underway
		want    string
		trusted bool
	}{
		"a stranger":                   {nil, []proxy.Underway{request(telemetry.Stranger, 0)}, "counts as: a stranger: ", true},
		"a known one, new to the gate": {nil, []proxy.Underway{request(telemetry.Known, classify.Cookie)}, "counts as: a known client: It has a turn of its own, because it brings back the site's cookies.", true},
		"a robot":                      {nil, []proxy.Underway{request(telemetry.Robot, 0)}, "counts as: a robot: ", true},
		"several": {nil, []proxy.Underway{request(telemetry.Known, classify.Cookie), request(telemetry.Stranger, 0)},
			"counts as: several clients: Its current requests count as: 1 known, 1 strangers.", true},
		"pinned": {func(n *night) {
			_, _ = n.Pin(noon, "uid 0", api.ActRequest{Class: "slash32", Key: address, Standing: 4, Seconds: 60})
		}, []proxy.Underway{request(telemetry.Stranger, 0)}, "counts as: pinned: ", true},
		"only at the gate": {nil, nil, "counts as: a stranger: ", true},
		"trusted": {func(n *night) {
			n.policy.Standing.Configure(standing.Config{Attested: 4, ClientClass: "slash32", Trusted: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}})
		}, nil, "counts as: a known client: It has a turn of its own, because the site, the configuration or a pin vouches for it.", false},
		"known by its past": {func(n *night) {
			n.recent = []api.VerdictRow{{Client: address, Group: "known", Outcome: "refused", Status: 429}}
		}, nil, "counts as: a known client: ", true},
	} {
		n := newNight(t)
		_, x := n.asks(address, "Firefox/140.0", "/a", 200*time.Second)
		n.limiter.Settle(noon, x, 200*time.Second) // the client is now in debt, and a stranger to the queue
		n.limiter.Leave(noon, x)
		n.running = c.running
		if c.meets != nil {
			c.meets(n)
		}
		e, err := n.Explain(noon, address)
		text := flat(e)
		if err != nil || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v: no %q in\n%s", name, err, c.want, text)
		}
		told := 0
		for _, s := range e.Sections {
			for _, f := range s.Facts {
				if slices.Contains([]string{"counts as", "group", "known", "exempt", "pinned"}, f.Name) {
					told++
				}
			}
		}
		testkit.Same(t, 1, told, "%s: how often it is told what it counts as, in\n%s", name, text)
		advice := strings.Join(e.Advice, "\n")
		if strings.Contains(advice, "standing.trusted") != c.trusted || strings.Contains(advice, "exempt") {
			t.Errorf("%s: advice\n%s", name, advice)
		}
	}
}

// TestExplainStaysShort: if many requests wait, the explanation lists the first and shows the total number.
// Similar verdicts share a row.
func TestExplainStaysShort(t *testing.T) {
	n := newNight(t)
	for i := range 40 {
		u, _ := n.asks("203.0.113.9", "evilbot/1.0", "/history", time.Second)
		u.Outlook = limiter.Outlook{Waits: true, Before: i}
		n.waiting = append(n.waiting, u)
	}
	for i := range 200 {
		n.recent = append(n.recent, api.VerdictRow{Client: fmt.Sprintf("203.0.113.%d", 9+i%3), Agent: "evilbot", Shape: "/history", URL: fmt.Sprint("/history?", i), Outcome: "redirected", Status: 307, Reason: "newcomer", Waited: float64(i)})
	}
	n.recent[150].Outcome, n.recent[150].Status = "refused", 503
	e, err := n.Explain(noon, "evilbot/1.0")
	if err != nil || e.Waits != 40 || len(e.Waiting) != mostListed {
		t.Errorf("%v: %d wait, %d are listed, advice %q", err, e.Waits, len(e.Waiting), e.Advice)
	}
	if len(e.Recent) != 2 || e.Recent[0].Times != 199 || e.Recent[0].Clients != 3 || e.Recent[0].Waited != 199 || e.Recent[0].URL != "/history?0" || e.Recent[1].Times != 1 {
		t.Errorf("recent: %+v", e.Recent)
	}
}

// TestWhy checks the words for each barrier.
func TestWhy(t *testing.T) {
	key := limiter.Key{Class: "slash32", ID: "192.0.2.1"}
	for want, o := range map[string]limiter.Outlook{
		"slash32 192.0.2.1 owes CPU time; the debt is paid in about 1.5 s":                  {Barrier: limiter.Owes, Key: key, Paid: 1500 * time.Millisecond},
		"1 request of the same client goes first":                                           {Barrier: limiter.BehindOwn, Have: 1},
		"2 requests of the same client go first":                                            {Barrier: limiter.BehindOwn, Have: 2},
		"slash32 192.0.2.1 holds its part of the workers: 5 of 6":                           {Barrier: limiter.KeyHolds, Key: key, Have: 5, Most: 6},
		"strangers hold their part of the workers: 5 of 6":                                  {Barrier: limiter.StrangersHold, Have: 5, Most: 6},
		"requests that turned out to be long hold the workers that are kept for short ones": {Barrier: limiter.Misjudged},
		"the site others has had its share of the CPUs, and other sites go first":           {Barrier: limiter.SiteAhead},
		"the CPUs are busy: 2 of at most 3 requests of up to 400 ms are computing":          {Barrier: limiter.NoRoom, Size: 400 * time.Millisecond, Have: 2, Most: 3},
		"the CPUs are busy: 2 of at most 3 requests of any size are computing":              {Barrier: limiter.NoRoom, Have: 2, Most: 3},
		"its client has used 1.5 CPU-seconds more than its share, and the free CPUs are kept for clients that used less: 2 of at most 3 requests of up to 1.6 s are computing": {Barrier: limiter.RoomForOthers, Lead: 1.5, Have: 2, Most: 3, Size: 1600 * time.Millisecond},
		"the free workers are kept for shorter requests: 5 of 6 are held by requests that are as long or longer":                                                               {Barrier: limiter.NoWorker, Have: 5, Most: 6},
		"the free workers are kept for shorter requests: 6 of 6 are held by requests that are as long or longer":                                                               {Barrier: limiter.NoWorker, Have: 6, Most: 6, Size: lightest + 1},
		"all workers are busy: 6 of 6": {Barrier: limiter.NoWorker, Have: 6, Most: 6, Size: lightest},
		"the cost of its page is unknown, and such requests are tried one at a time": {Barrier: limiter.CostUnknown},
		"strangers share one turn, and other requests leave no CPU for a long one":   {Barrier: limiter.LeavesCPU, Stranger: true},
		"strangers share one turn, and other strangers go first":                     {Barrier: limiter.Turn, Stranger: true},
		"clients that used less, or came earlier, go first":                          {Barrier: limiter.Turn},
		"": {},
	} {
		if got, _ := reason(&o); got != want {
			t.Errorf("%d: %q, want %q", o.Barrier, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		25 * time.Millisecond: "25 ms", time.Second - 1: "1000 ms", time.Second: "1.0 s", 99 * time.Second: "99.0 s",
		100 * time.Second: "2 min", 99 * time.Minute: "99 min", 100 * time.Minute: "2 h", 36 * time.Hour: "36 h",
	} {
		testkit.Same(t, want, spanOf(d), "%v", d)
	}
}
