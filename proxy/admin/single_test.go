package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/proxy/admin/api"
)

// actor notes what it was asked for.
type actor struct {
	asked []string
	err   error
}

func (a *actor) Queue(_ time.Time, limit int) api.QueueReply {
	return api.QueueReply{Version: api.Version, Total: limit, Rows: []api.WaiterRow{}}
}

func (a *actor) Explain(_ time.Time, of string) (api.ExplainReply, error) {
	return api.ExplainReply{Version: api.Version, Of: of, Kind: "agent"}, a.err
}

func (a *actor) Forgive(_ time.Time, by string, r api.ActRequest) (api.ActReply, error) {
	a.asked = append(a.asked, fmt.Sprintf("forgive %s %s by %s", r.Class, r.Key, by))
	return api.ActReply{Version: api.Version, Done: "forgiven"}, a.err
}

func (a *actor) Pin(_ time.Time, by string, r api.ActRequest) (api.ActReply, error) {
	a.asked = append(a.asked, fmt.Sprintf("pin %s %s %g %g by %s", r.Class, r.Key, r.Standing, r.Seconds, by))
	return api.ActReply{Version: api.Version, Done: "pinned"}, a.err
}

func (a *actor) Pins(time.Time) api.PinsReply {
	return api.PinsReply{Version: api.Version, Pins: []api.PinRow{}}
}

// crowded is an Inspector that tells how many look at the same time.
type crowded struct {
	actor

	now, most atomic.Int32
}

func (c *crowded) look() {
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	time.Sleep(time.Millisecond) // the others could come meanwhile
	c.now.Add(-1)
}

func (c *crowded) Queue(time.Time, int) (reply api.QueueReply) { c.look(); return reply }

func (c *crowded) Explain(time.Time, string) (reply api.ExplainReply, err error) {
	c.look()
	return reply, nil
}

// TestLooksAreSingle: however many ask who waits, and why, they look one after the other, as
// requests stand still meanwhile.
func TestLooksAreSingle(t *testing.T) {
	c := &crowded{}
	o := options()
	o.Inspector = c
	h := New(o).Handler()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			path := []string{"/v1/queue", "/v1/explain?of=x"}[i%2]
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		})
	}
	all.Wait()
	if n := c.most.Load(); n != 1 {
		t.Errorf("%d look at the same time", n)
	}
}

func acted(a *actor) Options {
	o := options()
	o.Inspector = a
	return o
}

// TestActsAreStrict: what is misspelt, too large or of another kind does nothing.
func TestActsAreStrict(t *testing.T) {
	for body, c := range map[string]struct {
		status int
		want   string // asked for, or a part of the error
	}{
		`{"class":"Slash32","key":"192.0.2.1"}`: {200, "forgive slash32 192.0.2.1 by unknown"},
		`{"class":"slash32","key":""}`:          {200, "forgive slash32  by unknown"},
		`{"class":"slash99","key":"a"}`:         {400, `class "slash99" is unknown; known: `},
		`{"key":"a"}`:                           {400, "class and key must both be given"},
		`{"class":"slash32","ky":"a"}`:          {400, `unknown field "ky"`},
		`{"class":"slash32","key":"a"} {}`:      {400, "behind the JSON object"},
		`{"class":"slash32","key":5}`:           {400, "cannot unmarshal number"},
		``:                                      {400, "EOF"},
		`{"class":"slash32","key":"` + strings.Repeat("a", mostBody) + `"}`: {400, "too large"},
	} {
		a := &actor{}
		rec := httptest.NewRecorder()
		New(acted(a)).Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/forgive", strings.NewReader(body)))
		got := strings.Join(a.asked, "; ")
		if c.status != 200 {
			var reply api.ErrorReply
			if err := json.Unmarshal(rec.Body.Bytes(), &reply); err != nil || got != "" {
				t.Errorf("%.80s: %v, asked for %q", body, err, got)
			}
			got = reply.Error
		}
		if rec.Code != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%.80s: status %d, %q; want %d, %q", body, rec.Code, got, c.status, c.want)
		}
	}
	a := &actor{err: errors.New("not allowed")}
	rec := httptest.NewRecorder()
	New(acted(a)).Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "POST", "/v1/pin", strings.NewReader(`{"class":"slash32","key":"a"}`)))
	if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "not allowed") {
		t.Errorf("what the actor does not allow: %d %s", rec.Code, rec.Body)
	}
}

// TestWhoActsIsKnown asks over a real socket.
func TestWhoActsIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	who := &actor{}
	a := New(acted(who))
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	resp, err := client.Post("http://h/v1/pin", "application/json", bytes.NewReader([]byte(`{"class":"slash32","key":"a","standing":8,"seconds":60}`)))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := errors.Join(a.Shutdown(t.Context()), <-served); err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf("pin slash32 a 8 60 by uid %d", os.Getuid())
	if got := strings.Join(who.asked, "; "); got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestWhoActsOverTCP: of a connection that is limited in number only the address is known.
func TestWhoActsOverTCP(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := fromAddress{near, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4}}
	if got := askedBy(withPeer(t.Context(), c)); got != "token, from 192.0.2.7:4" {
		t.Errorf("asked by %q", got)
	}
	if got := askedBy(withPeer(t.Context(), near)); got != "unknown" {
		t.Errorf("of a pipe: asked by %q", got)
	}
}

type fromAddress struct {
	net.Conn
	address net.Addr
}

func (f fromAddress) RemoteAddr() net.Addr { return f.address }

// TestSingleViews checks limits, methods and parameters.
func TestSingleViews(t *testing.T) {
	for target, c := range map[string]struct {
		method string
		status int
		says   string
	}{
		"/v1/queue":            {"GET", 200, `"total":100`},
		"/v1/queue?limit=1000": {"GET", 200, `"total":1000`},
		"/v1/queue?limit=1001": {"GET", 400, "1 to 1000"},
		"/v1/queue?client=a":   {"GET", 400, "unknown parameter"},
		"/v1/explain?of=a%20b": {"GET", 200, `"of":"a b"`},
		"/v1/explain?on=a":     {"GET", 400, "unknown parameter"},
		"/v1/pins":             {"GET", 200, `"pins":[]`},
		"/v1/forgive":          {"GET", 404, "POST /v1/forgive"},
	} {
		rec := httptest.NewRecorder()
		New(acted(&actor{})).Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), c.method, target, nil))
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s, want %d %q", c.method, target, rec.Code, rec.Body, c.status, c.says)
		}
	}
}
