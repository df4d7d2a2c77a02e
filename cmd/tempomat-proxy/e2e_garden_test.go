//go:build world

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestWorldGarden puts common servers in front of the proxy and behind it. These chains must carry the same requests
// with and without the proxy. The test compares the requests that the backend received, and the answers that the client
// received, with the requests that were sent. If two neighbours disagreed about where a request ends, a request would be
// missing, one would appear that was never sent, or an answer would belong to another request.
func TestWorldGarden(t *testing.T) {
	t.Parallel()
	for _, g := range gardeners {
		t.Run("before "+g.name, func(t *testing.T) {
			t.Parallel()
			b := startRecorder(t)
			s := startProxy(t, "http://"+g.start(t, b.address), observed)
			c := &chain{backend: b, client: visitor{address: strings.TrimPrefix(s.url, "http://"), patience: testkit.Patience}, keeps: true}
			c.run(t, g)
			if t.Failed() {
				t.Logf("the proxy's log:\n%s", s.Stderr)
			}
			c.compare(t)
		})
	}
	for _, g := range append(slices.Clone(gardeners), gardener{name: "HAProxy by HTTP2", start: startHAProxyH2}) {
		t.Run("behind "+g.name, func(t *testing.T) {
			t.Parallel()
			b := startRecorder(t)
			s := startProxy(t, "http://"+b.address, observed)
			c := &chain{backend: b, client: visitor{address: g.start(t, strings.TrimPrefix(s.url, "http://")), patience: testkit.Patience}}
			c.run(t, g)
			c.agree(t)
		})
	}
}

// TestWorldNoSpellingTellsOrigin: servers that pass headers to scripts in the environment accept a client's claims about
// itself in several spellings. None of these claims passes the proxy.
func TestWorldNoSpellingTellsOrigin(t *testing.T) {
	t.Parallel()
	const spoofed = "203.0.113.9"
	told := regexp.MustCompile(`(?m)^HTTP_X_(FORWARDED_FOR|REAL_IP|FORWARDED_PROTO)=` + regexp.QuoteMeta(spoofed) + `$`)
	for _, g := range []struct {
		name  string
		start func(t *testing.T) (url string)
	}{
		{"lighttpd's CGI", startLighttpdCGI}, {"php -S", startPHP}, {"Apache with PHP", startApachePHP},
	} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			backend := g.start(t)
			base, path := backend[:strings.LastIndex(backend, "/")], backend[strings.LastIndex(backend, "/"):]
			c := newClient(t)
			drops := startProxy(t, base, observed+"trustedProxies: []\n")
			passes := startProxy(t, base, observed+"trustedProxies: []\nunderscores: true\n")
			taken := 0
			for separator := range strings.SplitSeq("!#$%&'*+.^_`|~-", "") {
				for _, n := range []int{1, -1} { // the first hyphen, and every hyphen
					h := http.Header{}
					for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto"} {
						h[strings.Replace(name, "-", separator, n)] = []string{spoofed}
					}
					if told.MatchString(fetch(t, c, http.MethodGet, backend, h.Clone(), nil).body) {
						taken++
					}
					for _, s := range []*sidecarProcess{drops, passes} {
						a := fetch(t, c, http.MethodGet, s.url+path, h.Clone(), nil)
						if !strings.Contains(a.body, "HTTP_X_FORWARDED_FOR=127.0.0.1") || strings.Contains(a.body, spoofed) {
							t.Errorf("%q of %v, status %d:\n%s", separator, h, a.StatusCode, a.body)
						}
					}
				}
			}
			if t.Logf("%d of 30 spellings are taken without the proxy", taken); taken < 2 { // the page must accept at least the usual spelling
				t.Error("the page does not show what comes")
			}
		})
	}
}

// chain is a client, several servers in a row, and a backend at the end.
type chain struct {
	backend *recorder
	client  visitor
	keeps   bool // the first server closes connections only if necessary

	n    int
	want map[string]record // requests that the backend must receive, by their ids
	may  map[string]bool   // requests that the backend may receive in part or not at all
}

func (c *chain) next() string {
	c.n++
	return fmt.Sprintf("r%d", c.n)
}

// run sends all steps.
func (c *chain) run(t *testing.T, g gardener) {
	c.want, c.may = map[string]record{}, map[string]bool{}
	all := steps()
	for _, s := range all {
		if slices.Contains(g.lacks, s.name) {
			continue
		}
		before := c.client.opened
		if err := c.step(s); err != nil {
			t.Errorf("%s: %v", s.name, err)
			c.client.close()
		}
		if c.client.opened > before+1 {
			t.Errorf("%s: took %d connections", s.name, c.client.opened-before)
		}
	}
	c.client.close()
	t.Logf("%d steps over %d connections", len(all)-len(g.lacks), c.client.opened)
}

