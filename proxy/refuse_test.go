package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/errorpage"
)

// sleeper is a backend that takes a second.
var sleeper = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })

// indebted makes the mode reject a client after one of the sleeper's answers.
func indebted(m limiter.Mode) func(*setup) {
	return func(s *setup) {
		s.limits.Mode = m
		s.limits.Classes[0].Budget.CPUs = 0.01
		s.limits.MaxHold = 10 * time.Second
	}
}

func TestRefusedForDebt(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
		inBubble(t, m.String(), func(t *testing.T) {
			asked := 0
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				asked++
				sleeper(w, q)
			}), indebted(m))
			r.do(r.client, request(t, nil, "GET /"))
			ids := map[string]bool{}
			for accept, json := range accepts {
				for _, c := range []*http.Client{r.client, r.h2c} {
					res, body := r.do(c, request(t, nil, "GET /", "Accept: "+accept))
					id := checkProblem(t, res, body, 429, json)
					ids[id] = true
					after, err := strconv.Atoi(res.Header.Get("Retry-After"))
					if err != nil || after < 1 {
						t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
					}
					for _, want := range []string{"Your address, 192.0.2.1, has used more", "try again in ", id} {
						if !strings.Contains(body, want) {
							t.Errorf("%q is not in %q", want, body)
						}
					}
				}
			}
			if asked != 1 || r.handler.Policy().Meter.Running() != 0 {
				t.Errorf("the backend was asked %d times", asked)
			}
			for _, line := range r.lines()[1:] {
				if !ids[line["request"].(string)] || line["verdict"] != "refuse" || line["reason"] != "debt" || line["key"] != "192.0.2.1" || line["cost_ms"] != 0.0 {
					t.Errorf("access log: %v", line)
				}
			}
			testkit.Same(t, 0, r.errors.Len(), "log lines: %v", r.errors.All())
		})
	}
}

// TestRefusedAsByOthers: in a domain with other gatekeepers, a refusal may have their status. The text for
// clients and the time after which to return stay the same. Programs are asked for a signature.
func TestRefusedAsByOthers(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			r := startVirtual(t, sleeper, fairly, func(s *setup) {
				s.classify.Classes = append(s.classify.Classes, classify.Class{Name: "api", By: classify.MappedAddress})
				s.limits.Classes = append(s.limits.Classes, limiter.ClassInfo{Name: "api", Budget: limiter.Budget{External: true, MaxHold: 5 * time.Second}})
			})
			r.change(func(p *Policy) { p.Unavailable = map[string]bool{"api": status == 503} })
			r.do(r.client, request(t, nil, "GET /"))
			r.limiter.Raise(time.Now(), limiter.Key{Class: "api", ID: "::ffff:192.0.2.1"}, time.Now().Add(time.Minute))
			res, body := r.do(r.client, request(t, nil, "GET /", "Accept: application/json"))
			checkProblem(t, res, body, status, true)
			if after, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || after < 60 || !strings.Contains(body, `"class":"api"`) {
				t.Errorf("Retry-After %q, %s", res.Header.Get("Retry-After"), body)
			}
			person, _ := r.do(r.client, request(t, nil, "GET /", "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"))
			if robot, none := res.Header.Get("Accept-Signature"), person.Header.Get("Accept-Signature"); robot != acceptSignature || none != "" {
				t.Errorf("a program is asked for a signature by %q, a browser by %q", robot, none)
			}
		})
	}
}

// TestRoomIsFull fills the waiting room with uploads. The uploads that have a place there get answers that show
// the body that was sent before the wait.
func TestRoomIsFull(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
		inBubble(t, m.String(), func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				time.Sleep(time.Second)
				giveBack(w, q)
			}), mode(m), func(s *setup) {
				s.limits.Classes[0].Budget.CPUs, s.limits.MaxHold, s.limits.MaxHeld = 0.1, time.Minute, 2
			})
			var held sync.WaitGroup
			// The second and the third answer are held for 10 s or more.
			for _, size := range []int{1, 10, smallBody + 10} {
				held.Go(func() {
					res, got := r.do(r.client, request(t, bytes.NewReader(noise(size)), "POST /"))
					if res.StatusCode != 200 || got != string(noise(size)) {
						t.Errorf("one of those before got %d and %d bytes, want %d", res.StatusCode, len(got), size)
					}
				})
				synctest.Wait() // one after the other, because two requests of an unknown client may slip in together
			}
			time.Sleep(1500 * time.Millisecond)
			if r.limiter.Held() < 2 {
				t.Fatalf("%d are held, want a full room", r.limiter.Held())
			}
			res, body := r.do(r.client, request(t, nil, "GET /"))
			if res.StatusCode != 503 || !strings.Contains(body, "More visitors are waiting than this server has room for.") || res.Header.Get("Retry-After") == "" {
				t.Errorf("got %d %q, %v", res.StatusCode, body, res.Header)
			}
			held.Wait()
		})
	}
}

