package newcomer

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

var reader = netip.MustParseAddr("192.0.2.7")

// given returns a Cookie header with a new pass.
func given(k *keys, now time.Time, client netip.Addr) []string {
	return []string{assignment + k.issue(now, nil, client)}
}

func TestPass(t *testing.T) {
	k, other := newKeys(), newKeys()
	good := given(k, dawn, reader)[0]
	value := strings.TrimPrefix(good, assignment)
	for _, tc := range []struct {
		name   string
		lines  []string
		after  time.Duration
		client string
		want   bool
	}{
		{"as it was given", []string{good}, 0, "192.0.2.7", true},
		{"another address of the network", []string{good}, 0, "192.0.2.250", true},
		{"another network", []string{good}, 0, "192.0.3.7", false},
		{"IPv6", []string{good}, 0, "2001:db8::1", false},
		{"IPv6 that looks like it", []string{good}, 0, "::c000:207", false},
		{"shortly before it expires", []string{good}, lifetime - time.Second, "192.0.2.7", true},
		{"expired", []string{good}, lifetime, "192.0.2.7", false},
		{"years later", []string{good}, 50 * 365 * 24 * time.Hour, "192.0.2.7", false},
		{"the clock was set back a little", []string{good}, -tolerance, "192.0.2.7", true},
		{"from the future", []string{good}, -tolerance - time.Second, "192.0.2.7", false},
		{"of another proxy", given(other, dawn, reader), 0, "192.0.2.7", false},
		{"of a key of zeros", given(&keys{}, dawn, reader), 0, "192.0.2.7", false},
		{"none", nil, 0, "192.0.2.7", false},
		{"other cookies", []string{"session=0123456789abcdef; lang=de"}, 0, "192.0.2.7", false},
		{"among others", []string{"a=1; " + good + "; b=2"}, 0, "192.0.2.7", true},
		{"without a blank, and with many", []string{"a=1;" + good + " \t;b=2"}, 0, "192.0.2.7", true},
		{"in a second line", []string{"a=1", good}, 0, "192.0.2.7", true},
		{"behind a forged one", []string{"tempomat_pass=" + strings.Repeat("A", passText) + "; " + good}, 0, "192.0.2.7", true},
		{"beside another one in the same cookie", []string{"tempomat_pass=" + strings.Repeat("A", passText) + "." + value}, 0, "192.0.2.7", true},
		{"behind many cookies of the site", []string{strings.Repeat("a=0123456789; ", 1000) + good}, 0, "192.0.2.7", true},
		{"behind more forged ones than are checked", []string{"tempomat_pass=" + strings.Repeat(".", maxChecked) + value}, 0, "192.0.2.7", false},
		{"another name", []string{"x" + good}, 0, "192.0.2.7", false},
		{"another case", []string{strings.ToUpper(assignment) + value}, 0, "192.0.2.7", false},
		{"in another cookie's value", []string{"a=" + good}, 0, "192.0.2.7", false},
		{"cut", []string{good[:len(good)-1]}, 0, "192.0.2.7", false},
		{"longer", []string{good + "A"}, 0, "192.0.2.7", false},
		{"quoted", []string{assignment + `"` + value + `"`}, 0, "192.0.2.7", false},
		{"empty", []string{assignment}, 0, "192.0.2.7", false},
	} {
		testkit.Same(t, tc.want, k.verify(dawn.Add(tc.after), tc.lines, netip.MustParseAddr(tc.client)), "%s", tc.name)
	}
	if k.verify(dawn, []string{good}, netip.Addr{}) {
		t.Error("valid without an address")
	}
}

// TestPassOfIPv6: a pass is bound to the IPv6 network that a provider assigns to a site.
func TestPassOfIPv6(t *testing.T) {
	k := newKeys()
	lines := given(k, dawn, netip.MustParseAddr("2001:db8:1:2::3"))
	for client, want := range map[string]bool{
		"2001:db8:1:2::3": true, "2001:db8:1:ffff::4": true, "2001:db8:2::3": false, "192.0.2.7": false,
	} {
		testkit.Same(t, want, k.verify(dawn, lines, netip.MustParseAddr(client)), "from %s", client)
	}
}

// TestForged changes each character of a pass into every other character.
func TestForged(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ %\""
	k := newKeys()
	good := given(k, dawn, reader)[0]
	for i := len(assignment); i < len(good); i++ {
		for _, c := range []byte(alphabet) {
			if forged := good[:i] + string(c) + good[i+1:]; forged != good && k.verify(dawn, []string{forged}, reader) {
				t.Errorf("%q is accepted as %q", forged, good)
			}
		}
	}
}

// TestPassesOfOthers checks which passes are copied into a new cookie: at most maxPasses, including those of other
// networks, and nothing else.
func TestPassesOfOthers(t *testing.T) {
	here, now := newKeys(), dawn
	lines := []string{"session=1; tempomat_pass=junk." + strings.Repeat("B", passText)}
	var clients []netip.Addr
	for i := range 6 {
		client := netip.AddrFrom4([4]byte{198, 51, byte(100 + i), 1})
		value := here.issue(now, lines, client)
		lines = []string{assignment + value}
		clients = append(clients, client)
		if got, want := strings.Count(value, ".")+1, min(i+1, maxPasses); got != want {
			t.Errorf("%d passes after %d networks, want %d", got, i+1, want)
		}
		for j, c := range clients {
			testkit.Same(t, i-j < maxPasses, here.verify(now, lines, c), "after %d networks, pass %d is valid", i+1, j+1)
		}
	}
	value := here.issue(now.Add(lifetime), lines, reader)
	if strings.Contains(value, ".") {
		t.Error("expired passes are carried on")
	}
}

