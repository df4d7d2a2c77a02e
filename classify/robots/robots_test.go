package robots

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// told is a source of proofs. It has lists and the names of some addresses.
type told struct {
	hosts map[string]string
	lists *Lists
}

func (p told) Host(_ time.Time, a netip.Addr) (string, bool) {
	name, known := p.hosts[a.String()]
	return name, known
}

func (p told) Lists() *Lists { return p.lists }

// Signer returns the host that the request names.
func (p told) Signer(_ time.Time, r *http.Request, _ *classify.Result) (string, bool) {
	host := r.Header.Get("Signature-Input")
	return host, host != "unread"
}

// noon returns the time of all requests.
func noon() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }

// published returns lists by their URL. age is the time since they were confirmed.
func published(t *testing.T, age time.Duration, of map[string]string) *Lists {
	t.Helper()
	all := make(map[string]List)
	for url, text := range of {
		l := List{Confirmed: noon().Add(-age)}
		for p := range strings.FieldsSeq(text) {
			l.Prefixes = append(l.Prefixes, netip.MustParsePrefix(p))
		}
		l.Networks = classify.NewPrefixSet(l.Prefixes)
		all[url] = l
	}
	return NewLists(all)
}

const (
	googlebot = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/120.0.0.0 Safari/537.36"
	seekerbot = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; SeekerBot/1.2; +https://seeker.example/bot)"
	person    = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)

// lists returns the published addresses of some known robots.
func lists() map[string]string {
	return map[string]string{
		"https://openai.com/gptbot.json":            "203.0.113.16/28",
		"https://openai.com/chatgpt-user.json":      "203.0.113.32/28",
		"https://claude.com/crawling/bots.json":     "203.0.113.48/28 2001:db8:77::/48",
		"https://www.bing.com/toolbox/bingbot.json": "203.0.113.64/28",
	}
}

func robots(t *testing.T, change func(*Config)) *Robots {
	t.Helper()
	c := Config{
		Class: "robot", Replaces: []string{"slash32", "slash24", "userAgent"},
		Robots: append([]Robot{
			{Name: "ownbot", Agents: []string{"OwnBot"}, Addresses: []netip.Prefix{netip.MustParsePrefix("20.191.45.0/24")}},
			{Name: "unchecked", Agents: []string{"UncheckedBot"}},
		}, Known()...),
		Proofs: told{map[string]string{
			"66.249.66.1": "crawl-66-249-66-1.googlebot.com", "2001:4860:4801::1": "crawl6.googlebot.com", "203.0.113.200": "",
			"198.51.100.1": "", "198.51.100.2": "x.search.msn.com", "198.51.100.3": "crawl.notgooglebot.com", "198.51.100.4": "crawl.googlebot.com.example.net",
		}, published(t, time.Hour, lists())},
	}
	if change != nil {
		change(&c)
	}
	return New(c)
}

// recognised classifies a request, which may be signed, as the proxy does.
func recognised(t *testing.T, x *Robots, address, agent string, signer ...string) (*classify.Result, bool) {
	t.Helper()
	c := classify.New(classify.Config{
		Exempt: []classify.Exemption{{Prefix: netip.MustParsePrefix("192.0.2.99/32")}},
		Classes: []classify.Class{
			{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24}, {Name: "userAgent", By: classify.UserAgent},
			{Name: "path", By: classify.PathShape}, {Name: "site.told", By: classify.Slash32},
		},
	})
	r := newRequest(address, agent)
	r.Header.Set("Signature-Input", strings.Join(signer, ""))
	var res classify.Result
	c.Classify(r, &res)
	return &res, x.Recognise(noon(), r, &res)
}

func newRequest(address, agent string) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "http://site.example/a", nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 1234).String()
	r.Header.Set("User-Agent", agent)
	return r
}