// TestRefusedUpload: a refusal doesn't wait for a body that never comes.
func TestRefusedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap))
		r.do(r.client, request(t, nil, "GET /"))
		from := time.Now()
		res, _ := r.say("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf of it")
		if res.StatusCode != 429 || !res.Close || time.Since(from) != 0 {
			t.Errorf("got %d, close %t after %s", res.StatusCode, res.Close, time.Since(from))
		}
	})
}

// TestJitter: Retry-After is never too early, nor more than a quarter and a second too late, and it varies.
func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))
		s := jitter(wait)
		got := time.Duration(s) * time.Second
		if s < 1 || got < wait || got > wait+wait/4+time.Second {
			t.Fatalf("%s became %d s", wait, s)
		}
	})
	seen := map[int]bool{}
	for range 100 {
		seen[jitter(100*time.Second)] = true
	}
	if len(seen) < 2 {
		t.Error("100 clients return in the same second")
	}
}

// TestSound: method, target and host must be single words, although HTTP/2 allows any characters in them, even
// a second target. If HTTP/2 allows the same information twice, both values must agree; otherwise the request
// is rejected.
func TestSound(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"plain":                  {func(*http.Request) {}, true},
		"the same host":          {func(q *http.Request) { q.Header["Host"] = []string{"EXAMPLE.com"} }, true},
		"another host":           {func(q *http.Request) { q.Header["Host"] = []string{"b"} }, false},
		"two hosts":              {func(q *http.Request) { q.Header["Host"] = []string{"example.com", "example.com"} }, false},
		"no host":                {func(q *http.Request) { q.Host = "" }, false},
		"an empty name":          {func(q *http.Request) { q.Host = ":80" }, false},
		"a host of two words":    {func(q *http.Request) { q.Host = "a b" }, false},
		"a URL":                  {func(q *http.Request) { q.RequestURI = "http://b/" }, false},
		"a star":                 {func(q *http.Request) { q.RequestURI = "*" }, false},
		"a star for OPTIONS":     {func(q *http.Request) { q.RequestURI, q.Method = "*", "OPTIONS" }, true},
		"a path for OPTIONS":     {func(q *http.Request) { q.Method = "OPTIONS" }, true},
		"a URL for OPTIONS":      {func(q *http.Request) { q.RequestURI, q.Method = "http://b/", "OPTIONS" }, false},
		"an authority":           {func(q *http.Request) { q.RequestURI, q.Method = "b:443", "CONNECT" }, true},
		"an authority for a GET": {func(q *http.Request) { q.RequestURI = "b:443" }, false},
		"a path of two words":    {func(q *http.Request) { q.RequestURI = "/a HTTP/1.0" }, false},
		"a method of two words":  {func(q *http.Request) { q.Method = "GET /admin HTTP/1.1" }, false},
		"no method":              {func(q *http.Request) { q.Method = "" }, false},
	} {
		q := httptest.NewRequest(http.MethodGet, "/a", nil)
		q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/2.0", 2, 0
		tc.change(q)
		testkit.Same(t, tc.want, isSound(q), "%s: sound", name)
	}
}

const (
	asBrowser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	inGerman  = "Accept-Language: de-DE,de;q=0.9,en;q=0.5"
)

// TestPage: a browser whose request is rejected gets a page in its language, over each protocol, that says what
// to do. A HEAD request gets the same answer without the page.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap))
		r.do(r.client, request(t, nil, "GET /"))
		for _, c := range []*http.Client{r.client, r.h2c} {
			for _, tc := range []struct{ language, want, says string }{
				{inGerman, "de", "Ihre Adresse, 192.0.2.1, hat mehr Rechenzeit dieses Servers verbraucht, als einem Besucher zusteht, vielleicht"},
				{"Accept-Language: en", "en", "Your address, 192.0.2.1, has used more"},
				{"Accept-Language: tlh", "en", "Please try again in "},
			} {
				res, body := r.do(c, request(t, nil, "GET /", asBrowser, tc.language))
				head, none := r.do(c, request(t, nil, "HEAD /", asBrowser, tc.language))
				if res.StatusCode != 429 || !strings.Contains(body, tc.says) || !strings.Contains(body, res.Header.Get("X-Request-Id")) {
					t.Errorf("got %d %s", res.StatusCode, body)
				}
				if head.StatusCode != 429 || none != "" {
					t.Errorf("HEAD: %d %q", head.StatusCode, none)
				}
				for _, h := range []http.Header{res.Header, head.Header} {
					for name, want := range map[string]string{
						"Content-Type": "text/html; charset=utf-8", "Content-Language": tc.want, "Cache-Control": "no-store",
						"X-Content-Type-Options": "nosniff", "Content-Security-Policy": pageRules,
					} {
						testkit.Same(t, want, h.Get(name), "%s", name)
					}
					if h.Get("Retry-After") == "" {
						t.Error("nobody says when to try again")
					}
				}
			}
		}
	})
}

