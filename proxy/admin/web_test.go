package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

const testToken = "correct-horse-battery-staple"

// listeners is a server with real sockets.
type listeners struct {
	t       *testing.T
	tcp     string
	unix    string
	access  *Access
	actor   *actor
	reloads atomic.Int64
}

func openListeners(t *testing.T) *listeners {
	t.Helper()
	d := &listeners{t: t, access: new(Access), actor: new(actor), unix: filepath.Join(t.TempDir(), "a.sock")}
	d.access.Set(testToken, []string{"Status.Example.org"})
	o := options()
	o.Access, o.Inspector = d.access, d.actor
	o.Reload = func() error { d.reloads.Add(1); return nil }
	a := New(o)
	web := testkit.Listen(t)
	socket, err := net.Listen("unix", d.unix)
	testkit.Must(t, err)
	d.tcp = web.Addr().String()
	ended := make(chan error, 2)
	go func() { ended <- a.ServeWeb(web) }()
	go func() { ended <- a.Serve(socket) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testkit.Must(t, a.Shutdown(ctx))
		for range 2 {
			testkit.Must(t, <-ended)
		}
	})
	return d
}

// say sends a request unchanged and returns the answer.
func (d *listeners) say(network, request string) (*http.Response, string) {
	d.t.Helper()
	c := d.dial(network)
	defer c.Close()
	_, err := io.WriteString(c, request)
	testkit.Must(d.t, err)
	return read(d.t, c)
}