func TestRecognise(t *testing.T) {
	const account, fetcher, pooled, no, lie = "account", "fetcher", "pooled", "none", "forged"
	x := robots(t, nil)
	for _, c := range []struct {
		what, address, agent, is string
		name                     string // of the account; empty: the request is charged to its address
	}{
		{"by DNS", "66.249.66.1", googlebot, account, "googlebot"},
		{"by DNS, IPv6", "2001:4860:4801::1", googlebot, account, "googlebot"},
		{"another of its User-Agents", "66.249.66.1", "GoogleOther", account, "googlebot"},
		{"by a list that was given", "20.191.45.7", "OwnBot/1.1", account, "ownbot"},
		{"by a published list", "203.0.113.17", "Mozilla/5.0 (compatible; GPTBot/1.2)", account, "gptbot"},
		{"by a published list, before DNS", "203.0.113.65", "Mozilla/5.0 (compatible; bingbot/2.0)", account, "bingbot"},
		{"of the names of one list", "2001:db8:77::1", "Claude-SearchBot/1.0", account, "claude-searchbot"},
		{"not on the list that was given", "20.191.46.7", "OwnBot/1.1", lie, ""},
		{"not on a published list", "203.0.113.1", "Mozilla/5.0 (compatible; GPTBot/1.2)", lie, ""},
		{"no list of its is there", "203.0.113.1", "DuckDuckBot/1.1", pooled, "duckduckbot"},
		{"on no list, and DNS says no", "203.0.113.200", "Mozilla/5.0 (compatible; bingbot/2.0)", lie, ""},
		{"on no list, and DNS says yes", "198.51.100.2", "Mozilla/5.0 (compatible; bingbot/2.0)", account, "bingbot"},
		{"on another operator's list", "203.0.113.17", "UncheckedBot/1.0", lie, ""},
		{"a fetcher for people", "203.0.113.33", "Mozilla/5.0 (compatible; ChatGPT-User/1.0)", fetcher, "openai for people"},
		{"a fetcher with a browser's name", "203.0.113.33", person, fetcher, "openai for people"},
		{"a fetcher with a program's name", "203.0.113.33", "python-requests/2.31", fetcher, "openai for people"},
		{"a crawler with a browser's name", "203.0.113.17", person, account, "gptbot"},
		{"a crawler from its operator's fetcher", "203.0.113.33", "GPTBot/1.2", account, "gptbot"},
		{"a fetcher from its operator's crawler", "203.0.113.17", "ChatGPT-User/1.0", account, "gptbot"},
		{"a browser's name on a list of three", "203.0.113.50", person, account, "claude-searchbot"},
		{"a fetcher from elsewhere", "203.0.113.1", "ChatGPT-User/1.0", lie, ""},
		{"a liar", "198.51.100.1", googlebot, lie, ""},
		{"a domain that ends alike", "198.51.100.3", googlebot, lie, ""},
		{"a domain that has it within", "198.51.100.4", googlebot, lie, ""},
		{"DNS has not answered yet", "203.0.113.1", googlebot, no, ""},
		{"by its name alone", "203.0.113.1", seekerbot, pooled, "seekerbot"},
		{"that nobody can verify", "203.0.113.1", "UncheckedBot/1", pooled, "unchecked"},
		{"a program", "66.249.66.1", "curl/8.1", no, ""},
		{"a person", "66.249.66.1", person, no, ""},
	} {
		res, ok := recognised(t, x, c.address, c.agent)
		is := no
		switch {
		case res.Pooled:
			is = pooled
		case res.Fetcher && res.Evidence == classify.Verified && res.Standing == fetcherStanding:
			is = fetcher
		case res.Account && res.Evidence == classify.Verified && res.Standing == 1:
			is = account
		case res.Forged:
			is = lie
		}
		if is != c.is || ok != res.Account || ok != (c.name != "") || res.Account && !res.Robot {
			t.Errorf("%s: got %s, want %s: %+v", c.what, is, c.is, res)
		}
		client := netip.MustParseAddr(c.address)
		network, _ := client.Prefix(24)
		address, wide := client.String(), network.String()
		if client.Is6() {
			network, _ = client.Prefix(64)
			address = network.String()
			network, _ = client.Prefix(56)
			wide = network.String()
		}
		own := fmt.Sprintf("slash32 %s, slash24 %s, userAgent %s, ", address, wide, classify.Family(c.agent))
		want := map[string]string{
			account: "robot " + c.name + ", ", fetcher: "robot " + c.name + ", ", no: own, lie: own, pooled: "robot " + c.name + ", robot (others), " + own,
		}[c.is] + "path /a, site.told " + address
		testkit.Same(t, want, keyText(res), "%s: charged to", c.what)
	}
	if res, ok := recognised(t, x, "192.0.2.99", seekerbot); ok || keyText(res) != "" {
		t.Errorf("exempt: %+v", res)
	}
}

