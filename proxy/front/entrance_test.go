package front

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"tempomat/internal/testkit"
)

const (
	from4  = "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\r\n"
	sslTLV = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x14\xcb\x00\x71\x09\x7f\x00\x00\x01\x13\x88\x01\xbb\x20\x00\x05\x01\x00\x00\x00\x00"
	local  = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// tellsClient answers with who asks, and how.
func tellsClient(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %t", r.RemoteAddr, r.TLS != nil)
}

func trust(o *Options) { o.Trusts = func(string) bool { return true } }

// TestProxied has requests come behind headers in whatever pieces, with TLS and without.
func TestProxied(t *testing.T) {
	authority := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "a.example")}}
	for name, tc := range map[string]struct {
		header, client string // the client; empty: the peer
		secure         bool
	}{
		"version 1":           {from4, "203.0.113.9:5000", false},
		"version 2, with TLS": {sslTLV, "203.0.113.9:5000", true},
		"a health check":      {local, "", false},
		"unknown":             {"PROXY UNKNOWN\r\n", "", false},
	} {
		for _, over := range []*tls.Config{nil, config} {
			t.Run(fmt.Sprintf("%s, TLS %t", name, over != nil), func(t *testing.T) {
				l, _, seen := entered(t, http.HandlerFunc(tellsClient), Entrance{TLS: over, Proxied: true}, trust)
				for piece := 0; piece <= len(tc.header); piece++ { // 0: all at once
					wire := &corkedWire{TCPConn: connect(t, l), corks: true}
					want := tc.client
					if want == "" {
						want = wire.LocalAddr().String()
					}
					want = fmt.Sprintf("200 %s %t", want, tc.secure || over != nil)
					wire.kept.WriteString(tc.header)
					if piece > 0 {
						_, _ = wire.TCPConn.Write(wire.kept.Next(piece))
						time.Sleep(time.Millisecond) // so that most come by themselves
					}
					var c net.Conn = wire
					if over != nil {
						c = tls.Client(&sendsOnFlush{corkedWire: wire}, &tls.Config{InsecureSkipVerify: true})
						if err := c.(*tls.Conn).Handshake(); err != nil {
							t.Fatal(err)
						}
						_, _ = io.WriteString(c, getHello+getHello)
					} else {
						_, _ = io.WriteString(c, getHello+getHello)
						wire.flush(1 << 20)
					}
					r := bufio.NewReader(c)
					hear(t, r, want, want)
					_ = wire.Close()
					if got := <-seen.all; got != "PROXY ok" {
						t.Fatalf("the server says %s", got)
					}
					if over != nil {
						<-seen.all
					}
				}
			})
		}
	}
}

// sendsOnFlush sends what was kept with each piece that is written.
type sendsOnFlush struct{ *corkedWire }

func (s *sendsOnFlush) Write(p []byte) (int, error) {
	s.kept.Write(p)
	_, err := s.TCPConn.Write(s.kept.Next(s.kept.Len()))
	return len(p), err
}

// TestProxiedLong has more come with a header than memory for a head has room for.
func TestProxiedLong(t *testing.T) {
	l, _, _ := entered(t, http.HandlerFunc(tellsClient), Entrance{Proxied: true}, trust)
	c := connect(t, l)
	post := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", 3*inSize, strings.Repeat("x", 3*inSize))
	_, _ = io.WriteString(c, from4+post+post)
	hear(t, bufio.NewReader(c), slices.Repeat([]string{"200 203.0.113.9:5000 false"}, 2)...)
}

// TestProxiedRefused has connections that do not begin as they must.
func TestProxiedRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		say     string
		stay    bool // the client does not close
		trusted bool
		want    Result
	}{
		"of a stranger": {say: from4 + getHello, want: ResultUntrusted, stay: true},
		"missing":       {say: getHello, trusted: true, want: ResultMalformed, stay: true},
		"overlong":      {say: "PROXY TCP4 " + strings.Repeat("1", 200), trusted: true, want: ResultMalformed, stay: true},
		"silence":       {trusted: true, want: ResultLate, stay: true},
		"half":          {say: from4[:20], trusted: true, want: ResultLate, stay: true},
		"half, gone":    {say: from4[:20], trusted: true, want: ResultGone},
		"gone":          {trusted: true, want: ResultGone},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, seen := entered(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("served") }), Entrance{Proxied: true},
				func(o *Options) {
					o.Trusts = func(string) bool { return tc.trusted }
					if tc.want == ResultLate {
						o.Header = 50 * time.Millisecond
					}
				})
			c := connect(t, l)
			_, _ = io.WriteString(c, tc.say)
			if !tc.stay {
				_ = c.CloseWrite()
			}
			if got := <-seen.all; got != "PROXY "+string(tc.want) {
				t.Errorf("the server says %q, want %s", got, tc.want)
			}
			if got, _ := io.ReadAll(c); len(got) > 0 {
				t.Errorf("the client hears %q", got)
			}
		})
	}
}

