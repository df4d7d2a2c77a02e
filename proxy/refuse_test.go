package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/errorpage"
)

// sleeper is a backend that takes a second.
var sleeper = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })

// indebted makes the mode refuse a client after one of the sleeper's answers.
func indebted(m limiter.Mode) func(*setup) {
	return func(s *setup) {
		s.limits.Mode = m
		s.limits.Classes[0].Budget.CPUs = 0.01
		s.limits.MaxHold = 10 * time.Second
	}
}

func TestRefusedForDebt(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
		t.Run(m.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
						for _, want := range []string{"Your address, 192.0.2.1, used more than its share", "try again in " + strconv.Itoa(after) + " s", id} {
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
				if n := r.errors.Len(); n != 0 {
					t.Errorf("%d log lines: %v", n, r.errors.All())
				}
			})
		})
	}
}

// TestRefusedAsByOthers: in a domain with other gatekeepers a refusal may have their status;
// what clients are told, and when to come back, is as ever. Programs are asked for a signature.
func TestRefusedAsByOthers(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			r := startVirtual(t, sleeper, fairly, func(s *setup) {
				s.classify.Classes = append(s.classify.Classes, classify.Class{Name: "api", By: classify.MappedAddress})
				s.limits.Classes = append(s.limits.Classes, limiter.ClassInfo{Name: "api", Budget: limiter.Budget{External: true, MaxHold: 5 * time.Second}})
			})
			p := *r.handler.Policy()
			p.Unavailable = map[string]bool{"api": status == 503}
			r.handler.SetPolicy(&p)
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

// TestRoomIsFull fills the waiting room.
func TestRoomIsFull(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
		t.Run(m.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, sleeper, mode(m), func(s *setup) {
					s.limits.Classes[0].Budget.CPUs, s.limits.MaxHold, s.limits.MaxHeld = 0.1, time.Minute, 2
				})
				// The second and the third are held for 10 s or more.
				done := make(chan int, 3)
				for range 3 {
					go func() {
						res, _ := r.do(r.client, request(t, nil, "GET /"))
						done <- res.StatusCode
					}()
					synctest.Wait() // one after the other: of a client that nobody knows two may slip in together
				}
				time.Sleep(1500 * time.Millisecond)
				if r.limiter.Held() < 2 {
					t.Fatalf("%d are held, want a full room", r.limiter.Held())
				}
				res, body := r.do(r.client, request(t, nil, "GET /"))
				if res.StatusCode != 503 || !strings.Contains(body, "This server has as many requests waiting as it can hold.") || res.Header.Get("Retry-After") == "" {
					t.Errorf("got %d %q, %v", res.StatusCode, body, res.Header)
				}
				for range 3 {
					if status := <-done; status != 200 {
						t.Errorf("one of those before got %d", status)
					}
				}
			})
		})
	}
}

// TestRefusedUpload checks that a refusal is not behind a body that never comes.
func TestRefusedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap))
		r.do(r.client, request(t, nil, "GET /"))
		c := r.dial()
		go func() { send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf of it") }()
		from := time.Now()
		res := answerOn(t, c)
		if res.StatusCode != 429 || !res.Close || time.Since(from) != 0 {
			t.Errorf("got %d, close %t after %s", res.StatusCode, res.Close, time.Since(from))
		}
	})
}

// TestJitter checks that Retry-After is never too early, nor more than a quarter
// and a second too late, and that it differs.
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

// TestSoundStream: what HTTP/2 lets be said twice is said alike, or refused.
func TestSoundStream(t *testing.T) {
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
		"a URL":                  {func(q *http.Request) { q.RequestURI = "http://b/" }, false},
		"a star":                 {func(q *http.Request) { q.RequestURI = "*" }, false},
		"a star for OPTIONS":     {func(q *http.Request) { q.RequestURI, q.Method = "*", "OPTIONS" }, true},
		"a path for OPTIONS":     {func(q *http.Request) { q.Method = "OPTIONS" }, true},
		"a URL for OPTIONS":      {func(q *http.Request) { q.RequestURI, q.Method = "http://b/", "OPTIONS" }, false},
		"an authority":           {func(q *http.Request) { q.RequestURI, q.Method = "b:443", "CONNECT" }, true},
		"an authority for a GET": {func(q *http.Request) { q.RequestURI = "b:443" }, false},
	} {
		q := httptest.NewRequest(http.MethodGet, "/a", nil)
		q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/2.0", 2, 0
		tc.change(q)
		if got := isSound(q); got != tc.want {
			t.Errorf("%s: sound %t", name, got)
		}
	}
}

// TestTarget is what the backend is asked for where a client names a whole URL.
func TestTarget(t *testing.T) {
	for sent, want := range map[string]string{
		"GET /a%2Fb/%7e\"x?y": "/a%2Fb/%7e\"x?y", "GET http://h/a%2Fb/%7e\"x?y": "/a%2Fb/%7e\"x?y", "GET HTTPS://h": "/", "GET http://h?a": "/?a",
		"OPTIONS *": "*", "OPTIONS http://h": "*", "OPTIONS http://h/": "/", "GET http://h/http://i/j": "/http://i/j",
	} {
		method, uri, _ := strings.Cut(sent, " ")
		if got := target(&http.Request{Method: method, RequestURI: uri}); got != want {
			t.Errorf("%s: %q", sent, got)
		}
	}
}