func keyText(res *classify.Result) string {
	var all []string
	for _, k := range res.Keys() {
		all = append(all, k.Class+" "+k.ID)
	}
	return strings.Join(all, ", ")
}

// TestSigned: a signature proves a robot at any address, but no more than an address would.
func TestSigned(t *testing.T) {
	x := robots(t, nil)
	for _, s := range []struct{ address, agent, signer, account string }{
		{"203.0.113.1", person, "chatgpt.com", "openai for people"},
		{"203.0.113.1", "ChatGPT-User/1.0", "chatgpt.com", "openai for people"},
		{"203.0.113.1", "YouBot/1.0", "you.com", "youbot"},
		{"203.0.113.1", seekerbot, "you.com", "youbot"},
		{"203.0.113.1", "GPTBot/1.2", "chatgpt.com", "gptbot"},
		{"203.0.113.1", "GPTBot/1.2", "you.com", ""},
		{"203.0.113.17", "GPTBot/1.2", "you.com", "gptbot"},
		{"203.0.113.1", person, "signer.example", ""},
	} {
		res, ok := recognised(t, x, s.address, s.agent, s.signer)
		if ok != (s.account != "") || ok && (res.Keys()[0].ID != s.account || res.Evidence != classify.Verified) {
			t.Errorf("%s with the User-Agent %s, signed by %s: %s", s.address, s.agent, s.signer, keyText(res))
		}
	}
	testkit.Same(t, "by its signature", x.ProofOf(limiter.Key{Class: "robot", ID: "youbot"}), "the proof")
	for agent, address := range map[string]string{"ChatGPT-User/1.0": "203.0.113.1", "YouBot/1.0": "203.0.113.1", "GPTBot/1.2": "203.0.113.65"} {
		res, _ := recognised(t, x, address, agent, "unread")
		if res.Forged || res.Account || res.Keys()[0] != (limiter.Key{Class: "slash32", ID: address}) {
			t.Errorf("%s, whose signature was not read: %+v", agent, res)
		}
	}
}

// TestPeopleCostNothing: a User-Agent that doesn't name a robot causes no allocation.
func TestPeopleCostNothing(t *testing.T) {
	x, r := robots(t, nil), newRequest("192.0.2.1", person)
	c := classify.New(classify.Config{Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}}})
	var res classify.Result
	c.Classify(r, &res)
	if n := testing.AllocsPerRun(100, func() { x.Recognise(noon(), r, &res) }); n > 0 || res.Account {
		t.Errorf("%g allocations, account %t", n, res.Account)
	}
}

// TestLongNames: text beyond the part of a User-Agent that is read names no robot.
func TestLongNames(t *testing.T) {
	x := robots(t, nil)
	of, known := x.named("searchbot", "x "+strings.Repeat("y", classify.MaxAgentBytes)+" OAI-SearchBot"), x.named("searchbot", "OAI-SEARCHBOT")
	if of != nil || known == nil {
		t.Errorf("%v, %v", of, known)
	}
}