// TestProxiedTwice has a client behind the proxy send a header of its own: it is no request.
func TestProxiedTwice(t *testing.T) {
	l, _, _ := entered(t, http.HandlerFunc(tellsClient), Entrance{Proxied: true}, trust)
	c := connect(t, l)
	_, _ = io.WriteString(c, from4+"PROXY TCP4 198.51.100.1 127.0.0.1 5000 443\r\n"+getHello)
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 400 {
		t.Errorf("got %v, %v", res, err)
	}
}

// countedPlace counts how often it was left.
type countedPlace struct{ left atomic.Int32 }

func (*countedPlace) Busy() bool          { return true }
func (*countedPlace) Idle(time.Time) bool { return true }
func (p *countedPlace) Leave()            { p.left.Add(1) }

// TestProxiedPlaces has the connection count as the proxy's first, and then as the client's.
func TestProxiedPlaces(t *testing.T) {
	var mu sync.Mutex
	var came []string
	p := &countedPlace{}
	l, _, _ := entered(t, http.HandlerFunc(tellsClient), Entrance{Proxied: true}, func(o *Options) {
		trust(o)
		o.Enter = func(c io.Closer, remote string) Place {
			mu.Lock()
			defer mu.Unlock()
			came = append(came, remote)
			if strings.HasPrefix(remote, "198.51.100.") {
				_ = c.Close()
				return nil
			}
			return p
		}
	})
	c := connect(t, l)
	_, _ = io.WriteString(c, from4+getHello)
	hear(t, bufio.NewReader(c), "200 203.0.113.9:5000 false")
	mu.Lock()
	if want := []string{c.LocalAddr().String(), "203.0.113.9:5000"}; !slices.Equal(came, want) {
		t.Errorf("it came as %q, want %q", came, want)
	}
	mu.Unlock()
	if n := p.left.Load(); n != 1 {
		t.Errorf("it left %d times before it ended", n)
	}
	c = connect(t, l) // one client has too many
	_, _ = io.WriteString(c, strings.Replace(from4, "203.0.113.9", "198.51.100.9", 1)+getHello)
	if got, _ := io.ReadAll(c); len(got) > 0 {
		t.Errorf("a client without a place hears %q", got)
	}
}

const knownClient = "203.0.113.9:5000"

