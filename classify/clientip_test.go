package classify

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

const loopback = "127.0.0.1:5"

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, text := range texts {
		ps = append(ps, netip.MustParsePrefix(text))
	}
	return ps
}

// behind returns a classifier that trusts this machine, 10.0.0.0/8 and one IPv6 network.
func behind(h AddressHeader) *Classifier {
	return New(Config{
		TrustedProxies: prefixes("127.0.0.1/32", "::1/128", "10.0.0.0/8", "2001:db8:f::/48"),
		AddressHeader:  h,
	})
}

func TestClient(t *testing.T) {
	const xff, fwd, real = "X-Forwarded-For", "Forwarded", "X-Real-Ip"
	tests := []struct {
		name    string
		from    AddressHeader
		remote  string
		lines   []string
		want    string
		trusted bool
	}{
		{"plain peer", XForwardedFor, "192.0.2.1:1", nil, "192.0.2.1", false},
		{"untrusted peer's header", XForwardedFor, "192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1", false},
		{"peer v6 with zone", XForwardedFor, "[fe80::1%eth0]:80", nil, "fe80::1", false},
		{"mapped peer", XForwardedFor, "[::ffff:192.0.2.1]:80", nil, "192.0.2.1", false},
		{"mapped trusted peer", XForwardedFor, "[::ffff:127.0.0.1]:80", []string{"203.0.113.9"}, "203.0.113.9", true},
		{"mapped trusted peer with zone", XForwardedFor, "[::ffff:127.0.0.1%x]:80", []string{"203.0.113.9"}, "203.0.113.9", true},
		{"no remote address", XForwardedFor, "", nil, "127.0.0.1", true},
		{"unix", XForwardedFor, "@", []string{"203.0.113.9"}, "203.0.113.9", true},
		{"unix path", XForwardedFor, "/run/x.sock", nil, "127.0.0.1", true},
		{"no address", XForwardedFor, "pipe", []string{"203.0.113.9"}, "0.0.0.0", false},
		{"no header", XForwardedFor, loopback, nil, "127.0.0.1", true},
		{"empty header", XForwardedFor, loopback, []string{"", " , ,"}, "127.0.0.1", true},
		{"one hop", XForwardedFor, loopback, []string{"203.0.113.9"}, "203.0.113.9", true},
		{"rightmost", XForwardedFor, loopback, []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9", true},
		{"rightmost untrusted", XForwardedFor, loopback, []string{"198.51.100.1, 203.0.113.9,10.1.1.1 , 10.2.2.2"}, "203.0.113.9", true},
		{"all trusted", XForwardedFor, loopback, []string{"10.0.0.3, 10.0.0.2, 10.0.0.1"}, "10.0.0.3", true},
		{"lines", XForwardedFor, loopback, []string{"198.51.100.1", "203.0.113.9", "10.0.0.1"}, "203.0.113.9", true},
		{"empty elements", XForwardedFor, loopback, []string{"203.0.113.9,,, 10.0.0.1,", ""}, "203.0.113.9", true},
		{"garbage", XForwardedFor, loopback, []string{"203.0.113.9, what"}, "127.0.0.1", true},
		{"garbage before trusted", XForwardedFor, loopback, []string{"203.0.113.9, unknown, 10.0.0.2, 10.0.0.1"}, "10.0.0.2", true},
		{"garbage behind untrusted", XForwardedFor, loopback, []string{"what, 203.0.113.9"}, "203.0.113.9", true},
		{"leading zero", XForwardedFor, loopback, []string{"010.0.0.1"}, "127.0.0.1", true},
		{"port", XForwardedFor, loopback, []string{"203.0.113.9:567"}, "203.0.113.9", true},
		{"bad port", XForwardedFor, loopback, []string{"203.0.113.9:5x"}, "127.0.0.1", true},
		{"v6", XForwardedFor, loopback, []string{"2001:db8::1"}, "2001:db8::1", true},
		{"v6 with port", XForwardedFor, loopback, []string{"[2001:db8::1]:80"}, "2001:db8::1", true},
		{"v6 in brackets", XForwardedFor, loopback, []string{"[2001:db8::1]"}, "2001:db8::1", true},
		{"v6 with zone", XForwardedFor, loopback, []string{"fe80::1%25eth0"}, "fe80::1", true},
		{"v6 with a zone as long as may be", XForwardedFor, loopback, []string{"fe80::1%" + strings.Repeat("z", maxAddressBytes-len("fe80::1%"))}, "fe80::1", true},
		{"v6 with a longer zone", XForwardedFor, loopback, []string{"fe80::1%" + strings.Repeat("z", maxAddressBytes)}, "127.0.0.1", true},
		{"port without a number", XForwardedFor, loopback, []string{"203.0.113.9:"}, "127.0.0.1", true},
		{"too long a port", XForwardedFor, loopback, []string{"203.0.113.9:123456"}, "127.0.0.1", true},
		{"half a quote", XForwardedFor, loopback, []string{`"`}, "127.0.0.1", true},
		{"only a port", XForwardedFor, loopback, []string{":80"}, "127.0.0.1", true},
		{"v4 with zone", XForwardedFor, loopback, []string{"1.2.3.4%x"}, "127.0.0.1", true},
		{"v4 in brackets", XForwardedFor, loopback, []string{"[1.2.3.4]"}, "127.0.0.1", true},
		{"open bracket", XForwardedFor, loopback, []string{"[::1"}, "127.0.0.1", true},
		{"junk behind bracket", XForwardedFor, loopback, []string{"[2001:db8::1]x"}, "127.0.0.1", true},
		{"mapped hop", XForwardedFor, loopback, []string{"::ffff:203.0.113.9"}, "203.0.113.9", true},
		{"quoted", XForwardedFor, loopback, []string{`"203.0.113.9"`}, "203.0.113.9", true},
		{"trusted v6", XForwardedFor, "[2001:db8:f:1::2]:1", []string{"203.0.113.9, 2001:db8:f::1"}, "203.0.113.9", true},
		{"64 hops", XForwardedFor, loopback, []string{"203.0.113.9, 10.0.0.9" + strings.Repeat(",10.0.0.1", 62)}, "203.0.113.9", true},
		{"65 hops", XForwardedFor, loopback, []string{"203.0.113.9, 10.0.0.9" + strings.Repeat(",10.0.0.1", 63)}, "10.0.0.9", true},
		{"too many bytes", XForwardedFor, loopback, []string{"203.0.113.9," + strings.Repeat(" ", maxListBytes) + ",10.0.0.1"}, "10.0.0.1", true},
		{"cut hop", XForwardedFor, loopback, []string{"203.0.113.9," + strings.Repeat(" ", maxListBytes-len("3.0.113.9,,10.0.0.1")) + ",10.0.0.1"}, "10.0.0.1", true},
		{"other header", Forwarded, loopback, nil, "127.0.0.1", true},

		{"for", Forwarded, loopback, []string{"for=203.0.113.9"}, "203.0.113.9", true},
		{"case and parameters", Forwarded, loopback, []string{"proto=https; FOR=203.0.113.9 ;by=10.0.0.1"}, "203.0.113.9", true},
		{"quoted v6 and port", Forwarded, loopback, []string{`for="[2001:db8::1]:80"`}, "2001:db8::1", true},
		{"parameters of three letters", Forwarded, loopback, []string{";for=203.0.113.9;far=198.51.100.1"}, "203.0.113.9", true},
		{"obfuscated port", Forwarded, loopback, []string{`for="203.0.113.9:_p"`}, "203.0.113.9", true},
		{"an empty element before", Forwarded, loopback, []string{",for=203.0.113.9"}, "203.0.113.9", true},
		{"elements", Forwarded, loopback, []string{"for=198.51.100.1, for=203.0.113.9;proto=http, for=10.0.0.1"}, "203.0.113.9", true},
		{"element lines", Forwarded, loopback, []string{"for=198.51.100.1", `for=203.0.113.9;host="a,b;for=1.1.1.1"`, "for=10.0.0.1"}, "203.0.113.9", true},
		{"escaped quote", Forwarded, loopback, []string{`for=198.51.100.1, host="a\",b";for=203.0.113.9`}, "203.0.113.9", true},
		{"open quote before", Forwarded, loopback, []string{`for="198.51.100.1, for=203.0.113.9`}, "203.0.113.9", true},
		{"open quote in a line before", Forwarded, loopback, []string{`for="`, `for=203.0.113.9`}, "203.0.113.9", true},
		{"unknown", Forwarded, loopback, []string{"for=unknown"}, "127.0.0.1", true},
		{"obfuscated", Forwarded, loopback, []string{"for=203.0.113.9, for=_gazonk, for=10.0.0.1"}, "10.0.0.1", true},
		{"without for", Forwarded, loopback, []string{"for=203.0.113.9, proto=https"}, "127.0.0.1", true},
		{"for twice", Forwarded, loopback, []string{"for=203.0.113.9;for=203.0.113.8"}, "127.0.0.1", true},
		{"empty for", Forwarded, loopback, []string{"for=;for=203.0.113.9"}, "127.0.0.1", true},
		{"obfuscated port without a name", Forwarded, loopback, []string{`for="203.0.113.9:_"`}, "127.0.0.1", true},
		{"like for", Forwarded, loopback, []string{"xfor=203.0.113.9;fo=1;for;for:1;xor=1.1.1.1;far=1.1.1.1;fox=1.1.1.1"}, "127.0.0.1", true},
		{"untrusted peer", Forwarded, "192.0.2.1:1", []string{"for=203.0.113.9"}, "192.0.2.1", false},

		{"real address", XRealIP, loopback, []string{"203.0.113.9"}, "203.0.113.9", true},
		{"real address is trusted", XRealIP, loopback, []string{"10.0.0.1"}, "10.0.0.1", true},
		{"last line", XRealIP, loopback, []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9", true},
		{"no list", XRealIP, loopback, []string{"198.51.100.1, 203.0.113.9"}, "127.0.0.1", true},
		{"real address missing", XRealIP, loopback, nil, "127.0.0.1", true},
		{"Cloudflare's", CFConnectingIP, loopback, []string{"203.0.113.9"}, "203.0.113.9", true},
		{"Cloudflare's of untrusted peer", CFConnectingIP, "192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1", false},
		{"Akamai's", TrueClientIP, loopback, []string{"2001:db8::1"}, "2001:db8::1", true},
		{"real address of untrusted peer", XRealIP, "192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1", false},
	}
	header := map[AddressHeader]string{XForwardedFor: xff, Forwarded: fwd, XRealIP: real, CFConnectingIP: "Cf-Connecting-Ip", TrueClientIP: "True-Client-Ip"}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: test.remote, Header: http.Header{header[test.from]: test.lines}}
			got, trusted := behind(test.from).client(r)
			if got.String() != test.want || trusted != test.trusted {
				t.Errorf("client is %v, trusted peer %v; want %v, %v", got, trusted, test.want, test.trusted)
			}
		})
	}
}

