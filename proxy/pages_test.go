package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/errorpage"
)

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
				{inGerman, "de", "Ihre Adresse, 192.0.2.1, hat mehr von der Zeit dieses Servers verbraucht, als einem Besucher zusteht. Die Grenze hält"},
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
			{"GET /", "X: y", 502, "Der Server hinter dieser Adresse antwortet gerade nicht. Es liegt nicht an Ihnen."},
			{"TRACE /", "Max-Forwards: 0", 405, "Der Server tut nicht, was die Anfrage verlangt."},
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
			{"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n" + asBrowser + "\r\n\r\n", 405, "The server does not do what the request asks for."},
			{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + asBrowser + "\r\n\r\nzz\r\n", 400, "What was sent is damaged."},
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