// TestPageOfEachCause: each of the proxy's own answers shows a browser a page.
func TestPageOfEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := memory()
		_ = back.Close()
		r := startOn(t, memory(), back, nil)
		for _, tc := range []struct {
			line, header string
			status       int
			says         string
		}{
			{"GET /", "X: y", 502, "Der Server hinter dieser Seite antwortet gerade nicht; das liegt nicht an Ihnen."},
			{"TRACE /", "Max-Forwards: 0", 405, "Dieser Server unterstützt diese Art von Anfrage nicht."},
		} {
			for _, c := range []*http.Client{r.client, r.h2c} {
				res, body := r.do(c, request(t, nil, tc.line, asBrowser, inGerman, tc.header))
				if res.StatusCode != tc.status || !strings.Contains(body, tc.says) || res.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: %d %s", tc.line, res.StatusCode, body)
				}
			}
		}
		for _, tc := range []struct {
			request string
			status  int
			says    string
		}{
			{"GET http://h/a b HTTP/1.1\r\nHost: h\r\n\r\n", 400, "Bad Request: malformed message: no request line"}, // before there is a header, the answer is plain text
			{"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n" + asBrowser + "\r\n\r\n", 405, "This server does not support this kind of request."},
			{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + asBrowser + "\r\n\r\nzz\r\n", 400, "Your data was damaged on its way to this server."},
		} {
			res, body := r.say(tc.request)
			if res.StatusCode != tc.status || !strings.Contains(body, tc.says) || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%q: %d %s", tc.request, res.StatusCode, body)
			}
		}
	})
}

// TestPageTakesNothing: text that a client sends never appears in a page or in a field of the answer, except a
// valid id from a trusted proxy.
func TestPageTakesNothing(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap), func(s *setup) {
			s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		})
		r.do(r.client, request(t, nil, "GET /"))
		for _, c := range []*http.Client{r.client, r.h2c} {
			q := request(t, nil, "GET /?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", asBrowser, "Accept-Language: de,"+evil,
				"User-Agent: "+evil, "Cookie: a="+evil, "Referer: http://h/"+evil, "X-Request-Id: "+evil)
			q.Host = "h.example"
			q.URL.RawQuery += "&b=" + `<b>`
			res, body := r.do(c, q)
			if res.StatusCode != 429 || !strings.Contains(body, "Your address, 192.0.2.1,") {
				t.Fatalf("got %d %s", res.StatusCode, body)
			}
			var header bytes.Buffer
			testkit.Must(t, res.Header.Write(&header))
			for _, part := range []string{"script", "alert", "h.example", "<b>"} {
				if strings.Contains(body, part) || strings.Contains(header.String(), part) {
					t.Errorf("%q is in %s\n%s", part, header.String(), body)
				}
			}
		}
	})
}

// everywhere shows a request's values in every place that a template may use.
const everywhere = `<!doctype html><html lang="{{.Language}}"><head><title>{{.RequestID}}</title>
<style>p{content:"{{.RequestID}}"}</style><script>var id = {{.RequestID}}, s = "{{.Address}}", r = {{.RetryAfter}};</script></head>
<body title="{{.RequestID}}" data-x={{.RequestID}} data-y='{{.RequestID}}'><p onclick="f({{.RequestID}})">{{.What}} {{.Address}} {{.Wait}}</p>
<a href="/ask?id={{.RequestID}}&amp;a={{.Address}}">x</a><textarea>{{.RequestID}}</textarea><!-- {{.RequestID}} --></body></html>`

// TestNoIDGetsOut: an accepted id changes only the texts of a page, whatever the template.
func TestNoIDGetsOut(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "error.html"), []byte(everywhere), 0o600))
	pages, err := errorpage.Load(dir)
	testkit.Must(t, err)
	page := pages.Find("h", nil, errorpage.DebtOfAddress)
	shape := func(id string) string {
		return shapeOf(t, page.AppendHTML(nil, &errorpage.Values{RequestID: id, Client: "2001:db8::1", RetryAfter: 75}))
	}
	plain := shape("7b3e0a42")
	evil := rapid.OneOf(
		rapid.String(), rapid.StringMatching(`[a-zA-Z0-9_.:=+/@-]{1,64}`), rapid.StringMatching(`[a-z<>"'&;:/=+@._{}\\()\x60 -]{0,70}`),
		rapid.SampledFrom([]string{
			"a<b>", `a"x="`, "a'x='", "a x=", "a\tx=", "a>", "</title><script>alert(1)</script>", "';alert(1)//", "{{.RequestID}}",
			"--><b>", "\r\nSet-Cookie: a=b", "\x00", "]]>", "*/}body{}", strings.Repeat("a", 64), strings.Repeat("/=+@", 16),
		}))
	rapid.Check(t, func(t *rapid.T) {
		id := evil.Draw(t, "id")
		if given := givenID(http.Header{requestHeader: {id}}); given != "" && shape(given) != plain {
			t.Fatalf("%q changes the page", given)
		}
	})
}

// shapeOf returns the elements and attributes of a page, without texts and values.
func shapeOf(t *testing.T, page []byte) string {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	testkit.Must(t, err)
	var out strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			continue
		}
		fmt.Fprintf(&out, "%d", n.Type)
		if n.Type == html.ElementNode {
			out.WriteString(n.Data)
		}
		for _, a := range n.Attr {
			out.WriteString(" " + a.Key)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