// TestPeer: a peer that connects over a Unix socket is a proxy on this machine. It is trusted although it isn't
// listed. All other peers are trusted only if they are listed.
func TestPeer(t *testing.T) {
	c := New(Config{TrustedProxies: prefixes("10.0.0.0/8")})
	for remote, want := range map[string]struct {
		peer    string
		trusted bool
	}{
		"@": {"127.0.0.1", true}, "": {"127.0.0.1", true}, "/run/x.sock": {"127.0.0.1", true}, "127.0.0.1:5": {"127.0.0.1", false},
		"10.1.2.3:5": {"10.1.2.3", true}, "192.0.2.1:5": {"192.0.2.1", false}, "pipe": {"0.0.0.0", false},
	} {
		if peer, trusted := c.Peer(remote); peer.String() != want.peer || trusted != want.trusted {
			t.Errorf("%q: got %v, trusted %t; want %s, %t", remote, peer, trusted, want.peer, want.trusted)
		}
		_, trusted := c.client(&http.Request{RemoteAddr: remote})
		testkit.Same(t, want.trusted, trusted, "a request from %q: trusted", remote)
	}
}

// TestClientCannotChooseItsAddress puts the client's text before the proxy's, on the same line or on lines of its own.
func TestClientCannotChooseItsAddress(t *testing.T) {
	evil := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`(for=|"|\\|,|;|\[|\]|10\.0\.0\.1|203\.0\.113\.9|::1| ){0,12}`),
		rapid.Just(strings.Repeat("10.0.0.1,", 1000)),
	)
	trusting := map[AddressHeader]*Classifier{XForwardedFor: behind(XForwardedFor), Forwarded: behind(Forwarded)}
	rapid.Check(t, func(t *rapid.T) {
		own := netip.AddrFrom4([4]byte{198, 51, 100, rapid.Byte().Draw(t, "own")}).String()
		behindHops := rapid.SampledFrom([]string{"", ", %10.0.0.1", ", %10.0.0.1:80, %127.0.0.1"}).Draw(t, "more hops")
		for _, from := range []AddressHeader{XForwardedFor, Forwarded} {
			name, mark := "X-Forwarded-For", ""
			if from == Forwarded {
				name, mark = "Forwarded", rapid.SampledFrom([]string{"for=", `host="a,b\"";for=`, "Proto=http;For="}).Draw(t, "parameter")
			}
			appended := mark + own + strings.ReplaceAll(behindHops, "%", mark)
			if from == Forwarded {
				appended = strings.ReplaceAll(appended, ":80", "")
			}
			lines := rapid.SliceOfN(evil, 0, 3).Draw(t, "lines")
			if rapid.Bool().Draw(t, "same line") {
				lines = append(lines, evil.Draw(t, "start")+", "+appended)
			} else {
				lines = append(lines, appended)
			}
			got, _ := trusting[from].client(&http.Request{RemoteAddr: loopback, Header: http.Header{name: lines}})
			if got.String() != own {
				t.Fatalf("%s %q: client is %v, want %v", name, lines, got, own)
			}
		}
	})
}