// TestProofOf: an account's row shows how its robots were verified, and how old its lists are.
func TestProofOf(t *testing.T) {
	x := robots(t, nil)
	for address, agent := range map[string]string{"203.0.113.17": "GPTBot", "203.0.113.33": person, "198.51.100.2": "bingbot/2.0", "20.191.45.7": "OwnBot", "203.0.113.1": seekerbot} {
		recognised(t, x, address, agent)
	}
	for account, want := range map[string]string{
		"gptbot": "by its list, 1 prefixes of 2026-11-25 11:00", "openai for people": "by its list, 1 prefixes of 2026-11-25 11:00",
		"bingbot": "by DNS, 1 prefixes of 2026-11-25 11:00", "ownbot": "by its list, 1 prefixes of your own", "duckduckbot": "no list", "yandexbot": "", "seekerbot": "",
	} {
		testkit.Same(t, want, x.ProofOf(limiter.Key{Class: "robot", ID: account}), "%s", account)
	}
	testkit.Same(t, "", x.ProofOf(limiter.Key{Class: "slash32", ID: "gptbot"})+(*Robots)(nil).ProofOf(limiter.Key{Class: "robot", ID: "gptbot"}), "the proof without a robot")
}

// TestOldList: a list that hasn't been confirmed for a week still verifies robots, but no longer shows that a client
// is forged.
func TestOldList(t *testing.T) {
	x := robots(t, func(c *Config) { c.Proofs = told{nil, published(t, 8*24*time.Hour, lists())} })
	if res, _ := recognised(t, x, "203.0.113.17", "GPTBot/1.2"); res.Evidence != classify.Verified {
		t.Errorf("on the list: %+v", res)
	}
	if res, _ := recognised(t, x, "203.0.113.1", "GPTBot/1.2"); !res.Pooled {
		t.Errorf("an address that is not on the list: %+v", res)
	}
}

// TestGivenGoesFirst: an administrator's list replaces the published one.
func TestGivenGoesFirst(t *testing.T) {
	x := robots(t, func(c *Config) {
		for i := range c.Robots {
			if c.Robots[i].Name == "gptbot" {
				c.Robots[i].Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}
			}
		}
	})
	if res, _ := recognised(t, x, "192.0.2.1", "GPTBot/1.2"); res.Evidence != classify.Verified {
		t.Errorf("an address on the administrator's list: %+v", res)
	}
	if res, _ := recognised(t, x, "203.0.113.17", "GPTBot/1.2"); !res.Forged {
		t.Errorf("an address on the published list: %+v", res)
	}
}

// TestNoSourceOfProofs: without a source of proofs, robots are recognised by their names, or by a list from the
// administrator if there is one.
func TestNoSourceOfProofs(t *testing.T) {
	x := robots(t, func(c *Config) { c.Proofs = nil })
	if res, _ := recognised(t, x, "66.249.66.1", "GoogleOther"); !res.Pooled || res.Keys()[0].ID != "googlebot" {
		t.Errorf("a robot with a domain: %s", keyText(res))
	}
	if res, _ := recognised(t, x, "20.191.45.7", "OwnBot"); res.Evidence != classify.Verified {
		t.Errorf("a robot with a list: %s", keyText(res))
	}
}

// TestKey: if the account replaces a class, the class's limit on requests applies to the account.
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
		t.Errorf("with no key left, %v replaces one", k)
	}
	c := classify.New(classify.Config{Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}}})
	c.Classify(newRequest("192.0.2.1", person), res) // the same Result, for another client
	if k, ok := res.Key("userAgent"); ok || res.Account || res.Pooled || res.Fetcher {
		t.Errorf("%v, %+v", k, res)
	}
}