func (d *listeners) dial(network string) net.Conn {
	d.t.Helper()
	c, err := net.Dial(network, map[string]string{"tcp": d.tcp, "unix": d.unix}[network])
	testkit.Must(d.t, err)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func read(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	testkit.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp, string(body)
}

// request builds a request with the Host as its first field.
func request(line, host, body string, header ...string) string {
	all := append([]string{line + " HTTP/1.1", "Host: " + host, "Connection: close"}, header...)
	if body != "" {
		all = append(all, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return strings.Join(all, "\r\n") + "\r\n\r\n" + body
}

func TestWebRefuses(t *testing.T) {
	d := openListeners(t)
	const right, json = "Authorization: Bearer " + testToken, "Content-Type: application/json"
	for name, c := range map[string]struct {
		network, request string
		status           int
		text             string
	}{
		"a right token":                     {"tcp", request("GET /v1/status", d.tcp, "", right), 200, `"release"`},
		"its scheme in any case":            {"tcp", request("GET /v1/status", d.tcp, "", "Authorization: bearer "+testToken), 200, `"release"`},
		"no token":                          {"tcp", request("GET /v1/status", d.tcp, ""), 401, "the token is missing"},
		"whether it needs one":              {"tcp", request("GET /v1/access", d.tcp, ""), 200, `"token":true`},
		"whether the socket needs one":      {"unix", request("GET /v1/access", "tempomat", ""), 200, `"token":false`},
		"no token, no such path":            {"tcp", request("GET /v1/nothing", d.tcp, ""), 401, "the token is missing"},
		"a wrong token":                     {"tcp", request("GET /v1/status", d.tcp, "", "Authorization: Bearer "+testToken+"x"), 401, "the token is wrong"},
		"a part of the token":               {"tcp", request("GET /v1/status", d.tcp, "", "Authorization: Bearer "+testToken[:9]), 401, "the token is wrong"},
		"another scheme":                    {"tcp", request("GET /v1/status", d.tcp, "", "Authorization: Basic "+testToken), 401, "missing"},
		"two tokens":                        {"tcp", request("GET /v1/status", d.tcp, "", right, right), 401, "missing"},
		"the token as a parameter":          {"tcp", request("GET /v1/status?token="+testToken, d.tcp, ""), 401, "missing"},
		"the token as a cookie":             {"tcp", request("GET /v1/status", d.tcp, "", "Cookie: token="+testToken), 401, "missing"},
		"the page without a token":          {"tcp", request("GET /", d.tcp, ""), 200, "<title>tempomat</title>"},
		"its files without a token":         {"tcp", request("GET /static/main.js", d.tcp, ""), 200, "import"},
		"the page, posted":                  {"tcp", request("POST /", d.tcp, "", right, json), 404, "no such path"},
		"a path that leaves the files":      {"tcp", request("GET /static/../v1/status", d.tcp, ""), 401, "missing"},
		"localhost":                         {"tcp", request("GET /v1/status", "localhost:1", "", right), 200, "release"},
		"an IPv6 address":                   {"tcp", request("GET /v1/status", "[::1]:9", "", right), 200, "release"},
		"a name of admin.hosts":             {"tcp", request("GET /v1/status", "STATUS.example.org", "", right), 200, "release"},
		"another name":                      {"tcp", request("GET /v1/status", "evil.example", "", right), 421, "admin.hosts"},
		"another name for the page":         {"tcp", request("GET /", "evil.example", ""), 421, "admin.hosts"},
		"a name that begins as localhost":   {"tcp", request("GET /", "localhost.evil.example", ""), 421, "admin.hosts"},
		"a name that begins as an address":  {"tcp", request("GET /", "127.0.0.1.evil.example", ""), 421, "admin.hosts"},
		"a name without a dot":              {"tcp", request("GET /", "tempomat", ""), 421, "admin.hosts"},
		"no name":                           {"tcp", request("GET /", "", ""), 421, "admin.hosts"},
		"a post":                            {"tcp", request("POST /v1/reload", d.tcp, "", right, json, "Origin: http://"+d.tcp, "Sec-Fetch-Site: same-origin"), 200, "ok"},
		"a program's post":                  {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json), 200, "ok"},
		"a post without a token":            {"tcp", request("POST /v1/reload", d.tcp, "", json), 401, "missing"},
		"a post from another site":          {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Origin: https://evil.example"), 403, "another site"},
		"a post from another port":          {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Origin: http://127.0.0.1:1"), 403, "another site"},
		"a post from nowhere":               {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Origin: null"), 403, "another site"},
		"a post with two origins":           {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Origin: http://"+d.tcp, "Origin: http://evil.example"), 403, "another site"},
		"a post, cross-site":                {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Sec-Fetch-Site: cross-site"), 403, "another site"},
		"a post, same-site":                 {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Sec-Fetch-Site: same-site"), 403, "another site"},
		"a post that its user typed":        {"tcp", request("POST /v1/reload", d.tcp, "{}", right, json, "Sec-Fetch-Site: none"), 403, "another site"},
		"a look, cross-site":                {"tcp", request("GET /v1/status", d.tcp, "", right, "Sec-Fetch-Site: cross-site"), 403, "another site"},
		"a link to the page":                {"tcp", request("GET /", d.tcp, "", "Sec-Fetch-Site: cross-site"), 200, "<title>"},
		"the socket":                        {"unix", request("GET /v1/status", "tempomat", ""), 200, "release"},
		"the socket's page":                 {"unix", request("GET /", "localhost:8080", ""), 200, "<title>"},
		"the socket by another name":        {"unix", request("GET /v1/status", "evil.example:8080", ""), 421, "admin.hosts"},
		"the doctor's post":                 {"unix", request("POST /v1/reload", "tempomat", ""), 200, "ok"},
		"a page's post at the socket":       {"unix", request("POST /v1/reload", "localhost:8080", "{}", right, json, "Origin: http://localhost:8080", "Sec-Fetch-Site: same-origin"), 200, "ok"},
		"the same without a token":          {"unix", request("POST /v1/reload", "localhost:8080", "{}", json, "Origin: http://localhost:8080"), 401, "missing"},
		"another site's post at the socket": {"unix", request("POST /v1/reload", "localhost:8080", "{}", "Content-Type: text/plain", "Origin: https://evil.example"), 403, "another site"},
		"another site's look at the socket": {"unix", request("GET /v1/status", "localhost:8080", "", "Sec-Fetch-Site: cross-site"), 403, "another site"},
	} {
		t.Run(name, func(t *testing.T) {
			d.t = t
			before := d.reloads.Load()
			resp, body := d.say(c.network, c.request)
			if resp.StatusCode != c.status || !strings.Contains(body, c.text) {
				t.Errorf("got %s %s; want %d %q", resp.Status, body, c.status, c.text)
			}
			testkit.Same(t, c.status == 200 && strings.Contains(c.request, "POST /v1/reload"), d.reloads.Load() > before, "it acted")
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"} {
				testkit.Same(t, want, resp.Header.Get(name), "%s", name)
			}
			testkit.Same(t, "", resp.Header.Get("Access-Control-Allow-Origin"), "it may be read from")
		})
	}
}

func TestWebTakesANewToken(t *testing.T) {
	d := openListeners(t)
	d.access.Set("another-token-of-some-length", []string{"other.example"})
	for _, c := range []struct {
		host, token string
		status      int
	}{
		{d.tcp, testToken, 401}, {d.tcp, "another-token-of-some-length", 200},
		{"other.example", "another-token-of-some-length", 200}, {"status.example.org", "another-token-of-some-length", 421},
	} {
		if resp, body := d.say("tcp", request("GET /v1/status", c.host, "", "Authorization: Bearer "+c.token)); resp.StatusCode != c.status {
			t.Errorf("%v: %s %s", c, resp.Status, body)
		}
	}
	d.access.Set("", nil)
	for _, token := range []string{testToken, "", " "} {
		if resp, body := d.say("tcp", request("GET /v1/status", d.tcp, "", "Authorization: Bearer "+token)); resp.StatusCode != 401 || !strings.Contains(body, "no token") {
			t.Errorf("%q, while there is none: %s %s", token, resp.Status, body)
		}
	}
}

// TestWebCutsSlowClients: the server disconnects a client that sends nothing, or only a part of a request.
// The clock is virtual.
func TestWebCutsSlowClients(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "half a header": "GET / HTTP/1.1\r\nHost: loc", "half a body": "POST /v1/reload HTTP/1.1\r\nHost: localhost\r\n" +
		"Authorization: Bearer " + testToken + "\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"} {
		synctest.Test(t, func(t *testing.T) {
			o := options()
			o.Access = new(Access)
			o.Access.Set(testToken, nil)
			a := New(o)
			l := testkit.NewPipes()
			ended := make(chan error, 1)
			go func() { ended <- a.ServeWeb(l) }()
			ours, err := l.Dial(t.Context())
			testkit.Must(t, err)
			go func() { _, _ = io.WriteString(ours, sent) }()
			start := time.Now()
			_, _ = io.Copy(io.Discard, ours)
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("%s: cut after %v", name, took)
			}
			testkit.Must(t, a.Shutdown(t.Context()))
			<-ended
			_ = ours.Close()
		})
	}
}

// visit sends a request and keeps the connection open.
func visit(t *testing.T, c net.Conn, request string) (*http.Response, error) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, strings.Replace(request, "Connection: close", "Connection: keep-alive", 1)); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return resp, err
}

// TestWebBoundsConnections: at most mostConnections are open at a time. The next connection is served when one
// of these closes.
func TestWebBoundsConnections(t *testing.T) {
	d := openListeners(t)
	icon := request("GET /static/icon.svg", d.tcp, "")
	var open []net.Conn
	for range mostConnections {
		c := d.dial("tcp")
		t.Cleanup(func() { _ = c.Close() })
		if resp, err := visit(t, c, icon); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		open = append(open, c)
	}
	late := d.dial("tcp")
	defer late.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := visit(t, late, icon)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("one too many was answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_ = open[0].Close()
	testkit.Must(t, <-answered)
}