// step sends requests in one piece, and reads their answers.
func (c *chain) step(s step) error {
	var all string
	var ids []string
	var goOn func() error
	for _, r := range s.requests {
		id := c.next()
		head, body := r.text(id)
		ids = append(ids, id)
		if r.expects {
			rest := body
			goOn = func() error { return c.client.say(rest) }
			body = ""
		}
		all += head + body
		switch {
		case r.breaks:
			continue
		case r.kind == "early", r.kind == "refused":
			c.may[id] = true // the request is answered before it ends
			continue
		}
		c.want[id] = record{id, r.method, "/" + id + "/" + r.kind, r.body}
	}
	if err := c.client.say(all); err != nil {
		return err
	}
	for i, r := range s.requests {
		a, err := c.client.read(r.method, goOn)
		if r.breaks {
			return c.broken(a, err)
		}
		if err == nil {
			err = r.check(ids[i], a)
		}
		if err == nil && c.keeps && a.closes != r.ends(a) {
			err = fmt.Errorf("the answer says close: %v", a.closes)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", ids[i], err)
		}
		if a.closes {
			return c.client.ends()
		}
		if r.kind == "refused" && a.hints == 0 {
			c.client.close() // the next bytes would count as the body
		}
	}
	return nil
}

// broken checks the answer to a request whose body breaks off. There may be no answer.
func (c *chain) broken(a visited, err error) error {
	defer c.client.close()
	switch {
	case isTimeout(err):
		return err
	case err != nil:
		return nil
	case a.status < 400 || a.id != "":
		return fmt.Errorf("answered by %d of %q", a.status, a.id)
	}
	return c.client.ends()
}

// ends reports whether an answer may end the connection, which is allowed only if necessary.
func (s *sent) ends(a visited) bool {
	switch {
	case s.closes, strings.Contains(s.fields, "close"):
		return true
	case s.minor == 0 && s.kind == "chunks":
		return a.closes // because the length of the answer is unknown
	}
	return s.kind == "refused" && a.hints == 0
}

// check compares an answer with the request.
func (s *sent) check(id string, a visited) error {
	if a.status != s.status || a.id != id {
		return fmt.Errorf("answered by %d of %q (%q), want %d", a.status, a.id, clip(a.body), s.status)
	}
	want := contentOf(id, s.method, s.body)
	switch s.kind {
	case "early", "refused":
		want = contentOf(id, s.method, "")
	case "nothing", "unchanged":
		want = ""
	case "part":
		want = want[2:6]
	}
	if s.method == "HEAD" {
		want = ""
	}
	if a.body != want {
		return fmt.Errorf("answered %q, want %q", clip(a.body), want)
	}
	return nil
}

// agree sends ambiguous requests to a server in front of the proxy. The server may interpret them in any way, but the
// proxy must agree with it: no request may reach the backend that wasn't sent, none may reach it twice, and each answer
// must belong to its request.
func (c *chain) agree(t *testing.T) {
	smuggled := 0
	for _, d := range doubts() {
		id, after := c.next(), c.next()
		c.may[id], c.may[after] = true, true
		c.client.close()
		err := c.client.say(d.written(id, after))
		due := []string{id, after}
		c.client.patience = time.Second / 2 // some servers wait for more bytes
		for asked := false; err == nil; {
			var a visited
			if a, err = c.client.read("GET", nil); isTimeout(err) && !asked {
				if asked, err = true, c.asksBeside(); err != nil {
					t.Errorf("%s: %s: beside it: %v", d.group, d.name, err)
				}
				if len(c.backend.of("smuggled")) > smuggled {
					c.client.patience = testkit.Patience // to wait for the answer to this request
				}
				continue
			}
			if err != nil || a.id == "" {
				continue
			}
			at := slices.Index(due, a.id)
			switch {
			case a.id == "smuggled": // the server in front of the proxy also treats this text as a request
				smuggled++
				continue
			case at < 0:
				t.Errorf("%s: %s: %s is answered where %v are due", d.group, d.name, a.id, due)
				continue
			}
			due = due[at+1:]
			if of := c.backend.of(a.id); len(of) != 1 || a.body != contentOf(a.id, of[0].method, of[0].body) {
				t.Errorf("%s: %s: answered %q, the backend was asked %v", d.group, d.name, clip(a.body), of)
			}
		}
	}
	if of := c.backend.of("smuggled"); len(of) > smuggled {
		t.Errorf("the backend was asked %d times for what %d times was a request", len(of), smuggled)
	}
	c.may["smuggled"] = smuggled > 0
	c.compare(t)
}

