package classify

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// TestSaysBrowser checks that only a User-Agent in a browser's family is a browser.
func TestSaysBrowser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agent := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"Mozilla/5.0", "(compatible;", "Chrome/1", "Firefox/2", "bot", "Foobot/1", "Foo/1", "Windows", ")", "spider", "MSIE 9",
		})).Draw(t, "agent"), " ")
		testkit.Same(t, isOfBrowser(Family(agent)), SaysBrowser(agent), "%q of family %q: says browser", agent, Family(agent))
	})
}

func isOfBrowser(family string) bool {
	first, _, _ := strings.Cut(family, " ")
	return slices.ContainsFunc(browsers, func(words []string) bool { return first == words[0] })
}

// ofLetters returns a word of n letters.
func ofLetters(n int) string { return strings.Repeat("x", n) }

func TestFamily(t *testing.T) {
	const chromeOnWindows = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	tests := []struct{ agent, want string }{
		{"", "-"},
		{" ;/()", "-"},
		{"\xff\x00é", "-"},
		{"-", "-"},
		{"12345", "#"},
		{"a1b2c3d4e5", "#"},
		{strings.Repeat("x", 25), "#"},
		{"compatible", "#"},
		{"Mozilla/5.0", "mozilla"},
		{chromeOnWindows, "chrome windows"},
		{strings.Replace(chromeOnWindows, "131.0.0.0", "95.0.4638.69", 1), "chrome windows"},
		{strings.ToUpper(chromeOnWindows), "chrome windows"},
		{chromeOnWindows + " d41d8cd98f00b204 Zm9vYmFyYmF6cXV4MTIz qwertz", "chrome windows"},
		{chromeOnWindows + " Edg/131.0.0.0", "edge windows"},
		{chromeOnWindows + " OPR/95.0.0.0", "opera windows"},
		{strings.Replace(chromeOnWindows, "Chrome", "HeadlessChrome", 1), "headlesschrome windows"},
		{chromeOnWindows + " YaBrowser/24.1", "yabrowser windows"},
		{"Mozilla/5.0 (Linux; Android 13; SM-S901B) AppleWebKit/537.36 SamsungBrowser/24.0 Chrome/117.0 Mobile Safari/537.36", "samsungbrowser android"},
		{"Mozilla/5.0 (Linux; U; Android 11; en-US) AppleWebKit/537.36 Chrome/100.0 UCBrowser/13.4 Mobile Safari/537.36", "ucbrowser android"},
		{"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36", "chrome cros"},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0", "firefox linux"},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.1 Safari/605.1.15", "safari macintosh"},
		{"Mozilla/5.0 (iPhone; CPU iPhone OS 16_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148", "webkit iphone"},
		{"Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X) AppleWebKit/605.1.15 CriOS/119.0 Mobile/15E148 Safari/604.1", "chrome ipad"},
		{"Mozilla/5.0 (Linux; Android 13; SM-G991B Build/TP1A.220624.014) AppleWebKit/537.36 Chrome/118.0 Mobile Safari/537.36", "chrome android"},
		{"Mozilla/5.0 (Linux; Android 13; CUBOT NOTE 7) AppleWebKit/537.36 Chrome/118.0 Mobile Safari/537.36", "chrome android"},
		{"Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)", "msie windows"},
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "googlebot"},
		{"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1.2.3.4 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "googlebot"},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", "gptbot"},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot", "chatgpt user"},
		{"Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", "mj#bot"},
		{"Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)", "slurp"},
		{"Mozilla/5.0 (compatible; AhrefsSiteAudit/6.1; +http://ahrefs.com/robot/)", "ahrefssiteaudit"},
		{"Mozilla/5.0 (compatible; Foo Bot/1.0)", "foo bot"},
		{"Mozilla/5.0 (compatible; Linux; Foo/1)", "mozilla linux"},    // no name follows a platform
		{"Mozilla/5.0 (compatible; Foo Linux Bar/1)", "foo linux bar"}, // but a platform can be in a name
		{"Foo Chrome Bar bot", "foo bar bot"},                          // a browser's name isn't part of a name
		{"Chrome Foo bot", "bot"},                                      // nor does a name begin after it
		{"Foo Mozilla Bar bot", "foo"},
		{"curl/7.68.0 libcurl/7.68.0", "curl"}, // each of these ends a name
		{"curl(libcurl", "curl"},
		{"curl)libcurl", "curl"},
		{"curl;libcurl", "curl"},
		{"curl,libcurl", "curl"},
		{"curl+libcurl", "curl"},
		{ofLetters(24) + " " + ofLetters(24) + " " + ofLetters(14), ofLetters(24) + " " + ofLetters(24) + " " + ofLetters(14)}, // 64 bytes
		{ofLetters(24) + " " + ofLetters(24) + " " + ofLetters(15), ofLetters(24) + " " + ofLetters(24)},
		{"Screaming Frog SEO Spider/16.0", "screaming frog seo"},
		{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "facebookexternalhit"},
		{"curl/7.68.0", "curl"},
		{"Python-urllib/3.9", "python urllib"},
		{"python3", "python"},
		{"python-requests/2.31.0", "python requests"},
		{"Go-http-client/1.1", "go http client"},
		{"Mozilla/5.0 (compatible; +https://example.com/)", "example com"},
		{"Java/1.8.0_151", "java"},
		{"Java1.6.0_45", "java"},
		{"Apache-HttpClient/4.5.13 (Java/1.8.0_151)", "apache httpclient"},
		{"one two three four five", "one two three"},
		{"bot", "bot"},
		{"Chrome bot", "bot"},
		{"Chrome (compatible; F)", "f"},
	}
	for _, test := range tests {
		testkit.Same(t, test.want, Family(test.agent), "family(%q) =", test.agent)
		testkit.Same(t, isOfBrowser(test.want), SaysBrowser(test.agent), "%q: says browser", test.agent)
	}
}

