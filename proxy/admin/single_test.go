package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// actor is an Inspector that records its calls.
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

// crowded is an Inspector that counts how many of its calls run at the same time.
type crowded struct {
	actor

	now, most atomic.Int32
}

func (c *crowded) look() {
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	time.Sleep(time.Millisecond) // gives other calls time to begin
	c.now.Add(-1)
}

func (c *crowded) Queue(time.Time, int) (reply api.QueueReply) { c.look(); return reply }

func (c *crowded) Explain(time.Time, string) (reply api.ExplainReply, err error) {
	c.look()
	return reply, nil
}

// TestLooksAreSingle: the Inspector serves one client at a time, because each of its calls blocks requests.
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
	testkit.Same(t, 1, c.most.Load(), "looks at the same time")
}

func acted(a *actor) Options {
	o := options()
	o.Inspector = a
	return o
}

// TestActsAreStrict: a body that is misspelt, too large or of the wrong form has no effect.
func TestActsAreStrict(t *testing.T) {
	for body, c := range map[string]struct {
		status int
		want   string // the call, or a part of the error
	}{
		`{"class":"Slash32","key":"192.0.2.1"}`: {200, "forgive slash32 192.0.2.1 by "},
		`{"class":"slash32","key":""}`:          {200, "forgive slash32  by "},
		`{"class":"slash99","key":"a"}`:         {400, `class "slash99" is unknown; known: `},
		`{"key":"a"}`:                           {400, "class and key must both be given"},
		`{"class":"slash32","ky":"a"}`:          {400, `unknown field "ky"`},
		`{"class":"slash32","key":"a"} {}`:      {400, "after the JSON object"},
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

// TestWhoActsIsKnown: an action over the socket has the user's uid, and one over TCP has the address.
func TestWhoActsIsKnown(t *testing.T) {
	d := openListeners(t)
	const body = `{"class":"slash32","key":"a","standing":8,"seconds":60}`
	d.say("unix", request("POST /v1/pin", "tempomat", body))
	d.say("tcp", request("POST /v1/pin", d.tcp, body, "Authorization: Bearer "+testToken))
	got := strings.Join(d.actor.asked, "; ")
	if want := fmt.Sprintf("pin slash32 a 8 60 by uid %d; pin slash32 a 8 60 by token, from 127.0.0.1:", os.Getuid()); !strings.HasPrefix(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}
