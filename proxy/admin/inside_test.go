package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tempomat/proxy/admin/api"
)

func inside() Inside {
	return Inside{
		Overview: func() api.OverviewReply { return api.OverviewReply{Version: 1, CPU: 1.5} },
		Shapes: func(limit int) api.ShapesReply {
			return api.ShapesReply{Version: 1, Rows: make([]api.ShapeRow, limit)}
		},
		Recent: func(limit int, _ bool) api.RecentReply {
			return api.RecentReply{Version: 1, Rows: make([]api.VerdictRow, limit)}
		},
		Series: func(minutes int) (api.SeriesReply, bool) {
			return api.SeriesReply{Version: 1, Step: float64(minutes)}, minutes == 5 || minutes == 60
		},
		Events: NewEvents(),
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
	for query, want := range map[string]float64{"": 5, "?minutes=60": 60} {
		var series api.SeriesReply
		if ask(t, options(), "GET", "/v1/series"+query, &series); series.Step != want {
			t.Errorf("%q: %+v", query, series)
		}
	}
	for target, want := range map[string]string{
		"/v1/shapes?limit=0": "limit", "/v1/recent?limit=x": "limit", "/v1/overview?x=1": "known: none",
		"/v1/series?minutes=6": "known: 5, 60, 1440", "/v1/series?minutes=x": "known: 5, 60, 1440",
	} {
		var e api.ErrorReply
		if rec := ask(t, options(), "GET", target, &e); rec.Code != 400 || !strings.Contains(e.Error, want) {
			t.Errorf("%s: %d %+v", target, rec.Code, e)
		}
	}
}

// eventsServer serves the API on TCP until the test ends.
func eventsServer(t *testing.T, o Options) (a *Server, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a = New(o)
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	t.Cleanup(func() {
		if err := a.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return a, "http://" + l.Addr().String() + "/v1/events"
}

// listen opens a stream and has read its beginning: from then on no event is missed.
func listen(t *testing.T, url string) (*http.Response, *bufio.Reader) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	r := bufio.NewReader(res.Body)
	if res.StatusCode == 200 {
		if line, err := r.ReadString('\n'); line != "retry: 2000\n" || err != nil {
			t.Fatalf("it begins with %q, %v", line, err)
		}
	}
	return res, r
}

// TestEvents: all who listen get each point; one more than may is told so; who leaves makes
// room; the end of the server is the end of the streams.
func TestEvents(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("served", func(t *testing.T) { // its end is that of the server, too
		o := options()
		a, url := eventsServer(t, o)
		var all []*bufio.Reader
		var first *http.Response
		for range mostListeners {
			res, r := listen(t, url)
			if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
				t.Fatalf("%d %v", res.StatusCode, res.Header)
			}
			if first == nil {
				first = res
			}
			all = append(all, r)
		}
		if res, _ := listen(t, url); res.StatusCode != 503 {
			t.Errorf("one too many: %d", res.StatusCode)
		}
		for i := range 3 {
			o.Inside.Events.Publish(api.Point{At: float64(i)})
			for _, r := range all {
				if got := next(t, r); got.At != float64(i) {
					t.Errorf("point %d is of %v", i, got.At)
				}
			}
		}
		first.Body.Close()
		for { // until the server has noticed
			if res, _ := listen(t, url); res.StatusCode == 200 {
				break
			}
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		for _, r := range all[1:] {
			if rest, err := io.ReadAll(r); strings.TrimSpace(string(rest)) != "" || err != nil {
				t.Errorf("after the end: %q %v", rest, err)
			}
		}
	})
}

// next reads an event.
func next(t *testing.T, r *bufio.Reader) (p api.Point) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &p); err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
}

// TestEventsDropWhoIsSlow: a listener that reads nothing is dropped, and keeps nobody
// waiting.
func TestEventsDropWhoIsSlow(t *testing.T) {
	e := NewEvents()
	slow, leave, err := e.listen()
	if err != nil {
		t.Fatal(err)
	}
	quick, leaveToo, err := e.listen()
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for range 3 * mostBehind {
		e.Publish(api.Point{})
		<-quick
		got++
	}
	n := 0
	for range slow {
		n++
	}
	if n != mostBehind || got != 3*mostBehind {
		t.Errorf("the slow one got %d, the quick one %d", n, got)
	}
	leave()
	leaveToo()
	if len(e.listeners) != 0 {
		t.Error("somebody is left")
	}
}

// TestEventsOutliveTheLimits: a stream lasts longer than a request, and an answer, may take.
func TestEventsOutliveTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		a := New(o)
		client, server := net.Pipe()
		var all sync.WaitGroup
		all.Go(func() { _ = a.Serve(&oneConn{conn: server, done: make(chan struct{})}) })
		all.Go(func() { _, _ = client.Write([]byte("GET /v1/events HTTP/1.1\r\nHost: a\r\n\r\n")) })
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(res.Body)
		for i := range 200 {
			time.Sleep(time.Second)
			o.Inside.Events.Publish(api.Point{At: float64(i)})
			if got := next(t, r); got.At != float64(i) {
				t.Fatalf("point %d is of %v", i, got.At)
			}
		}
		_ = a.Shutdown(t.Context())
		client.Close()
		all.Wait()
	})
}

// oneConn is a listener of one connection.
type oneConn struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestEventsHead(t *testing.T) {
	rec := httptest.NewRecorder()
	New(options()).Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "HEAD", "/v1/events", nil))
	if rec.Code != 200 || rec.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
}