// agents generates texts to which all rules apply.
func agents() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"Mozilla", "compatible", "bot", "crawler", "xbot", "mj12bot", "Chrome", "Edg", "MSIE", "Windows", "Android", "Linux",
			"http", "foo", "bar", "x64", "Win64", "h2load", "a1b2", "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvw",
		}),
		rapid.SampledFrom([]string{" ", "/", "(", ")", "; ", ", ", ".", "+", "-", "_", "#", "é", "\x00"}),
		rapid.StringMatching(`[0-9]{1,4}`),
		rapid.StringMatching(`[A-Za-z]{1,9}`),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 24).Draw(t, "pieces"), "")
	})
}

func checkFamily(t interface {
	Helper()
	Fatalf(string, ...any)
}, agent string) {
	t.Helper()
	got := Family(agent)
	if len(got) < 1 || len(got) > maxID {
		t.Fatalf("family(%q) = %q has %d bytes, want 1 to %d", agent, got, len(got), maxID)
	}
	for _, c := range []byte(got) {
		if (c < 'a' || c > 'z') && c != '#' && c != ' ' && c != '-' {
			t.Fatalf("family(%q) = %q contains the byte %q", agent, got, c)
		}
	}
	if again := Family(got); again != got {
		t.Fatalf("family(%q) = %q, whose family is %q", agent, got, again)
	}
}

func TestFamilyIsBoundedAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkFamily(t, agents().Draw(t, "agent")) })
}

func TestFamilyIgnoresDigitsAndCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agent := agents().Draw(t, "agent")
		want := Family(agent)
		var changed strings.Builder
		inRun := false
		for _, c := range []byte(agent) {
			switch {
			case isDigit(c):
				if !inRun {
					changed.WriteString(rapid.StringMatching(`[0-9]{1,3}`).Draw(t, "digits"))
				}
				inRun = true
				continue
			case isLetter(c) && rapid.Bool().Draw(t, "other case"):
				c ^= 0x20
			}
			inRun = false
			changed.WriteByte(c)
		}
		if got := Family(changed.String()); got != want {
			t.Fatalf("family(%q) = %q, but family(%q) = %q", agent, want, changed.String(), got)
		}
	})
}

// TestBrowserFamiliesAreFew puts any text around the words of browsers.
func TestBrowserFamiliesAreFew(t *testing.T) {
	noise := rapid.StringMatching(`( [A-Za-z0-9]{1,30}[/;,. \-]){0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		agent := "Mozilla/5.0 (Windows NT 10.0;" + noise.Draw(t, "a") + " ) Chrome/1" + noise.Draw(t, "b")
		got := Family(agent)
		if hasMark(strings.ToLower(agent)) {
			t.Skip("the random text names a robot")
		}
		platforms := map[string]bool{"windows": true, "android": true, "iphone": true, "ipad": true}
		parts := strings.Split(got, " ")
		if placeOf(browsers, parts[0]) < 0 || len(parts) != 2 || !platforms[parts[1]] {
			t.Fatalf("family(%q) = %q, want a known browser and a platform", agent, got)
		}
	})
}

func FuzzUserAgent(f *testing.F) {
	f.Add("")
	f.Add("curl/7.68.0")
	f.Add("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
	f.Add("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36")
	f.Add("foo compatible #bar1 2baz h2load a1b2c3\xff")
	f.Fuzz(func(t *testing.T, agent string) { checkFamily(t, agent) })
}

// TestFamiliesAreDistinguished uses more User-Agents than the cache holds, so some share a place. Each gets its own
// family, both the first and the second time.
func TestFamiliesAreDistinguished(t *testing.T) {
	f := newFamilies()
	for range 2 {
		for i := range 3 * familySlots {
			name := "x" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
			if got := f.read(name + "/1").family; got != name {
				t.Fatalf("%s has the family %q", name, got)
			}
		}
	}
}

// TestFamiliesAreBounded: the cache keeps no more of a long User-Agent than the classifier reads.
func TestFamiliesAreBounded(t *testing.T) {
	f := newFamilies()
	known := f.read("curl/" + strings.Repeat("1", 8*MaxAgentBytes))
	if known.family != "curl" || len(known.agent) != MaxAgentBytes {
		t.Errorf("%q keeps %d bytes", known.family, len(known.agent))
	}
}
