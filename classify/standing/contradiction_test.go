package standing

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"tempomat/classify"
)

// fetchSite is a Standing behind a trusted proxy at 10.0.0.1.
func fetchSite(t *testing.T) (judge func(at time.Duration, change func(*http.Request)) *classify.Result) {
	c, err := classify.New(classify.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}, Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New([16]byte{1}, Config{ClientClass: "slash32", SessionClass: "session"})
	if err != nil {
		t.Fatal(err)
	}
	return func(at time.Duration, change func(*http.Request)) *classify.Result {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:1"
		for name, value := range map[string]string{
			"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https", "User-Agent": chrome131,
			"Accept": "text/html", "Accept-Language": "en", "Accept-Encoding": "gzip",
		} {
			r.Header.Set(name, value)
		}
		change(r)
		res, visit := new(classify.Result), Visit{}
		c.Classify(r, res)
		s.Assess(noon.Add(at), r, res, &visit)
		return res
	}
}

func withFetchMode(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "navigate") }

// TestFetchModeIsMissing checks when the lack of Sec-Fetch-Mode is a contradiction:
// over HTTPS only, as somebody trusted says.
func TestFetchModeIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   classify.Evidence
	}{
		"it is missing":          {func(*http.Request) {}, classify.Contradiction},
		"it is there":            {withFetchMode, 0},
		"over HTTP":              {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "http") }, 0},
		"nobody says":            {func(r *http.Request) { r.Header.Del("X-Forwarded-Proto") }, 0},
		"the client itself says": {func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, 0},
		"our own TLS": {func(r *http.Request) {
			r.RemoteAddr, r.TLS = "192.0.2.1:1", new(tls.ConnectionState)
			r.Header.Del("X-Forwarded-Proto")
		}, classify.Contradiction},
		"the first says https": {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "HTTPS , http") }, classify.Contradiction},
		"one that may not send it": {func(r *http.Request) {
			r.Header.Set("User-Agent", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/15.0 Safari/605.1.15")
		}, 0},
		"a WebSocket":            {func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, 0},
		"a download, resumed":    {func(r *http.Request) { r.Header.Set("Range", "bytes=9-") }, 0},
		"a form":                 {func(r *http.Request) { r.Method = http.MethodPost }, 0},
		"without any User-Agent": {func(r *http.Request) { r.Header.Del("User-Agent") }, 0},
	} {
		judge := fetchSite(t)
		judge(0, withFetchMode)
		if res := judge(time.Second, c.change); res.Evidence != c.want {
			t.Errorf("%s: %q, want %q", name, res.Evidence, c.want)
		} else if want := map[classify.Evidence]float64{0: 1, classify.Contradiction: 0.5}[c.want]; res.Standing != want {
			t.Errorf("%s: standing %g, want %g", name, res.Standing, want)
		}
	}
}

// TestFetchModeDoesNotComeThrough checks that nobody is a liar where a front takes the
// header out.
func TestFetchModeDoesNotComeThrough(t *testing.T) {
	judge := fetchSite(t)
	for range 3 {
		if res := judge(0, func(*http.Request) {}); res.Evidence != 0 {
			t.Errorf("none ever came: %q", res.Evidence)
		}
	}
	judge(0, func(r *http.Request) { // over HTTP it tells nothing
		withFetchMode(r)
		r.Header.Set("X-Forwarded-Proto", "http")
	})
	if res := judge(0, func(*http.Request) {}); res.Evidence != 0 {
		t.Errorf("none came over TLS: %q", res.Evidence)
	}
	judge(0, withFetchMode)
	for at, want := range map[time.Duration]classify.Evidence{fetchSeen*time.Second - 1: classify.Contradiction, fetchSeen * time.Second: 0} {
		if res := judge(at, func(*http.Request) {}); res.Evidence != want {
			t.Errorf("%v after the last: %q, want %q", at, res.Evidence, want)
		}
	}
}

func TestWhoSendsFetchMode(t *testing.T) {
	const apple = "AppleWebKit/537.36 (KHTML, like Gecko) "
	for agent, want := range map[string]bool{
		chrome131: true,
		"Mozilla/5.0 (X11; Linux x86_64) " + apple + "Chrome/80.0.3987.87 Safari/537.36":                                                         true,
		"Mozilla/5.0 (X11; Linux x86_64) " + apple + "Chrome/79.0.3945.130 Safari/537.36":                                                        false,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + apple + "Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0":                                    true,
		"Mozilla/5.0 (Linux; Android 10; K) " + apple + "Chrome/131.0.0.0 Mobile Safari/537.36":                                                  true,
		"Mozilla/5.0 (Linux; Android 10; K; wv) " + apple + "Version/4.0 Chrome/131.0.0.0 Mobile Safari/537.36":                                  false,
		"Mozilla/5.0 (X11; Linux x86_64) " + apple + "Slack/4.41.97 Chrome/130.0.6723.59 Electron/33.0.1 Safari/537.36":                          false,
		"Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0":                                                                   true, // Tor Browser, and ESR
		"Mozilla/5.0 (Windows NT 10.0; rv:78.0) Gecko/20100101 Firefox/78.0":                                                                     false,
		"Mozilla/5.0 (X11; Linux x86_64; rv:68.9) Gecko/20100101 Goanna/6.7 Firefox/68.9 PaleMoon/33.3":                                          false,
		"Mozilla/5.0 (X11; Linux x86_64; rv:91.0) Gecko/20100101 Firefox/91.0 SeaMonkey/2.53.19":                                                 false,
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15":                  false,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0 Mobile/15E148 Safari/604.1": false,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/132.0 Mobile/15E148 Safari/605.1": false,
		"Mozilla/5.0 " + apple + "Chrome/131.0.0.0 Safari/537.36; Bytespider (https://example.com)":                                              false,
		"Mozilla/5.0 (X11; Linux x86_64) " + apple + "Chrome/131.0.0.0 Safari/537.36 (Applebot/0.1)":                                             false,
		fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:9) Gecko/20100101 Firefox/%d.0", leastFirefox):                                           true,
		fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:9) Gecko/20100101 Firefox/%d.0", leastFirefox-1):                                         false,
		"Mozilla/5.0 (X11) Chrome/":                        false,
		"Mozilla/5.0 (X11) Chrome/99999999999999999999999": true,
		"": false,
	} {
		if got := sendsFetchMode(agent); got != want {
			t.Errorf("%s: %v", agent, got)
		}
	}
	judge := fetchSite(t)
	judge(0, withFetchMode)
	const bot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/131.0.0.0 Safari/537.36"
	if res := judge(0, func(r *http.Request) { r.Header.Set("User-Agent", bot) }); res.Evidence != 0 {
		t.Errorf("a robot that is merely compatible: %q", res.Evidence)
	}
}
