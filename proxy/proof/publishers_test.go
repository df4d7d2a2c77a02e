package proof

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/classify/robots"
	"tempomat/internal/testkit"
)

// publisher is a server of robots' operators. Tests set its answers by path.
type publisher struct {
	*httptest.Server
	answers map[string]http.HandlerFunc
	mu      sync.Mutex // guards asked
	asked   []string   // paths, with the ETag of the request
}

// newPublisher makes a publisher of twenty networks for each of the lists a, b and c.
func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{answers: make(map[string]http.HandlerFunc)}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("If-None-Match")))
		p.mu.Unlock()
		p.answers[r.URL.Path](w, r)
	}))
	for i, path := range []string{"/a", "/b", "/c"} {
		p.answers[path] = list(networks(i, 20)...)
	}
	t.Cleanup(p.Close)
	return p
}

// list answers with a list of networks.
func list(networks ...string) http.HandlerFunc {
	var b strings.Builder
	for i, n := range networks {
		fmt.Fprintf(&b, `%s{"ipv4Prefix": %q}`, map[bool]string{true: ", "}[i > 0], n)
	}
	return text(`{"creationTime": "2026-11-01", "prefixes": [` + b.String() + `]}`)
}

// networks returns n networks of the form 203.0.x.0/28.
func networks(second, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("203.%d.%d.%d/28", second, i/16, i%16*16))
	}
	return all
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s)) }
}

// asking returns Publishers that fetch the lists of three robots, two of which have the same operator.
func (p *publisher) asking(t *testing.T) (*Publishers, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	x := NewPublishers(p.Client().Transport, zap.New(core))
	x.Ask(p.robots())
	return x, logs
}

func (p *publisher) robots() []robots.Robot {
	return []robots.Robot{
		{Name: "a", Operator: "A", Lists: []string{p.URL + "/a"}},
		{Name: "b", Operator: "A", Lists: []string{p.URL + "/b"}},
		{Name: "c", Operator: "C", Lists: []string{p.URL + "/c"}},
		{Name: "own", Operator: "D", Lists: []string{p.URL + "/d"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}
}

// lengths returns the number of known prefixes of each list.
func (p *publisher) lengths(x *Publishers) string {
	var b strings.Builder
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		fmt.Fprintf(&b, "%d ", len(x.Lists().Of(p.URL+path).Prefixes))
	}
	return strings.TrimSpace(b.String())
}

// noon is the time of the first request for the lists.
func noon() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

// TestRefresh: a list is fetched every few hours with its ETag, and survives a restart.
func TestRefresh(t *testing.T) {
	p := newPublisher(t)
	for path, serve := range maps.Clone(p.answers) {
		p.answers[path] = func(w http.ResponseWriter, r *http.Request) {
			if w.Header().Set("ETag", `"1"`); r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			serve(w, r)
		}
	}
	x, _ := p.asking(t)
	next := x.refresh(t.Context(), noon())
	testkit.Same(t, "20 20 20 0", p.lengths(x), "the lengths of lists")
	if wait := next.Sub(noon()); wait < 4*time.Hour || wait > 8*time.Hour {
		t.Errorf("asked again after %s", wait)
	}
	x.refresh(t.Context(), noon().Add(4*time.Hour))
	later := noon().Add(8 * time.Hour)
	x.refresh(t.Context(), later)
	testkit.Same(t, `[/a /b /c /a "1" /b "1" /c "1"]`, fmt.Sprint(p.asked), "asked for")
	if got := x.Lists().Of(p.URL + "/a"); !got.Confirmed.Equal(later) || !got.Networks.Contains(netip.MustParseAddr("203.0.1.5")) {
		t.Errorf("%+v", got)
	}
	kept, err := x.AppendBinary(nil)
	testkit.Must(t, err)
	again, _ := p.asking(t)
	p.Close() // no server answers any more
	testkit.Must(t, again.UnmarshalBinary(kept))
	again.refresh(t.Context(), later)
	if got := p.lengths(again); got != "20 20 20 0" || !again.Lists().Of(p.URL+"/c").Confirmed.Equal(later) {
		t.Errorf("after a restart there are %s", got)
	}
	if err := again.UnmarshalBinary([]byte("{")); err == nil {
		t.Error("what is damaged is taken")
	}
	again.Ask(nil)
	testkit.Same(t, "0 0 0 0", p.lengths(again), "without refreshing there are")
}

// TestBelieved: an implausible answer changes nothing, and the log says why.
func TestBelieved(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs) // before the servers are closed
	for _, c := range []struct {
		what   string
		answer http.HandlerFunc // answer to the second request for /a
		is     string           // numbers of prefixes afterwards
		why    string           // reason in the log; empty: nothing is logged
	}{
		{"another list", list(networks(9, 30)...), "30 20 20 0", ""},
		{"no JSON", text("<html>Please log in</html>"), "", "isn't a JSON list of prefixes"},
		{"no prefixes", list(), "", "it has 0 prefixes"},
		{"a tenth", list(networks(0, 2)...), "", "it has 2 prefixes instead of 20"},
		{"ten times", list(networks(8, 200)...), "", "it has 200 prefixes instead of 20"},
		{"another operator's", list(append(networks(9, 20), "203.2.0.8/32")...), "", "1 of its prefixes are on the list of another operator, "},
		{"wider than another operator's", list(append(networks(9, 20), "203.2.0.0/16")...), "", "another operator"},
		{"swapped", list(networks(1, 20)...), "", "it is probably the list of another robot"},
		{"some of another robot's", list(append(networks(0, 15), networks(1, 5)...)...), "20 20 20 0", ""},
		{"too wide", list(append(networks(0, 20), "8.0.0.0/8")...), "", "8.0.0.0/8 is too large"},
		{"all", list(append(networks(0, 20), "::/0")...), "", "::/0 is too large"},
		{"wider than it seems", list(append(networks(0, 20), "::ffff:1.0.0.0/97")...), "", "0.0.0.0/1 is too large"},
		{"around private ones", list(append(networks(0, 20), "192.160.0.0/12")...), "", "192.160.0.0/12 is too large"},
		{"around local ones", list(append(networks(0, 20), "169.240.0.0/12")...), "", "169.240.0.0/12 is too large"},
		{"around the loopback", list(append(networks(0, 20), "::2/64")...), "", "::/64 is too large"},
		{"private", list(append(networks(0, 20), "10.1.0.0/16")...), "", "10.1.0.0/16 is too large"},
		{"no prefix", list(append(networks(0, 20), "203.0.113.0/33")...), "", `"203.0.113.0/33" is not a prefix`},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "", "the server answers 500"},
		{"304 that nobody asked for", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "", "the server answers 304"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"prefixes": [`))
		}, "", "the answer is incomplete"},
		{"100 MB", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "", "longer than 2 MB"},
		{"it hangs", func(http.ResponseWriter, *http.Request) { <-hangs }, "", "the server doesn't answer"},
		{"it hangs in the middle", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"prefixes": [`))
			_ = http.NewResponseController(w).Flush()
			<-hangs
		}, "", "the answer is incomplete"},
		{"elsewhere", http.RedirectHandler("https://127.0.0.2/list", http.StatusFound).ServeHTTP, "", "it redirects to https://127.0.0.2/list"},
		{"unencrypted", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/c", http.StatusFound)
		}, "", "it redirects to http://"},
	} {
		p := newPublisher(t)
		x, logs := p.asking(t)
		x.refresh(t.Context(), noon())
		if strings.HasPrefix(c.what, "it hangs") {
			x.patience = 300 * time.Millisecond
			x.Ask(p.robots()[:1])
		}
		p.answers["/a"] = c.answer
		before := x.Lists().Of(p.URL + "/a")
		at := noon().Add(9 * time.Hour)
		x.refresh(t.Context(), at)
		after := x.Lists().Of(p.URL + "/a")
		if c.why == "" {
			if got := p.lengths(x); got != c.is || !after.Confirmed.Equal(at) {
				t.Errorf("%s: there are %s, of %s", c.what, got, after.Confirmed)
			}
			continue
		}
		if !after.Confirmed.Equal(noon()) || fmt.Sprint(after.Prefixes) != fmt.Sprint(before.Prefixes) {
			t.Errorf("%s: it is believed, as %d of %s", c.what, len(after.Prefixes), after.Confirmed)
		}
		x.refresh(t.Context(), at.Add(2*time.Hour))
		said := logs.FilterLevelExact(zap.WarnLevel).All()
		if len(said) != 1 || !strings.Contains(fmt.Sprint(said[0].Message, said[0].ContextMap()), c.why) {
			t.Errorf("%s: the log says %v, want once %q", c.what, said, c.why)
		}
	}
}

