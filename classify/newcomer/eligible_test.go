package newcomer

import (
	"bufio"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

// read parses a request as the server does. Without fields, the request is Chrome's navigation over HTTP. Each
// field replaces one of its header fields, or removes it.
func read(t testing.TB, line string, fields ...string) *http.Request {
	t.Helper()
	head := map[string]string{
		"Host": "site.example", "User-Agent": chrome, "Upgrade-Insecure-Requests": "1",
		"Accept":          "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
		"Accept-Encoding": "gzip, deflate", "Accept-Language": "de",
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if head[name] = value; value == "" {
			delete(head, name)
		}
	}
	text := line + " HTTP/1.1\r\n"
	for name, value := range head {
		text += name + ": " + value + "\r\n"
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text + "\r\n")))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return r
}

// TestWhatBrokeElsewhere checks the rule against problems of other software that challenges newcomers. The
// names of the cases say what broke, and where.
func TestWhatBrokeElsewhere(t *testing.T) {
	for _, tc := range []struct {
		name   string
		line   string
		fields []string
		want   bool
	}{
		{"a browser over HTTP", "GET /", nil, true},
		{"a browser over HTTPS", "GET /wiki/A?b", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-Site: cross-site", "Sec-Fetch-User: ?1"}, true},
		{"a search engine's visitor", "GET /wiki/A", []string{"Referer: https://search.example/"}, true},
		{"a reader who comes back to a page", "GET /wiki/A", []string{"If-Modified-Since: Fri, 20 Nov 2026 06:00:00 GMT", `If-None-Match: "x"`}, true},
		{"a reload", "GET /wiki/A", []string{"Cache-Control: no-cache", "Pragma: no-cache"}, true},
		{"a phone called Cubot", "GET /", []string{"User-Agent: Mozilla/5.0 (Linux; Android 13; CUBOT NOTE 7) AppleWebKit/537.36 Chrome/118.0 Mobile Safari/537.36"}, true},
		{"a pass that no longer counts", "GET /", []string{"Cookie: tempomat_pass=expired"}, true},

		{"anubis#1946: parallel requests of a page's parts", "GET /style.css", []string{"Accept: text/css,*/*;q=0.1"}, false},
		{"anubis#1828: an image", "GET /a.png", []string{"Accept: image/avif,image/webp,*/*;q=0.8"}, false},
		{"anubis#1314: a script", "GET /load.php?modules=x", []string{"Accept: */*"}, false},
		{"a frame", "GET /frame", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, false},
		{"an embedded object", "GET /frame", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: embed"}, false},

		{"copr#4110: POST became GET, votes were lost", "POST /vote", nil, false},
		{"lobsters#2225: a form", "POST /login", []string{"Content-Type: application/x-www-form-urlencoded", "Content-Length: 3"}, false},
		{"another method", "PUT /a", nil, false},
		{"a page requested by HEAD", "HEAD /", nil, false},
		{"OPTIONS", "OPTIONS /", nil, false},
		{"a GET with a body", "GET /search", []string{"Content-Length: 3"}, false},
		{"a GET with chunks", "GET /search", []string{"Transfer-Encoding: chunked"}, false},
		{"lobsters#2225: a user who is logged in", "GET /", []string{"Cookie: session=1"}, false},
		{"a user who is logged in and has an old pass", "GET /", []string{"Cookie: tempomat_pass=x; session=1"}, false},

		{"omicron#66: to a search engine, the page was missing", "GET /", []string{"User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}, false},
		{"a search engine disguised as a browser", "GET /", []string{"User-Agent: Mozilla/5.0 (Linux; Android 6.0.1) AppleWebKit/537.36 Chrome/1.2.3.4 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}, false},
		{"a robot that only gives the URL of its page", "GET /", []string{"User-Agent: Mozilla/5.0 (X11; Linux x86_64; +https://example.org/about) Gecko/20100101 Firefox/115.0"}, false},
		{"a robot that says that it is one", "GET /", []string{"User-Agent: Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2)"}, false},
		{"a link preview", "GET /", []string{"User-Agent: facebookexternalhit/1.1"}, false},

		{"testcookie#29: a client without cookies that doesn't claim to be a browser", "GET /", []string{"User-Agent: curl/8.5.0"}, false},
		{"a library", "GET /", []string{"User-Agent: python-requests/2.31.0"}, false},
		{"no User-Agent", "GET /", []string{"User-Agent"}, false},

		{"jabali#1463: ACME", "GET /.well-known/acme-challenge/token", nil, false},
		{"jabali#1463: ACME, encoded", "GET /%2Ewell-known/acme-challenge/token", nil, false},
		{"jabali#1463: a health check", "GET /health", []string{"Accept: */*"}, false},
		{"an application", "GET /api/1", []string{"Accept: application/json"}, false},
		{"an application that accepts pages, too", "GET /api/1", []string{"Accept: application/json, text/html"}, false},
		{"no Accept", "GET /", []string{"Accept"}, false},
		{"anything", "GET /", []string{"Accept: */*"}, false},
		{"a feed reader", "GET /blog", []string{"Accept: application/rss+xml, application/xml;q=0.8, text/html;q=0.7"}, false},
		{"a feed reader of Atom", "GET /blog", []string{"Accept: application/atom+xml, text/html;q=0.7"}, false},
		{"a feed, by its path", "GET /blog/feed/", nil, false},
		{"a feed, by its name", "GET /index.RSS?all", nil, false},
		{"a feed of WordPress", "GET /?feed=rss2", nil, false},
		{"a feed of MediaWiki", "GET /index.php?action=feedrecentchanges", nil, false},
		{"a feed of a history", "GET /index.php?title=A&action=history&feed=atom", nil, false},
		{"a site map", "GET /sitemap.xml", nil, false},
		{"robots.txt", "GET /robots.txt", nil, false},

		{"crowdsec#4646: a script's request", "GET /", []string{"X-Requested-With: XMLHttpRequest"}, false},
		{"a modern script's request", "GET /", []string{"Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, false},
		{"a script's request from another site", "GET /", []string{"Origin: https://other.example"}, false},

		{"prefetch", "GET /", []string{"Sec-Purpose: prefetch"}, false},
		{"prerender", "GET /", []string{"Sec-Purpose: prefetch;prerender"}, false},
		{"prefetch by old browsers", "GET /", []string{"Purpose: prefetch"}, false},
		{"Safari's preview", "GET /", []string{"X-Purpose: preview"}, false},
		{"Firefox's old prefetch", "GET /", []string{"X-Moz: prefetch"}, false},

		{"a resumed download", "GET /a.pdf", []string{"Range: bytes=5-"}, false},
		{"a password", "GET /", []string{"Authorization: Basic x"}, false},
		{"a WebSocket", "GET /", []string{"Connection: Upgrade", "Upgrade: websocket"}, false},
		{"a client that waits for 100", "GET /", []string{"Expect: 100-continue"}, false},
		{"a condition of WebDAV", "GET /", []string{`If-Match: "x"`}, false},
		{"a front end that removes a prefix", "GET /", []string{"X-Forwarded-Prefix: /app"}, false},
		{"an absolute form", "GET http://site.example/", nil, false},
		{"another site", "GET //evil.example/", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := read(t, tc.line, tc.fields...)
			who := classify.Result{Client: netip.MustParseAddr("192.0.2.7")}
			testkit.Same(t, tc.want, New().Eligible(dawn, r, &who), "eligible")
			who.Exempt = true
			if New().Eligible(dawn, r, &who) {
				t.Error("eligible, though it is exempt")
			}
			who.Exempt, r.ProtoMajor, r.ProtoMinor = false, 1, 0
			if New().Eligible(dawn, r, &who) {
				t.Error("eligible, though it is HTTP/1.0")
			}
			who.TrustedPeer = true
			testkit.Same(t, tc.want, New().Eligible(dawn, r, &who), "HTTP/1.0 from a trusted proxy: eligible")
			who.TrustedPeer = false
			r.ProtoMajor = 2
			testkit.Same(t, tc.want, New().Eligible(dawn, r, &who), "HTTP/2: eligible")
		})
	}
}

// TestFieldsGivenTwice checks that a request with a field given twice is not a navigation.
func TestFieldsGivenTwice(t *testing.T) {
	r := read(t, "GET /", "Sec-Fetch-Mode: navigate")
	r.Header["Sec-Fetch-Mode"] = append(r.Header["Sec-Fetch-Mode"], "cors")
	if isNavigation(r, new(classify.Result)) {
		t.Error("two Sec-Fetch-Mode")
	}
	r = read(t, "GET /")
	r.Header["User-Agent"] = []string{chrome, "curl/8"}
	if isNavigation(r, new(classify.Result)) {
		t.Error("two User-Agents")
	}
}
