package classify

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/limiter"
)

// hosts are names of addresses. Of others nothing is known.
type hosts map[string]string

func (h hosts) Host(_ time.Time, a netip.Addr) (string, bool) {
	name, known := h[a.String()]
	return name, known
}

const (
	googlebot = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/120.0.0.0 Safari/537.36"
	gptbot    = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)"
	person    = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)

func robots(t *testing.T, change func(*RobotsConfig)) *Robots {
	t.Helper()
	c := RobotsConfig{
		Class: "robot", Replaces: []string{"slash32", "slash24", "userAgent"},
		Crawlers: append(KnownCrawlers(),
			Crawler{Name: "duckduckbot", Agents: []string{"duckduckbot"}, Addresses: []netip.Prefix{netip.MustParsePrefix("20.191.45.0/24")}},
			Crawler{Name: "unchecked", Agents: []string{"uncheckedbot"}}),
		Hosts: hosts{
			"66.249.66.1": "crawl-66-249-66-1.googlebot.com", "2001:4860:4801::1": "crawl6.googlebot.com",
			"198.51.100.1": "", "198.51.100.2": "x.search.msn.com", "198.51.100.3": "crawl.notgooglebot.com", "198.51.100.4": "crawl.googlebot.com.example.net",
		},
	}
	if change != nil {
		change(&c)
	}
	x, err := NewRobots(c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// recognised classifies a request as the proxy does.
func recognised(t *testing.T, x *Robots, address, agent string) (*Result, bool) {
	t.Helper()
	c, err := New(Config{
		Exempt: []Exemption{{Prefix: netip.MustParsePrefix("192.0.2.99/32")}},
		Classes: []Class{
			{Name: "slash32", By: Slash32}, {Name: "slash24", By: Slash24}, {Name: "userAgent", By: UserAgent},
			{Name: "path", By: PathShape}, {Name: "site.told", By: Slash32},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(address, agent)
	var res Result
	c.Classify(r, &res)
	return &res, x.Recognise(time.Now(), &res)
}

func newRequest(address, agent string) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "http://site.example/a", nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 1234).String()
	r.Header.Set("User-Agent", agent)
	return r
}

func TestRecognise(t *testing.T) {
	const account, pooled, no, lie = "account", "pooled", "none", "forged"
	for _, x := range []struct {
		what, address, agent, is, keys string
	}{
		{"a true one", "66.249.66.1", googlebot, account, "robot googlebot, path /a, site.told 66.249.66.1"},
		{"a true one, IPv6", "2001:4860:4801::1", googlebot, account, "robot googlebot, path /a, site.told 2001:4860:4801::/64"},
		{"another of its User-Agents", "66.249.66.1", "GoogleOther", account, "robot googlebot, path /a, site.told 66.249.66.1"},
		{"one of a list", "20.191.45.7", "DuckDuckBot/1.1", account, "robot duckduckbot, path /a, site.told 20.191.45.7"},
		{"not on the list", "20.191.46.7", "DuckDuckBot/1.1", lie, "slash32 20.191.46.7, slash24 20.191.46.0/24, userAgent duckduckbot, path /a, site.told 20.191.46.7"},
		{"a liar", "198.51.100.1", googlebot, lie, "slash32 198.51.100.1, slash24 198.51.100.0/24, userAgent googlebot, path /a, site.told 198.51.100.1"},
		{"another's robot", "198.51.100.2", googlebot, lie, "slash32 198.51.100.2, slash24 198.51.100.0/24, userAgent googlebot, path /a, site.told 198.51.100.2"},
		{"a domain that ends alike", "198.51.100.3", googlebot, lie, "slash32 198.51.100.3, slash24 198.51.100.0/24, userAgent googlebot, path /a, site.told 198.51.100.3"},
		{"a domain that has it within", "198.51.100.4", googlebot, lie, "slash32 198.51.100.4, slash24 198.51.100.0/24, userAgent googlebot, path /a, site.told 198.51.100.4"},
		{"nobody knows yet", "203.0.113.1", googlebot, no, "slash32 203.0.113.1, slash24 203.0.113.0/24, userAgent googlebot, path /a, site.told 203.0.113.1"},
		{"by its name alone", "203.0.113.1", gptbot, pooled, "robot gptbot, robot (others), slash32 203.0.113.1, slash24 203.0.113.0/24, userAgent gptbot, path /a, site.told 203.0.113.1"},
		{"a crawler that nobody can verify", "203.0.113.1", "UncheckedBot/1", pooled, "robot unchecked, robot (others), slash32 203.0.113.1, slash24 203.0.113.0/24, userAgent uncheckedbot, path /a, site.told 203.0.113.1"},
		{"a program", "66.249.66.1", "curl/8.1", no, "slash32 66.249.66.1, slash24 66.249.66.0/24, userAgent curl, path /a, site.told 66.249.66.1"},
		{"a person there", "66.249.66.1", person, no, "slash32 66.249.66.1, slash24 66.249.66.0/24, userAgent firefox linux, path /a, site.told 66.249.66.1"},
		{"exempt", "192.0.2.99", gptbot, no, ""},
	} {
		res, ok := recognised(t, robots(t, nil), x.address, x.agent)
		if got := keyText(res); got != x.keys {
			t.Errorf("%s: charged to %s\nwant %s", x.what, got, x.keys)
		}
		is := no
		switch {
		case res.Pooled:
			is = pooled
		case res.Account && res.Evidence == Verified:
			is = account
		case res.Forged:
			is = lie
		}
		if is != x.is || ok != res.Account || ok && res.Standing != 1 {
			t.Errorf("%s: %s, want %s: %+v", x.what, is, x.is, res)
		}
	}
}

func keyText(res *Result) string {
	var all []string
	for _, k := range res.Keys() {
		all = append(all, k.Class+" "+k.ID)
	}
	return strings.Join(all, ", ")
}

// TestNobodyToAsk: without anybody who is asked for names, crawlers of domains are known by
// their name, and those of a list by it.
func TestNobodyToAsk(t *testing.T) {
	x := robots(t, func(c *RobotsConfig) { c.Hosts = nil })
	if res, _ := recognised(t, x, "66.249.66.1", "GoogleOther"); !res.Pooled || res.Keys()[0].ID != "googlebot" {
		t.Errorf("a crawler of a domain: %s", keyText(res))
	}
	if res, _ := recognised(t, x, "20.191.45.7", "DuckDuckBot"); res.Evidence != Verified {
		t.Errorf("one of a list: %s", keyText(res))
	}
}

// TestKey: a limit in requests of a class that the account stands in place of is for the account.
func TestKey(t *testing.T) {
	res, _ := recognised(t, robots(t, nil), "66.249.66.1", googlebot)
	for class, want := range map[string]limiter.Key{
		"slash32": {Class: "robot", ID: "googlebot"}, "userAgent": {Class: "robot", ID: "googlebot"},
		"robot": {Class: "robot", ID: "googlebot"}, "path": {Class: "path", ID: "/a"}, "slash16": {}, "": {},
	} {
		if k, ok := res.Key(class); k != want || ok != (want != limiter.Key{}) {
			t.Errorf("%s: %v, %t", class, k, ok)
		}
	}
	if res.Keep(func(string) bool { return false }); len(res.Keys()) != 0 {
		t.Errorf("keys %v", res.Keys())
	}
	if k, ok := res.Key("slash32"); ok {
		t.Errorf("without any key left, %v stands in place of one", k)
	}
	c, _ := New(Config{Classes: []Class{{Name: "slash32", By: Slash32}}})
	c.Classify(newRequest("192.0.2.1", person), res) // the same memory, for somebody else
	if k, ok := res.Key("userAgent"); ok || res.Account || res.Pooled {
		t.Errorf("%v, %+v", k, res)
	}
}

// TestFull: a robot finds its account whatever classes there are, or none at all.
func TestFull(t *testing.T) {
	x := robots(t, nil)
	for n := 1; n <= limiter.MaxKeys; n++ {
		for address, agent := range map[string]string{"66.249.66.1": googlebot, "203.0.113.1": gptbot} {
			classes := []Class{{Name: "slash32", By: Slash32}}
			for i := 1; i < n; i++ {
				classes = append(classes, Class{Name: fmt.Sprint("c", i), By: Slash24})
			}
			c, err := New(Config{Classes: classes})
			if err != nil {
				t.Fatal(err)
			}
			var res Result
			c.Classify(newRequest(address, agent), &res)
			ok := x.Recognise(time.Now(), &res)
			want := n
			if agent == gptbot {
				want = n + 2
			}
			if fits := want <= limiter.MaxKeys; ok != fits || fits != (res.Keys()[0].Class == "robot") || fits && len(res.Keys()) != want {
				t.Errorf("%d classes: %t, %s", n, ok, keyText(&res))
			}
		}
	}
}

func TestAccountOf(t *testing.T) {
	x := robots(t, nil)
	for agent, want := range map[string]string{
		googlebot: "googlebot", "googleother": "googlebot", "gptbot": "gptbot", gptbot: "gptbot", person: "", "curl/8": "", "Foo Spider/1": "foo spider",
	} {
		if k, ok := x.AccountOf(agent); k.ID != want || ok != (want != "") {
			t.Errorf("%s: %v, %t", agent, k, ok)
		}
	}
}

func TestNewRobotsFaults(t *testing.T) {
	_, err := NewRobots(RobotsConfig{Crawlers: []Crawler{
		{Name: "a", Agents: []string{"x"}, Addresses: []netip.Prefix{{}}}, {Name: "b", Agents: []string{"x"}},
	}})
	for _, want := range []string{`robot "a"`, `robot "b": "x" is a User-Agent of a already`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to tell %s", err, want)
		}
	}
}

// TestKnownCrawlers: each is found by the User-Agent that it documents.
func TestKnownCrawlers(t *testing.T) {
	x := robots(t, nil)
	for agent, want := range map[string]string{
		googlebot: "googlebot", "Googlebot-Image/1.0": "googlebot", "AdsBot-Google (+http://www.google.com/adsbot.html)": "googlebot",
		"Mozilla/5.0 (compatible; Google-InspectionTool/1.0;)":                     "googlebot",
		"Mediapartners-Google":                                                     "googlebot",
		"APIs-Google (+https://developers.google.com/webmasters/APIs-Google.html)": "googlebot",
		"Mozilla/5.0 (X11; Linux x86_64; Storebot-Google/1.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79.0.3945.88 Safari/537.36":                           "googlebot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36":        "bingbot",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1)":                  "applebot",
		"Mozilla/5.0 (compatible; YandexImages/3.0; +http://yandex.com/bots)":                                                                                     "yandexbot",
		"Mozilla/5.0 (compatible; YandexRenderResourcesBot/1.0; +http://yandex.com/bots) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0":                 "yandexbot",
		"Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)":                                                                     "baiduspider",
		"Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)":                                                                     "slurp",
		"Mozilla/5.0 (compatible; SeznamBot/4.0; +http://napoveda.seznam.cz/seznambot-intro/)":                                                                    "seznambot",
		"Mozilla/5.0 (Linux; Android 7.0;) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; PetalBot;+https://webmaster.petalsearch.com)": "petalbot",
		"Mozilla/5.0 (compatible; MojeekBot/0.11; +https://www.mojeek.com/bot.html)":                                                                              "mojeekbot",
		"CCBot/2.0 (https://commoncrawl.org/faq/)":                                                                                             "ccbot",
		"Mozilla/5.0 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)":                                                      "pinterestbot",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_10_1) AppleWebKit/600.2.5 (KHTML, like Gecko) Version/8.0.2 Safari/600.2.5 (Amazonbot/0.1)": "amazonbot",
	} {
		if of := x.byAgent[Family(agent)]; of == nil || of.Name != want || len(of.Domains) == 0 {
			t.Errorf("%s: %+v, want %s", agent, of, want)
		}
	}
}
