package standing

import (
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestCookiesAreBounded(t *testing.T) {
	n := 0
	eachCookie([]string{strings.Repeat("a=0123456789abcdef; ", maxCookies+5)}, func(string, string) bool { n++; return true })
	testkit.Same(t, maxCookies, n, "cookies of one request that are read")
	var names []string
	lines := []string{"lang=en; a=0123456789abcdef;b;c=0123456789abcdef0; d=", "e=0123456789abcdef", strings.Repeat(" ", maxCookie) + "f=0123456789abcdef"}
	eachCookie(lines, func(name, _ string) bool { names = append(names, name); return true })
	testkit.Same(t, []string{"a", "c", "e"}, names, "those that are read: no value that is too short to be unique, and none beyond the header's limit")
	names = nil
	eachCookie(lines, func(name, _ string) bool { names = append(names, name); return false })
	testkit.Same(t, []string{"a"}, names, "those that are read, although the first one was enough")
	for size, want := range map[int]bool{leastSecret - 1: false, leastSecret: true, mostSecret: true, mostSecret + 1: false} {
		testkit.Same(t, want, isSecret(strings.Repeat("x", size)), "a value of %d bytes can be unique", size)
	}
}

// TestHandedOutIsBounded: the oldest cookie of an address is evicted first, then the oldest of its network, then all
// cookies of the network whose latest cookie is the oldest. When a session is proven, all cookies handed out to it
// in its network are removed.
func TestHandedOutIsBounded(t *testing.T) {
	h, value := newHandedOut(), uint64(0)
	give := func(network, to uint32, n int) (first uint64) {
		first = value + 1
		for range n {
			value++
			h.put(handed{value: value, id: to, network: network, to: to})
		}
		return first
	}
	has := func(what string, network uint32, value uint64, want bool) {
		t.Helper()
		if _, ok := h.find(network, value); ok != want {
			t.Errorf("%s is there: %t", what, ok)
		}
	}
	a := give(1, 1, handedOfAddress)
	h.put(handed{value: a, id: 1, network: 1, to: 1}) // handed out again, it is the newest
	b := give(1, 2, 1)
	give(1, 1, 1)
	has("the oldest of an address", 1, a+1, false)
	has("what was given again", 1, a, true)
	has("its neighbour's", 1, b, true)
	give(1, 3, handedOfNetwork-handedOfAddress-1)
	give(1, 4, 1)
	has("the oldest of a network", 1, a+2, false)
	has("what is not as old", 1, a, true)
	other := give(2, 1, 1)
	for network := range uint32(mostHanded / handedOfNetwork) {
		give(10+network, 1, handedOfAddress)
		give(10+network, 2, handedOfAddress)
	}
	has("of a network that was given none for longest", 1, a, false)
	has("of the next one", 2, other, false)
	if n := len(h.save()); n > mostHanded || n != h.all {
		t.Errorf("%d are saved, but %d counted", n, h.all)
	}
	last, taken := give(10, 5, 2), 0
	h.removeOf(10, 5, func(uint64) { taken++ })
	has("what was taken out", 10, last, false)
	has("another session's", 10, value-2-handedOfAddress, false)
	if taken != 2 || len(h.save()) != h.all {
		t.Errorf("%d are removed; %d are saved, but %d counted", taken, len(h.save()), h.all)
	}
	for network := range uint32(mostHanded + 10) {
		give(1<<20+network, 1, 1)
	}
	if n := len(h.save()); n != mostHanded || n != h.all {
		t.Errorf("with that many networks, %d are saved, and %d counted", n, h.all)
	}
}