// TestOldLists: a list that was not confirmed for a week is no longer compared with a new list, neither of its
// operator nor of another one.
func TestOldLists(t *testing.T) {
	p := newPublisher(t)
	x, _ := p.asking(t)
	x.refresh(t.Context(), noon())
	p.answers["/a"], p.answers["/b"] = list(networks(8, 200)...), list(append(networks(1, 20), "203.2.0.8/32")...)
	p.answers["/c"] = http.NotFound // the operator has disappeared
	for after, want := range map[time.Duration]string{6 * 24 * time.Hour: "20 20 20 0", 8 * 24 * time.Hour: "200 21 20 0"} {
		fresh, _ := p.asking(t)
		kept, err := x.AppendBinary(nil)
		testkit.Must(t, err)
		testkit.Must(t, fresh.UnmarshalBinary(kept))
		fresh.refresh(t.Context(), noon().Add(after))
		testkit.Same(t, want, p.lengths(fresh), "after %s there are", after)
	}
	p.answers["/c"] = list("203.9.0.0/28")
	x.refresh(t.Context(), noon().Add(8*24*time.Hour))
	p.answers["/c"] = list(networks(9, 11)...)
	x.refresh(t.Context(), noon().Add(9*24*time.Hour))
	testkit.Same(t, "200 21 11 0", p.lengths(x), "of a short list become")
}

// TestPublicOnly: no request goes to a private address, whatever its name.
func TestPublicOnly(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	p := newPublisher(t)
	p.answers["/"] = func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/", nil)
	answer, err := Transport().RoundTrip(r)
	if err == nil {
		_ = answer.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1 is not a public address") {
		t.Error(err)
	}
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1": true, "127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "::ffff:10.0.0.1": false, "fd00::1": false, "fe80::1": false, "0.0.0.0": false, "224.0.0.1": false,
	} {
		a := netip.MustParseAddr(text)
		testkit.Same(t, want, isPublic(netip.PrefixFrom(a, a.BitLen())), "%s is public", text)
	}
}