func TestStrip(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"first", "tempomat_pass=x; a=1; b=2", "a=1; b=2"},
		{"between", "a=1; tempomat_pass=x; b=2", "a=1; b=2"},
		{"last", "a=1; b=2; tempomat_pass=x", "a=1; b=2"},
		{"alone", "tempomat_pass=x", ""},
		{"alone, with a ;", "tempomat_pass=x; ", ""},
		{"twice", "tempomat_pass=x; a=1; tempomat_pass=y", "a=1"},
		{"twice, together", "a=1; tempomat_pass=x; tempomat_pass=y; b=2", "a=1; b=2"},
		{"only twice", "tempomat_pass=x; tempomat_pass=y", ""},
		{"without blanks", "a=1;tempomat_pass=x;b=2", "a=1;b=2"},
		{"with strange blanks", "a=1 ; \ttempomat_pass=x ;  b=2 ", "a=1 ;  b=2 "},
		{"the rest is no cookies", "=; ;; tempomat_pass=; \"a;b\"", "=; ;; \"a;b\""},
		{"bytes beyond ASCII", "a=\xff; tempomat_pass=x; \xc3=\x80", "a=\xff; \xc3=\x80"},
		{"another name", "xtempomat_pass=x; tempomat_pass2=x; tempomat_pass =x", "xtempomat_pass=x; tempomat_pass2=x; tempomat_pass =x"},
		{"in a value", "a=tempomat_pass=x; b=\"tempomat_pass=x\"", "a=tempomat_pass=x; b=\"tempomat_pass=x\""},
	} {
		testkit.Same(t, tc.want, StripLine(tc.line), "%s", tc.name)
	}
}

// FuzzCookie checks with any Cookie header that a pass counts wherever a browser puts it, that no other text
// counts, that the backend doesn't see the pass, and that everything else stays as it was.
func FuzzCookie(f *testing.F) {
	f.Add("a=1; b=2", "c=3")
	f.Add("tempomat_pass=x; a=1", "tempomat_pass=...........")
	f.Add(" ; tempomat_pass=", "a=tempomat_pass=")
	f.Add("tempomat_pass="+strings.Repeat("A", passText), ";;tempomat_pass=\t;")
	f.Add("tempomat_passtempomat_pass=", "\x00\xff=;")
	k := newKeys()
	pass := given(k, dawn, reader)[0]
	f.Fuzz(func(t *testing.T, before, after string) {
		lines := []string{before, after}
		if k.verify(dawn, lines, reader) && !strings.Contains(before+after, pass[len(assignment):]) {
			t.Fatalf("%q is a pass", lines)
		}
		for _, line := range lines {
			clean := StripLine(line)
			for pair := range strings.SplitSeq(clean, ";") {
				if _, ours := cutPass(pair); ours {
					t.Fatalf("of %q remains %q", line, clean)
				}
			}
			if !strings.Contains(line, assignment) && clean != line {
				t.Fatalf("%q becomes %q, though it has no pass", line, clean)
			}
		}
		value := k.issue(dawn, lines, reader)
		if len(value) > maxPasses*(passText+1) || !k.verify(dawn, []string{"a=1; " + assignment + value}, reader) {
			t.Fatalf("after %q, the new cookie is %q", lines, value)
		}
		if strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("after %q, the new cookie is %q", lines, value)
		}
		checked := 0
		eachPass(lines, func(*[passSize]byte) bool { checked++; return true })
		if checked > maxChecked {
			t.Fatalf("%d are checked", checked)
		}
	})
}

// TestFleetsPass: a pass from another instance is valid while either of two secrets is, even after restarts.
func TestFleetsPass(t *testing.T) {
	former, latter, other := [32]byte{1}, [32]byte{2}, [32]byte{3}
	at := func(signing, verifying [32]byte) *Redirector {
		n := New()
		n.SetKeys(signing, verifying)
		return n
	}
	a := at(former, latter)
	later := dawn.Add(lifetime - time.Second)
	pass := given(a.keys.Load(), dawn, reader)
	saved, _ := a.AppendBinary(nil)
	again := at(former, former)
	testkit.Must(t, again.UnmarshalBinary(saved))
	for i, c := range []struct {
		n    *Redirector
		want bool
	}{{a, true}, {at(former, former), true}, {at(former, latter), true}, {at(latter, former), true}, {again, true}, {at(latter, latter), false}, {at(other, other), false}} {
		testkit.Same(t, c.want, c.n.keys.Load().verify(later, pass, reader), "%d: valid", i)
	}
	alone := New()
	if err := alone.UnmarshalBinary(saved); err != nil || !alone.keys.Load().verify(later, pass, reader) {
		t.Error("without the secret, a pass from before the start is invalid:", err)
	}
}
