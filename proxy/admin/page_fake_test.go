//go:build world

package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"tempomat/proxy/admin/admintest"
	"tempomat/proxy/admin/api"
)

// evil is a User-Agent or a URL that a client may choose.
const evil = "/w/<img src=x onerror=\"document.title='owned'\">?a=\u202egnp.exe\x1b[31m\n&b=" + `'";alert(1)//`

// fake answers with fixed documents that describe a site under attack.
type fake struct {
	*admintest.Server
	token string // token that the fake requires; empty: none

	mu    sync.Mutex // guards the fields below
	posts []string   // bodies of POST /v1/forgive
	away  bool
}

func startFake(t *testing.T, token string) (*fake, string) {
	t.Helper()
	f := &fake{Server: admintest.New(), token: token}
	overview, shapes, queue, recent, explain := admintest.Overview(), admintest.Shapes(), admintest.Queue(), admintest.Recent(), admintest.Explain()
	overview.Conditions = []api.Condition{{Name: "errors", Bad: true, What: "The site answers with errors.", Do: "Check <b>the log</b>."}}
	shapes.Rows, queue.Rows, recent.Rows = shapes.Rows[:12], queue.Rows[:12], recent.Rows[:14]
	shapes.Rows[3].Shape, shapes.Rows[3].Parameters = evil, []api.PartRow{{Name: evil, CPU: 0.3, Rate: 1.4, Mean: 0.2}}
	queue.Rows[3].URL, queue.Rows[3].Agent = evil, evil
	recent.Rows[2].URL, recent.Rows[2].Agent = evil, evil
	explain.Sections[0].Facts[1].Value = evil
	for path, document := range map[string]any{
		"overview": overview, "shapes": shapes, "queue": queue, "recent": recent, "explain": explain,
		"access": api.AccessReply{Version: 1, Token: token != ""},
		"share": api.ShareReply{Version: 1, Kind: "smockron", State: []any{
			map[string]any{"master": "tcp://10.0.0.5:10004", "domains": []string{"site.slash32"}, "present": true, "synced": true, "sent": 120345, "dropped": 0},
			map[string]any{"master": "tcp://10.0.0.6:10004", "domains": []string{"site.userAgent"}, "present": false, "synced": false, "sent": 11, "dropped": 3},
		}},
	} {
		f.Set("/v1/"+path, document)
	}
	mux := pages()
	mux.HandleFunc("/v1/", f.protected)
	mux.Handle("/v1/access", f.Server) // the page asks whether it needs the token
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return f, s.URL
}

// tame removes texts with markup and the condition, which only tests need, for the manual's pictures.
func (f *fake) tame() {
	f.Set("/v1/overview", admintest.Overview())
	shapes, queue, recent := admintest.Shapes(), admintest.Queue(), admintest.Recent()
	isHostile := func(text string) bool { return strings.Contains(text, admintest.Hostile) }
	shapes.Rows = slices.DeleteFunc(shapes.Rows[:12], func(r api.ShapeRow) bool { return isHostile(r.Shape) })
	queue.Rows = slices.DeleteFunc(queue.Rows[:12], func(r api.WaiterRow) bool { return isHostile(r.URL) })
	recent.Rows = slices.DeleteFunc(recent.Rows[:14], func(r api.VerdictRow) bool { return isHostile(r.URL) })
	f.Set("/v1/shapes", shapes)
	f.Set("/v1/queue", queue)
	f.Set("/v1/recent", recent)
}

// protected serves the documents that need the token.
func (f *fake) protected(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.away:
		panic(http.ErrAbortHandler)
	case f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token:
		w.WriteHeader(http.StatusUnauthorized)
		reply(w, api.ErrorReply{Version: 1, Error: "the token is missing or wrong"})
	case r.Method == http.MethodPost && r.URL.Path == "/v1/forgive" && f.token != "":
		var asked api.ActRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, `{"error":"not like this"}`, http.StatusForbidden)
			return
		}
		f.posts = append(f.posts, asked.Class+" "+asked.Key)
		reply(w, api.ActReply{Version: 1, Done: "forgave " + asked.Key})
	case r.URL.Query().Get("class") == "userAgent":
		b := admintest.Buckets()
		b.Class, b.Rows = "userAgent", b.Rows[:14]
		b.Rows[0].ID, b.Rows[1].ID = "", evil
		reply(w, b)
	default:
		f.ServeHTTP(w, r)
	}
}

func reply(w http.ResponseWriter, document any) { _ = json.NewEncoder(w).Encode(document) }

// setAway makes the API break all connections.
func (f *fake) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}