const (
	asBrowser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	inGerman  = "Accept-Language: de-DE,de;q=0.9,en;q=0.5"
)

// showPages has the rig show the shipped pages, or those of a directory.
func (r *rig) showPages(t *testing.T, o errorpage.Options, change ...func(*Policy)) {
	t.Helper()
	o.Languages = []string{"en", "de"}
	pages, err := errorpage.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	p := *r.handler.Policy()
	p.Pages = pages
	for _, f := range change {
		f(&p)
	}
	r.handler.SetPolicy(&p)
}

// TestPage: a browser that is refused is shown a page in its language, over each protocol, and
// what it may do with it; a HEAD gets the same without the page.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap))
		r.showPages(t, errorpage.Options{})
		r.do(r.client, request(t, nil, "GET /"))
		for _, c := range []*http.Client{r.client, r.h2c} {
			for _, tc := range []struct{ language, want, says string }{
				{inGerman, "de", "Ihre Adresse, 192.0.2.1, hat mehr Zeit dieses Servers verbraucht, als einem Besucher zusteht, vielleicht"},
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
						if h.Get(name) != want {
							t.Errorf("%s: %q, want %q", name, h.Get(name), want)
						}
					}
					if h.Get("Retry-After") == "" {
						t.Error("nobody says when to try again")
					}
				}
			}
			for accept, json := range accepts {
				if strings.Contains(accept, "html") {
					continue
				}
				res, body := r.do(c, request(t, nil, "GET /", "Accept: "+accept, inGerman))
				checkProblem(t, res, body, 429, json)
			}
		}
	})
}

// TestPageOfEachCause: whatever the proxy answers itself, a browser is shown a page.
func TestPageOfEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := memory()
		_ = back.Close()
		r := startOn(t, memory(), back, nil)
		r.showPages(t, errorpage.Options{})
		for _, tc := range []struct {
			line, header string
			status       int
			says         string
		}{
			{"GET /", "X: y", 502, "Der Server hinter dieser Seite antwortet gerade nicht; das liegt nicht an Ihnen."},
			{"TRACE /", "Max-Forwards: 0", 405, "Dieser Server bietet nicht an, was die Anfrage verlangt."},
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
			{"GET http://h/a b HTTP/1.1\r\nHost: h\r\n\r\n", 400, "Bad Request: malformed message: no request line"}, // before there is a header: plain text
			{"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n" + asBrowser + "\r\n\r\n", 405, "This server does not offer what the request asks for."},
			{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + asBrowser + "\r\n\r\nzz\r\n", 400, "Your data was damaged on its way to this server."},
		} {
			conn := r.dial()
			send(t, conn, tc.request)
			res := answerOn(t, conn)
			body, err := io.ReadAll(res.Body)
			if res.StatusCode != tc.status || err != nil || !strings.Contains(string(body), tc.says) || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%q: %d %v %s", tc.request, res.StatusCode, err, body)
			}
		}
	})
}

// TestPageTakesNothing: what a client sends is in no page and in no field of the answer; only
// the id that a trusted proxy gave is, if it is one.
func TestPageTakesNothing(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap), func(s *setup) {
			s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		})
		r.showPages(t, errorpage.Options{})
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
			if err := res.Header.Write(&header); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"script", "alert", "h.example", "<b>"} {
				if strings.Contains(body, part) || strings.Contains(header.String(), part) {
					t.Errorf("%q is in %s\n%s", part, header.String(), body)
				}
			}
		}
	})
}

func TestRobots(t *testing.T) {
	const rules = "User-agent: *\nDisallow: /search\n"
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			time.Sleep(time.Second)
			_, _ = io.WriteString(w, "the site's")
		}), indebted(limiter.Cap))
		if _, body := r.do(r.client, request(t, nil, "GET /robots.txt")); body != "the site's" {
			t.Errorf("got %q without rules of ours", body)
		}
		// Who owes may still read them.
		r.showPages(t, errorpage.Options{}, func(p *Policy) { p.RobotsTxt = []byte(rules) })
		for _, c := range []*http.Client{r.client, r.h2c} {
			res, body := r.do(c, request(t, nil, "GET /robots.txt?a=b"))
			if res.StatusCode != 200 || body != rules || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" || res.Header.Get("Cache-Control") != "max-age=3600" {
				t.Errorf("got %d %q %v", res.StatusCode, body, res.Header)
			}
			if res, body := r.do(c, request(t, nil, "HEAD /robots.txt")); res.StatusCode != 200 || body != "" {
				t.Errorf("HEAD: %d %q", res.StatusCode, body)
			}
			for _, other := range []string{"POST /robots.txt", "GET /robots.txt/", "GET /a/robots.txt", "GET /Robots.txt"} {
				if res, _ := r.do(c, request(t, nil, other)); res.StatusCode != 429 {
					t.Errorf("%s: %d", other, res.StatusCode)
				}
			}
		}
		if asked != 1 {
			t.Errorf("the backend was asked %d times", asked)
		}
	})
}