// asksBeside sends a request over a new connection and waits for the answer. Even on a slow machine, earlier requests
// have arrived by then.
func (c *chain) asksBeside() error {
	beside := visitor{address: c.client.address, patience: testkit.Patience}
	defer beside.close()
	id := c.next()
	c.may[id] = true
	first := get("length")
	head, _ := first.text(id)
	if err := beside.say(head); err != nil {
		return err
	}
	a, err := beside.read("GET", nil)
	if err == nil {
		err = first.check(id, a)
	}
	return err
}

// compare checks the requests that the backend received.
func (c *chain) compare(t *testing.T) {
	c.client.close()
	seen, faults := c.backend.all()
	for _, f := range faults {
		t.Errorf("the backend was sent what is no request: %s", f)
	}
	count := map[string]int{}
	for _, r := range seen {
		count[r.id]++
		want, ok := c.want[r.id]
		switch {
		case !ok && !c.may[r.id]:
			t.Errorf("the backend has seen %s %s, which nobody sent, or which was refused", r.method, r.target)
		case ok && r != want:
			t.Errorf("the backend has seen %s %s with %q, want %s %s with %q", r.method, r.target, clip(r.body), want.method, want.target, clip(want.body))
		case count[r.id] > 1 && r.id != "smuggled":
			t.Errorf("the backend has seen %s %s %d times", r.method, r.target, count[r.id])
		}
	}
	var missing []string
	for id := range c.want {
		if count[id] == 0 {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("the backend has not seen %v", missing)
	}
}

// visitor is a client of the garden. It sends raw bytes and reads answers.
type visitor struct {
	address  string
	patience time.Duration // until an answer begins
	conn     net.Conn      // nil: none is open
	in       *bufio.Reader
	opened   int // number of connections so far
}

// visited is an answer.
type visited struct {
	status int
	id     string // id of the answered request; empty: the answer isn't the backend's
	body   string
	closes bool // whether the connection closes, according to the answer
	hints  int  // number of 100s and other interim answers
}

func (v *visitor) open() error {
	if v.conn != nil {
		return nil
	}
	c, err := net.DialTimeout("tcp", v.address, testkit.Patience)
	if err != nil {
		return err
	}
	v.opened++
	v.conn, v.in = c, bufio.NewReader(c)
	return nil
}

func (v *visitor) close() {
	if v.conn != nil {
		_ = v.conn.Close()
		v.conn = nil
	}
}

// say writes a text without waiting for an answer. It doesn't report that the other side has closed the connection,
// because a later read shows this.
func (v *visitor) say(text string) error {
	if err := v.open(); err != nil {
		return err
	}
	_ = v.conn.SetDeadline(time.Now().Add(testkit.Patience))
	_, err := io.WriteString(v.conn, text)
	if isReset(err) {
		return nil
	}
	return err
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func isReset(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// begins waits for the beginning of an answer. Reading shows the end of the connection.
func (v *visitor) begins() error {
	_ = v.conn.SetReadDeadline(time.Now().Add(v.patience))
	defer func() { _ = v.conn.SetReadDeadline(time.Now().Add(testkit.Patience)) }()
	if _, err := v.in.Peek(1); isTimeout(err) {
		return fmt.Errorf("no answer: %w", err)
	}
	return nil
}

// read reads an answer. If the client waits for a 100, goOn sends the rest. After a timeout, read may be
// called again.
func (v *visitor) read(method string, goOn func() error) (a visited, err error) {
	for {
		if err := v.begins(); err != nil {
			return a, err
		}
		res, err := http.ReadResponse(v.in, &http.Request{Method: method})
		if err != nil {
			return a, fmt.Errorf("no answer: %w", err)
		}
		if res.StatusCode < 200 {
			a.hints++
			if res.StatusCode == http.StatusContinue && goOn != nil {
				if err := goOn(); err != nil {
					return a, err
				}
				goOn = nil
			}
			continue
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return a, fmt.Errorf("a body that ends early after %q: %w", clip(string(b)), err)
		}
		return visited{res.StatusCode, res.Header.Get("X-Id"), string(b), res.Close, a.hints}, nil
	}
}

// ends waits for the end of the connection. No more bytes may come before it.
func (v *visitor) ends() error {
	defer v.close()
	rest, err := io.ReadAll(v.in)
	if err != nil && !isReset(err) {
		return fmt.Errorf("the connection stays open: %w", err)
	}
	if len(rest) > 0 {
		return fmt.Errorf("after the last answer comes %q", clip(string(rest)))
	}
	return nil
}

func clip(s string) string { return strings.TrimSpace(s[:min(len(s), 120)]) }
