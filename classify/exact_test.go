package classify

import (
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestHopsByHand: a list is read from its right end, up to a limit.
func TestHopsByHand(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		left  int
		want  []string
	}{
		"as long as may be looked at": {[]string{"192.0.2.1"}, 9, []string{"192.0.2.1"}},
		"a byte longer":               {[]string{"192.0.2.1"}, 8, nil},
		"two lines":                   {[]string{"ab", "cd"}, 5, []string{"cd", "ab"}},
		"each line costs one more":    {[]string{"ab", "cd"}, 4, []string{"cd"}},
		"a comma at the beginning":    {[]string{",ab, ,cd"}, 99, []string{"cd", "ab"}},
		"white space":                 {[]string{"\tab\t, \tcd \t"}, 99, []string{"cd", "ab"}},
		"a part of an element":        {[]string{"ab,cd,ef"}, 4, []string{"ef"}},
		"empty lines cost, too":       {[]string{"ab", "", "", "", ""}, 3, nil},
	} {
		h := hops{lines: c.lines, left: c.left}
		var got []string
		for e, ok := h.next(); ok; e, ok = h.next() {
			got = append(got, e)
		}
		testkit.Same(t, c.want, got, "%s", name)
	}
	for text, want := range map[string]bool{`\"`: true, `\\"`: false, `\\\"`: true, `a"`: false, `"`: false} {
		testkit.Same(t, want, escaped(text, len(text)-1), "the quote in %s is escaped", text)
	}
}

// TestAsManyKeysAsThereAre reuses a Result with the largest number of classes.
func TestAsManyKeysAsThereAre(t *testing.T) {
	classes := append(usual(),
		Class{Name: "plain", By: Address}, Class{Name: "mapped", By: MappedAddress}, Class{Name: "whole", By: UserAgentHeader}, Class{Name: "path", By: PathShape})
	c := mustNew(t, Config{TrustedProxies: prefixes("127.0.0.1/32"), Classes: classes})
	var r Result
	for range 2 {
		if c.Classify(request("/a"), &r); len(r.Keys()) != limiter.MaxKeys {
			t.Fatalf("%v", r.Keys())
		}
	}
	if got := r.Keys()[4:7]; got[0].ID != "203.0.113.9" || got[1].ID != "::ffff:203.0.113.9" || got[2].ID != firefox115 {
		t.Errorf("%v", got)
	}
	r.Session, r.Account, r.Pooled = true, true, true
	r.Keep(func(class string) bool { return class != "plain" })
	if len(r.Keys()) != 7 || r.Keys()[4].Class != "mapped" || r.keys[7] != (limiter.Key{}) || !r.Session || !r.Account || !r.Pooled {
		t.Errorf("without one class: %+v", r)
	}
	r.Keep(func(class string) bool { return class == "path" })
	if len(r.Keys()) != 1 || r.Keys()[0].Class != "path" || r.Session || r.Account || r.Pooled {
		t.Errorf("without the first class: %+v", r)
	}
	r.Prepend(limiter.Key{Class: "session"})
	if len(r.Keys()) != 2 || r.Keys()[0].Class != "session" {
		t.Errorf("%v", r.Keys())
	}
	for len(r.Keys()) < limiter.MaxKeys {
		r.Prepend(limiter.Key{Class: "more"})
	}
	if r.Prepend(limiter.Key{Class: "too many"}) || len(r.Keys()) != limiter.MaxKeys || r.Keys()[0].Class != "more" {
		t.Errorf("the Result has room for one key too many: %v", r.Keys())
	}
	empty := request("/")
	empty.Header["X"] = []string{}
	testkit.Same(t, nil, appendHeaderID(nil, "X", empty.Header), "the ID of a header without a line")
}

// TestKeyOf checks what an administrator may write as a key.
func TestKeyOf(t *testing.T) {
	c := mustNew(t, Config{Classes: append(usual(), Class{Name: "net", By: Slash24})})
	for _, x := range []struct{ class, id, want, fault string }{
		{"slash32", "192.0.2.7", "192.0.2.7", ""},
		{"slash32", "[2001:db8::1]", "2001:db8::/64", ""},
		{"slash32", "::ffff:192.0.2.7", "192.0.2.7", ""},
		{"slash32", "192.0.2.7/32", "192.0.2.7", ""},
		{"slash24", "192.0.2.7", "192.0.2.0/24", ""},
		{"slash24", "192.0.2.7/24", "192.0.2.0/24", ""},
		{"net", "192.0.2.7", "192.0.2.0/24", ""},
		{"slash16", "192.0.2.0/16", "192.0.0.0/16", ""},
		{"slash16", "192.0.2.0/24", "", "class slash16 has no key as wide as 192.0.2.0/24; the key of 192.0.2.0 is 192.0.0.0/16"},
		{"slash24", "example.org", "", `"example.org" is neither an address nor a network`},
		{"userAgent", "firefox linux", "firefox linux", ""},
		{"unknown", "x", "x", ""},
	} {
		k, err := c.KeyOf(x.class, x.id)
		switch {
		case x.fault != "":
			if err == nil || !strings.Contains(err.Error(), x.fault) {
				t.Errorf("%s %s: %v, want %q", x.class, x.id, err, x.fault)
			}
		case err != nil || k != (limiter.Key{Class: x.class, ID: x.want}):
			t.Errorf("%s %s: %v, %v, want %s", x.class, x.id, k, err, x.want)
		}
	}
}