// TestFull: a robot gets its account with any classes, and even without classes.
func TestFull(t *testing.T) {
	x := robots(t, nil)
	for n := 1; n <= limiter.MaxKeys; n++ {
		for address, agent := range map[string]string{"66.249.66.1": googlebot, "203.0.113.1": seekerbot} {
			classes := []classify.Class{{Name: "slash32", By: classify.Slash32}}
			for i := 1; i < n; i++ {
				classes = append(classes, classify.Class{Name: fmt.Sprint("c", i), By: classify.Slash24})
			}
			c := classify.New(classify.Config{Classes: classes})
			var res classify.Result
			r := newRequest(address, agent)
			c.Classify(r, &res)
			ok := x.Recognise(noon(), r, &res)
			want := n
			if agent == seekerbot {
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
		googlebot: "googlebot", "googleother": "googlebot", "gptbot": "gptbot", seekerbot: "seekerbot", person: "", "curl/8": "", "Foo Spider/1": "foo spider",
		"OAI-SearchBot": "oai-searchbot", "ChatGPT-User": "openai for people", "searchbot": "searchbot",
	} {
		if k, ok := x.AccountOf(agent); k.ID != want || ok != (want != "") {
			t.Errorf("%s: %v, %t", agent, k, ok)
		}
	}
}

// faultsOf returns the faults of a file in the folder known.
func faultsOf(t *testing.T, name string) (faults []string) {
	t.Helper()
	text, err := known.ReadFile(name)
	testkit.Must(t, err)
	var r Robot
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		faults = append(faults, err.Error())
	}
	for _, url := range r.Lists {
		if !strings.HasPrefix(url, "https://") {
			faults = append(faults, url+" must begin with https://")
		}
	}
	for _, agent := range r.Agents {
		if classify.SaysBrowser(agent) {
			faults = append(faults, agent+" is the name of a browser")
		}
	}
	if !slices.Contains([]Kind{Search, Training, Person, Monitor}, r.Kind) {
		faults = append(faults, fmt.Sprintf("kind %q must be search, training, person or monitor", r.Kind))
	}
	if r.Operator == "" || len(r.Agents) == 0 {
		faults = append(faults, "it must have an operator and agents")
	}
	return faults
}

// TestKnown has a line for each file in the folder known, with a User-Agent that the robot sends.
func TestKnown(t *testing.T) {
	lines := map[string]string{
		"ahrefsbot":          "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
		"amazonbot":          "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_10_1) AppleWebKit/600.2.5 (KHTML, like Gecko) Version/8.0.2 Safari/600.2.5 (Amazonbot/0.1)",
		"amzn-searchbot":     "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Amzn-SearchBot/0.1) Chrome/119.0.6045.214 Safari/537.36",
		"amzn-user":          "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Amzn-User/0.1) Chrome/119.0.6045.214 Safari/537.36",
		"applebot":           "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1)",
		"baiduspider":        "Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)",
		"bingbot":            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
		"ccbot":              "CCBot/2.0 (https://commoncrawl.org/faq/)",
		"chatgpt-user":       "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
		"claude-searchbot":   "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-SearchBot/1.0; +searchbot@anthropic.com)",
		"claude-user":        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
		"claudebot":          "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
		"duckassistbot":      "DuckAssistBot/1.2; (+http://duckduckgo.com/duckassistbot.html)",
		"duckduckbot":        "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)",
		"exasearchbot":       "Mozilla/5.0 (compatible; ExaSearchBot/1.0; +https://crawler.exa.ai)",
		"google-user":        "Mozilla/5.0 (Linux; Android 7.0; SM-G930V) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/59.0.3071.125 Mobile Safari/537.36 (compatible; Google-Read-Aloud; +https://support.google.com/webmasters/answer/1061943)",
		"googlebot":          googlebot,
		"gptbot":             "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
		"meta-externalagent": "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
		"mistralai-index":    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; MistralAI-Index/1.0; +https://docs.mistral.ai/robots)",
		"mistralai-user":     "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; MistralAI-User/1.0; +https://docs.mistral.ai/robots)",
		"mojeekbot":          "Mozilla/5.0 (compatible; MojeekBot/0.11; +https://www.mojeek.com/bot.html)",
		"oai-adsbot":         "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; OAI-AdsBot/1.0; +https://openai.com/adsbot",
		"oai-searchbot":      "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot",
		"perplexity-user":    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)",
		"perplexitybot":      "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
		"petalbot":           "Mozilla/5.0 (Linux; Android 7.0;) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; PetalBot;+https://webmaster.petalsearch.com)",
		"pinterestbot":       "Mozilla/5.0 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)",
		"seznambot":          "Mozilla/5.0 (compatible; SeznamBot/4.0; +http://napoveda.seznam.cz/seznambot-intro/)",
		"slurp":              "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
		"uptimerobot":        "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
		"yandexbot":          "Mozilla/5.0 (compatible; YandexRenderResourcesBot/1.0; +http://yandex.com/bots) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0",
		"youbot":             "Mozilla/5.0 (compatible; YouBot/1.0; +https://you.com/docs/youbot)",
	}
	manual := testkit.ReadFile(t, "../../docs/robots.md")
	x := robots(t, nil)
	for _, r := range Known() {
		if !strings.Contains(manual, "`"+r.Name+"`") {
			t.Errorf("docs/robots.md does not list %s", r.Name)
		}
		if faults := faultsOf(t, "known/"+r.Name+".json"); len(faults) > 0 {
			t.Errorf("known/%s.json: %q", r.Name, faults)
		}
		agent := lines[r.Name]
		if of := x.named(classify.Family(agent), agent); agent == "" || of == nil || of.Name != r.Name {
			t.Errorf("known/%s.json: its User-Agent %q is recognised as that of %+v", r.Name, agent, of)
		}
		delete(lines, r.Name)
	}
	if len(lines) > 0 {
		t.Errorf("there is no file for %v", lines)
	}
	for agent, want := range map[string]string{
		"Googlebot-Image/1.0": "googlebot", "AdsBot-Google (+http://www.google.com/adsbot.html)": "googlebot", "Mediapartners-Google": "googlebot",
		"Mozilla/5.0 (compatible; Google-InspectionTool/1.0;)":                                                                          "googlebot",
		"APIs-Google (+https://developers.google.com/webmasters/APIs-Google.html)":                                                      "googlebot",
		"Mozilla/5.0 (X11; Linux x86_64; Storebot-Google/1.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79.0.3945.88 Safari/537.36": "googlebot",
		"FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)":                                                                 "google-user",
		"Mozilla/5.0 (compatible; Google-Site-Verification/1.0)":                                                                        "google-user",
	} {
		if of := x.named(classify.Family(agent), agent); of == nil || of.Name != want {
			t.Errorf("%s: %+v, want %s", agent, of, want)
		}
	}
}

// TestPublished reads lists as the operators publish them.
func TestPublished(t *testing.T) {
	for text, want := range map[string]string{
		`{"creationTime": "2026-11-01", "prefixes": [{"ipv6Prefix": "2001:db8::/32"}, {"ipv4Prefix": "192.0.2.0/24"}]}`:   "[2001:db8::/32 192.0.2.0/24]",
		"<html><p>Addresses</p><pre>{\n &quot;prefixes&quot;: [{&quot;ip_prefix&quot;: &quot;192.0.2.1/32&quot;}]}</pre>": "[192.0.2.1/32]",
		`<html>{"a": 1} {"creationTime": "x", "prefixes": [{"ipv4Prefix": "192.0.2.1"}]}</html>`:                          "[192.0.2.1]",
		`{"keys": []}`: "[]",
	} {
		if got, err := Published(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "<html>404</html>", `{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}`, `{"prefixes": 1}`, "192.0.2.0/24"} {
		if got, err := Published(text); err == nil || len(got) > 0 {
			t.Errorf("%s: %v", text, got)
		}
	}
}