// v2 is a header of version 2.
func v2(command, family byte, rest string) string {
	return signature2 + string([]byte{0x20 | command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

const (
	addresses4 = "\xcb\x00\x71\x09\x7f\x00\x00\x01\x13\x88\x01\xbb"
	tlvSSL     = "\x20\x00\x05\x01\x00\x00\x00\x00"
	tlvClear   = "\x20\x00\x05\x00\x00\x00\x00\x00"
	tlvNoop    = "\x04\x00\x03abc"
)

func addresses6(from string) string {
	a := netip.MustParseAddr(from).As16()
	return string(a[:]) + strings.Repeat("\x00", 15) + "\x01\x13\x88\x01\xbb"
}

// headers are some, and what they say.
func headers() map[string]struct {
	said, source string
	secure       bool
} {
	type row = struct {
		said, source string
		secure       bool
	}
	return map[string]row{
		"1, IPv4":           {said: "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\r\n", source: knownClient},
		"1, IPv6":           {said: "PROXY TCP6 2001:db8::9 ::1 5000 443\r\n", source: "[2001:db8::9]:5000"},
		"1, mapped":         {said: "PROXY TCP6 ::ffff:203.0.113.9 ::1 5000 443\r\n", source: knownClient},
		"1, unknown":        {said: "PROXY UNKNOWN\r\n"},
		"1, unknown, more":  {said: "PROXY UNKNOWN ffff:f ffff:f 65535 65535\r\n"},
		"2, IPv4":           {said: v2(1, 0x11, addresses4), source: knownClient},
		"2, IPv6":           {said: v2(1, 0x21, addresses6("2001:db8::9")), source: "[2001:db8::9]:5000"},
		"2, mapped":         {said: v2(1, 0x21, addresses6("::ffff:203.0.113.9")), source: knownClient},
		"2, local":          {said: v2(0, 0x00, "")},
		"2, local, address": {said: v2(0, 0x11, addresses4)},
		"2, unspecified":    {said: v2(1, 0x00, "")},
		"2, unspec., more":  {said: v2(1, 0x00, tlvNoop)},
		"2, local, more":    {said: v2(0, 0x00, tlvNoop)},
		"2, unix":           {said: v2(1, 0x31, strings.Repeat("a", 216))},
		"2, TLS":            {said: v2(1, 0x11, addresses4+tlvNoop+tlvSSL), source: knownClient, secure: true},
		"2, no TLS":         {said: v2(1, 0x11, addresses4+tlvClear), source: knownClient},
		"2, long":           {said: v2(1, 0x11, addresses4+"\xe0\x07\x00"+strings.Repeat("x", 0x700)), source: knownClient},
	}
}

// TestHeaders reads each, whole and beginning at each byte.
func TestHeaders(t *testing.T) {
	for name, tc := range headers() {
		t.Run(name, func(t *testing.T) {
			want := proxyHeader{secure: tc.secure}
			if tc.source != "" {
				want.source = netip.MustParseAddrPort(tc.source)
			}
			for i := range len(tc.said) {
				if h, size, err := parseProxyHeader([]byte(tc.said[:i])); size != 0 || err != nil || h != (proxyHeader{}) {
					t.Fatalf("of %d bytes: %v, %d, %v", i, h, size, err)
				}
			}
			for _, after := range []string{"", "\n", "GET / HTTP/1.1\r\n", tc.said} {
				h, size, err := parseProxyHeader([]byte(tc.said + after))
				if h != want || size != len(tc.said) || err != nil {
					t.Errorf("before %q: %+v, %d of %d bytes, %v; want %+v", after, h, size, len(tc.said), err, want)
				}
			}
		})
	}
}

// TestMalformed reads what is no header.
func TestMalformed(t *testing.T) {
	for name, said := range map[string]string{
		"HTTP":               "GET / HTTP/1.1\r\n",
		"TLS":                "\x16\x03\x01",
		"nearly 1":           "PROXy TCP4",
		"nearly 2":           "\r\n\r\n\x00\r\nQUIT\r",
		"1, no line":         "PROXY TCP4 " + strings.Repeat("1", 107),
		"1, no end":          "PROXY UNKNOWN " + strings.Repeat("1", 92) + "\r\n\n",
		"1, no CR":           "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\n",
		"1, another family":  "PROXY UDP4 203.0.113.9 127.0.0.1 5000 443\r\n",
		"1, IPv6 as IPv4":    "PROXY TCP4 2001:db8::9 ::1 5000 443\r\n",
		"1, a zone":          "PROXY TCP6 fe80::1%eth0 ::1 5000 443\r\n",
		"1, a name":          "PROXY TCP4 localhost 127.0.0.1 5000 443\r\n",
		"1, a large port":    "PROXY TCP4 203.0.113.9 127.0.0.1 65536 443\r\n",
		"1, little":          "PROXY TCP4 203.0.113.9\r\n",
		"1, much":            "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443 1\r\n",
		"1, two spaces":      "PROXY  TCP4 203.0.113.9 127.0.0.1 5000 443\r\n",
		"1, nobody":          "PROXY TCP4 0.0.0.0 127.0.0.1 0 443\r\n",
		"2, version 1":       strings.Replace(v2(1, 0x11, addresses4), "\x21\x11", "\x11\x11", 1),
		"2, another command": v2(2, 0x11, addresses4),
		"2, another family":  v2(1, 0x41, addresses4),
		"2, UDP":             v2(1, 0x12, addresses4),
		"2, short":           v2(1, 0x11, addresses4[:11]),
		"2, too long":        v2(1, 0x11, strings.Repeat("x", most2)),
		"2, too long, local": v2(0, 0x00, strings.Repeat("x", most2)),
		"2, broken TLV":      v2(1, 0x11, addresses4+"\x04\xff\xff"),
		"2, nobody":          v2(1, 0x21, addresses6("::")),
	} {
		if h, size, err := parseProxyHeader([]byte(said)); !errors.Is(err, errNoProxyHeader) || size != 0 || h != (proxyHeader{}) {
			t.Errorf("%s: %+v, %d, %v", name, h, size, err)
		}
	}
}

// FuzzProxyHeader compares with the library, which reads from a connection, and checks that nothing
// is longer than it may be.
func FuzzProxyHeader(f *testing.F) {
	for _, h := range headers() {
		f.Add([]byte(h.said))
		f.Add([]byte(h.said + "GET / HTTP/1.1\r\n"))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		kept := bytes.Clone(said)
		h, size, err := parseProxyHeader(said)
		switch {
		case !bytes.Equal(kept, said):
			t.Fatal("it has changed what was said")
		case err != nil && (size != 0 || !errors.Is(err, errNoProxyHeader)):
			t.Fatalf("%d, %v", size, err)
		case size > most2 || size > len(said):
			t.Fatalf("%d bytes of %d", size, len(said))
		case err == nil && size == 0 && len(said) >= most2:
			t.Fatalf("%d bytes are not enough", len(said))
		case size == 0:
			return
		}
		for i := range size {
			if _, n, err := parseProxyHeader(said[:i]); n != 0 || err != nil {
				t.Fatalf("%d bytes of %d: %d, %v", i, size, n, err)
			}
		}
		near, far := net.Pipe()
		defer near.Close()
		go func() { _, _ = far.Write(said); _ = far.Close() }()
		c := proxyproto.NewConn(near)
		if h.source.IsValid() && c.RemoteAddr().(*net.TCPAddr).AddrPort().Port() != h.source.Port() {
			t.Fatalf("%v, the library has %v", h.source, c.RemoteAddr())
		}
	})
}