func FuzzClientAddress(f *testing.F) {
	f.Add(loopback, "1.2.3.4, 10.0.0.1", "[::1]:80")
	f.Add("[fe80::1%eth0]:80", `for="[2001:db8::1]:80";proto=http, for=_x`, `by="a\",b";for=unknown`)
	f.Add("@", `for="`, ",,")
	f.Add("192.0.2.1:1", "::ffff:1.2.3.4%x", `"1.2.3.4:5"`)
	var all [NoHeader + 1]*Classifier
	for h := range all {
		all[h] = behind(AddressHeader(h))
	}
	f.Fuzz(func(t *testing.T, remote, a, b string) {
		for h, c := range all {
			lines := []string{a, b}
			r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": lines, "Forwarded": lines, "X-Real-Ip": lines}}
			got, trusted := c.client(r)
			peer, local := parsePeer(remote)
			if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
				t.Fatalf("client is %v", got)
			}
			if trusted != (local || c.trusted.Contains(peer)) {
				t.Fatalf("peer %v, local %v: trusted is %v", peer, local, trusted)
			}
			if (!trusted || AddressHeader(h) == NoHeader) && got != peer {
				t.Fatalf("client is %v, though the peer is %v and no header counts", got, peer)
			}
		}
	})
}

// TestSecure: only a trusted peer can state that its client used TLS. If several headers say so or deny it, the first
// one counts.
func TestSecure(t *testing.T) {
	for name, x := range map[string]struct {
		tls     bool
		proto   []string
		trusted bool
		want    bool
	}{
		"its own connection":        {true, nil, false, true},
		"no word":                   {false, nil, true, false},
		"a proxy's word":            {false, []string{"https"}, true, true},
		"in any case":               {false, []string{" HTTPS "}, true, true},
		"anybody's word":            {false, []string{"https"}, false, false},
		"the nearest to the client": {false, []string{"http, https"}, true, false},
		"and on several lines":      {false, []string{"https,http", "http"}, true, true},
		"another protocol":          {false, []string{"httpsx"}, true, false},
	} {
		r := &http.Request{Header: http.Header{"X-Forwarded-Proto": x.proto}}
		if x.tls {
			r.TLS = new(tls.ConnectionState)
		}
		testkit.Same(t, x.want, Secure(r, x.trusted), "%s", name)
	}
}
