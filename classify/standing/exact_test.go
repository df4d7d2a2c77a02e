package standing

import (
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestContradictionsByHand(t *testing.T) {
	for name, c := range map[string]struct {
		major, minor int
		headers      []string
		want         bool
	}{
		"HTTP/1.0 and nothing":   {1, 0, nil, true},
		"HTTP/1.0 and one of it": {1, 0, []string{"Accept"}, true},
		"HTTP/1.0 and two of it": {1, 0, []string{"Accept", "Accept-Encoding"}, false},
		"HTTP/1.1 and nothing":   {1, 1, nil, true},
		"HTTP/1.1 and one of it": {1, 1, []string{"Accept-Language"}, false},
		"HTTP/2 and nothing":     {2, 0, nil, true},
		"HTTP/2 and one of it":   {2, 0, []string{"Accept"}, false},
	} {
		r := &http.Request{ProtoMajor: c.major, ProtoMinor: c.minor, Header: http.Header{}}
		for _, h := range c.headers {
			r.Header.Set(h, "x")
		}
		if lacksAll(r) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
	agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/%d.0", leastFirefox)
	chrome := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0 Safari/537.36", leastChrome)
	older := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/%d.0", leastFirefox-1)
	if !sendsFetchMode(agent) || !sendsFetchMode(chrome) || sendsFetchMode(older) {
		t.Error("the least versions send Sec-Fetch-Mode, and older ones may not")
	}
	for agent, want := range map[string]int{"a Chrome/1000999": 1000, "a Chrome/7a": 7, "a Chrome/79.9": 79, "a Chrome/": 0, "a": 0} {
		if n := versionOf(agent, " Chrome/"); n != want {
			t.Errorf("%q has the version %d, want %d", agent, n, want)
		}
	}
	secure := httptest.NewRequest(http.MethodGet, "/", nil)
	secure.TLS = new(tls.ConnectionState)
	for after, want := range map[int64]bool{fetchSeen - 1: true, fetchSeen: false} {
		var c contradictions
		c.came.Store(1000)
		if c.lacksFetchMode(1000+after, secure, agent, false) != want {
			t.Errorf("%d s after one that had the header: %t", after, !want)
		}
	}
	secure.Header.Set("Sec-Fetch-Mode", "navigate")
	for after, want := range map[int64]int64{59: 1000, 60: 1060} {
		var c contradictions
		c.came.Store(1000)
		c.lacksFetchMode(1000+after, secure, agent, false)
		if c.came.Load() != want {
			t.Errorf("%d s after the last one, it is said to have come at %d, want %d", after, c.came.Load(), want)
		}
	}
}

func TestCookiesAreBounded(t *testing.T) {
	n := 0
	eachCookie([]string{strings.Repeat("a=0123456789abcdef; ", maxCookies+5)}, func(string, string) bool { n++; return true })
	if n != maxCookies {
		t.Errorf("%d cookies of one request are looked at, want %d", n, maxCookies)
	}
	var names []string
	lines := []string{"lang=en; a=0123456789abcdef;b;c=0123456789abcdef0; d=", "e=0123456789abcdef", strings.Repeat(" ", maxCookie) + "f=0123456789abcdef"}
	eachCookie(lines, func(name, _ string) bool { names = append(names, name); return true })
	if !slices.Equal(names, []string{"a", "c", "e"}) {
		t.Errorf("%q are looked at: what is short tells nobody apart, and a long header is cut", names)
	}
	names = nil
	eachCookie(lines, func(name, _ string) bool { names = append(names, name); return false })
	if !slices.Equal(names, []string{"a"}) {
		t.Errorf("%q are looked at after the first one was enough", names)
	}
	for size, want := range map[int]bool{leastSecret - 1: false, leastSecret: true, mostSecret: true, mostSecret + 1: false} {
		if isSecret(strings.Repeat("x", size)) != want {
			t.Errorf("%d bytes can tell people apart: %t", size, !want)
		}
	}
}

func TestHandedOut(t *testing.T) {
	const step = 2 * handedRegion // values so far apart are in one set
	var h handedOut
	for i := range uint64(handedWays + 1) {
		h.put(handed{value: 1 + i*step, network: 5, to: uint32(i)})
	}
	for i := range uint64(handedWays + 1) {
		if _, ok := h.find(5, 1+i*step); ok != (i > 0) {
			t.Errorf("cookie %d of %d is there: %t", i, handedWays+1, ok)
		}
	}
	n := 0
	if h.each(func(handed) { n++ }); n != handedWays {
		t.Errorf("%d are told, want %d", n, handedWays)
	}
	var own handedOut
	own.put(handed{value: 1, network: 5, to: 7})
	for i := range uint64(handedAddress + 1) {
		own.put(handed{value: 1 + (i+1)*step, network: 5, to: 9})
	}
	for i := range uint64(handedAddress + 2) {
		if _, ok := own.find(5, 1+i*step); ok != (i != 1) {
			t.Errorf("cookie %d is there: %t", i, ok)
		}
	}
}

// TestHandedOutAgain: a cookie that is given again is as one that was given last, also where
// the count of them begins anew.
func TestHandedOutAgain(t *testing.T) {
	const step = 2 * handedRegion
	for _, given := range []uint32{0, math.MaxUint32 - 5, math.MaxUint32 - handedWays} {
		h := handedOut{given: given}
		put := func(i, to int) { h.put(handed{value: 1 + uint64(i)*step, network: 5, to: uint32(to)}) }
		for i := range handedWays {
			put(i, i)
		}
		put(0, 0)
		put(handedWays, handedWays) // another address's: the oldest of all makes room
		for i := range handedWays + 1 {
			if _, ok := h.find(5, 1+uint64(i)*step); ok != (i != 1) {
				t.Errorf("from %d on: cookie %d is there: %t", given, i, ok)
			}
		}
		h.sets, h.given = nil, given
		for i := range handedAddress {
			put(i, 9)
		}
		put(0, 9)
		put(handedAddress, 9) // one more than half of the set: the oldest of its own
		for i := range handedAddress + 1 {
			if _, ok := h.find(5, 1+uint64(i)*step); ok != (i != 1) {
				t.Errorf("from %d on: cookie %d of one address is there: %t", given, i, ok)
			}
		}
	}
}

// TestHandedOutIsTaken: as a session is proven, all that it was given there is taken out, once,
// and nobody else's.
func TestHandedOutIsTaken(t *testing.T) {
	var h handedOut
	if _, ok := h.find(5, 1); ok {
		t.Error("a cookie is there before any was given")
	}
	all := []handed{
		{value: 1, id: 3, network: 5}, {value: 3, id: 3, network: 5}, {value: 1 + 2*handedRegion, id: 3, network: 5},
		{value: 7, id: 4, network: 5}, {value: 9, id: 3, network: 6},
	}
	for _, e := range all {
		h.put(e)
	}
	for _, want := range [][]uint64{{1, 1 + 2*handedRegion, 3}, nil} {
		var got []uint64
		h.removeOf(5, 3, func(value uint64) { got = append(got, value) })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d are taken out, want %d", got, want)
		}
	}
	for i, e := range all {
		if _, ok := h.find(e.network, e.value); ok != (i >= 3) {
			t.Errorf("cookie %d is there: %t", e.value, ok)
		}
	}
}

// TestNetworksAreApart: the cookies of one network are remembered together, and those of several
// apart.
func TestNetworksAreApart(t *testing.T) {
	j, err := New([16]byte{1}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]bool{}
	for i := range byte(100) {
		first, last := netip.AddrFrom4([4]byte{192, 0, i, 0}), netip.AddrFrom4([4]byte{192, 0, i, 255})
		if j.hashOfNetwork(first) != j.hashOfNetwork(last) {
			t.Errorf("%v and %v are of two networks", first, last)
		}
		seen[setOf(j.hashOfNetwork(first), 1)] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 networks have %d places", len(seen))
	}
}

func TestMarkupByHand(t *testing.T) {
	if isTag([]byte("img"), "img") || !isTag([]byte("IMG "), "img") || isTag([]byte("image "), "img") {
		t.Error("a tag is a name and a blank")
	}
	var got []string
	eachCandidate(" , a.png 2x,, b.png", func(name string) bool { got = append(got, name); return true })
	if !slices.Equal(got, []string{"a.png", "b.png"}) {
		t.Errorf("%q", got)
	}
	for tag, want := range map[string][3]string{
		`alt="" src="x">`: {"alt", "", ` src="x">`}, `a='b'c>`: {"a", "b", "c>"}, `a = b>`: {"a", "b", ">"}, `a="b`: {}, `a>`: {"a", "", ">"}, `>`: {"", "", ">"},
	} {
		name, value, rest := cutAttribute([]byte(tag))
		if [3]string{name, value, string(rest)} != want {
			t.Errorf("%s is cut into %q, %q, %q, want %q", tag, name, value, rest, want)
		}
	}
	for size, want := range map[int]int{2048: 2048, 2049: 0} {
		if got := len(unescape([]byte(strings.Repeat("x", size)))); got != want {
			t.Errorf("of a value of %d bytes %d are kept, want %d", size, got, want)
		}
	}
	if len(trimBlanks([]byte(" \t\n"))) != 0 || string(trimBlanks([]byte("\r\fa "))) != "a " {
		t.Error("blanks are trimmed")
	}
}

func TestPagesByHand(t *testing.T) {
	s, err := New([16]byte{1}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &Page{judge: s, base: url.URL{Scheme: "http", Host: "host", Path: "/a/"}}
	for range 3 {
		p.Write(make([]byte, pageBytes/2+1))
	}
	if len(p.body) != pageBytes {
		t.Errorf("%d bytes are kept, want %d", len(p.body), pageBytes)
	}
	p.gzipped, p.body = true, nil
	for range 3 {
		p.Write(make([]byte, gzippedBytes/2+1))
	}
	if len(p.body) != gzippedBytes {
		t.Errorf("%d compressed bytes are kept, want %d", len(p.body), gzippedBytes)
	}
	p.gzipped, p.body = false, nil
	for i := range pageNames + 10 {
		fmt.Fprintf(p, `<img src="%d.png">`, i)
	}
	if p.End(); len(s.names.now) != pageNames {
		t.Errorf("%d names of a page count, want %d", len(s.names.now), pageNames)
	}
	for name, want := range map[string]bool{"x.png": true, "http://other/x": true, "https://other/x": true, "ftp://other/x": false, "data:x": false, "%zz": false} {
		if _, ok := p.target(name); ok != want {
			t.Errorf("%s is a target: %t", name, !want)
		}
	}
	room := 2048 - len(s.key(nil, 'p')) - len("/?q")
	for more, want := range map[int]bool{0: true, 1: false} {
		if _, ok := s.hashOfTarget(&url.URL{Path: "/" + strings.Repeat("x", room+more), RawQuery: "q"}); ok != want {
			t.Errorf("a target %d bytes longer than there is room is one: %t", more, ok)
		}
	}
}
