package front

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/proxy/connlimit"
)

const (
	from4  = "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\r\n"
	sslTLV = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x14\xcb\x00\x71\x09\x7f\x00\x00\x01\x13\x88\x01\xbb\x20\x00\x05\x01\x00\x00\x00\x00"
	local  = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// tellsClient answers with the client's address and whether it used TLS.
func tellsClient(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %t", r.RemoteAddr, r.TLS != nil)
}

// TestProxied sends requests behind headers, in pieces of all sizes, with TLS and without.
func TestProxied(t *testing.T) {
	authority := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "a.example")}}
	for name, tc := range map[string]struct {
		header, client string // the client that the handler sees; empty: the peer
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
					if piece > 0 && piece < len(tc.header) && tc.header[0] == 'P' {
						continue // version 1 comes in one piece
					}
					wire := &corkedWire{TCPConn: connect(t, l), corks: true}
					want := tc.client
					if want == "" {
						want = wire.LocalAddr().String()
					}
					want = fmt.Sprintf("200 %s %t", want, tc.secure || over != nil)
					wire.kept.WriteString(tc.header)
					if piece > 0 {
						_, _ = wire.TCPConn.Write(wire.kept.Next(piece))
						time.Sleep(time.Millisecond) // lets most pieces come alone
					}
					var c net.Conn = wire
					if over != nil {
						c = tls.Client(&sendsOnFlush{corkedWire: wire}, &tls.Config{InsecureSkipVerify: true})
						testkit.Must(t, c.(*tls.Conn).Handshake())
						_, _ = io.WriteString(c, getHello+getHello)
					} else {
						_, _ = io.WriteString(c, getHello+getHello)
						wire.flush(1 << 20)
					}
					r := bufio.NewReader(c)
					hear(t, r, want, want)
					_ = wire.Close()
					testkit.Same(t, "PROXY ok", <-seen.all, "the server says")
					if over != nil {
						<-seen.all
					}
				}
			})
		}
	}
}

// sendsOnFlush sends the bytes that were kept, together with each piece that is written.
type sendsOnFlush struct{ *corkedWire }

func (s *sendsOnFlush) Write(p []byte) (int, error) {
	s.kept.Write(p)
	_, err := s.TCPConn.Write(s.kept.Next(s.kept.Len()))
	return len(p), err
}

// TestProxiedLong sends more bytes with a header than fit in the memory for a head.
func TestProxiedLong(t *testing.T) {
	l, _, _ := entered(t, http.HandlerFunc(tellsClient), Entrance{Proxied: true}, trust)
	c := connect(t, l)
	post := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", 3*inSize, strings.Repeat("x", 3*inSize))
	_, _ = io.WriteString(c, from4+post+post)
	hear(t, bufio.NewReader(c), slices.Repeat([]string{"200 203.0.113.9:5000 false"}, 2)...)
}

// TestProxiedRefused opens connections that don't begin as they must.
func TestProxiedRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		say     string
		stay    bool // whether the client keeps the connection open
		trusted bool
		want    Result
	}{
		"of a stranger": {say: from4 + getHello, want: ResultUntrusted, stay: true},
		"missing":       {say: getHello, trusted: true, want: ResultMalformed, stay: true},
		"overlong":      {say: "PROXY TCP4 " + strings.Repeat("1", 200), trusted: true, want: ResultMalformed, stay: true},
		"silence":       {trusted: true, want: ResultLate, stay: true},
		"half":          {say: local[:14], trusted: true, want: ResultLate, stay: true},
		"half, gone":    {say: local[:14], trusted: true, want: ResultGone},
		"gone":          {trusted: true, want: ResultGone},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, seen := entered(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("served") }), Entrance{Proxied: true},
				func(o *Options) {
					if tc.trusted {
						trust(o)
					}
					if tc.want == ResultLate {
						o.Header = 50 * time.Millisecond
					}
				})
			c := connect(t, l)
			_, _ = io.WriteString(c, tc.say)
			testkit.Same(t, "", ends(t, c, tc.stay, seen, "PROXY "+string(tc.want)), "the client hears")
		})
	}
}

// TestProxiedPlaces: the connection counts as the client's instead of the proxy's.
func TestProxiedPlaces(t *testing.T) {
	table := connlimit.New(time.Now(), 10)
	l, _, _ := entered(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, table.Stats(2).Top)
	}), Entrance{Proxied: true}, func(o *Options) {
		trust(o)
		o.Table = table
	})
	c := connect(t, l)
	_, _ = io.WriteString(c, from4+getHello)
	hear(t, bufio.NewReader(c), "200 [{203.0.113.9/32 1}]")
}

const knownClient = "203.0.113.9:5000"

// v2 makes a header of version 2.
func v2(command, family byte, rest string) string {
	return local[:12] + string([]byte{0x20 | command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
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

// TestHeaderKeepsNoMemory: a connection over TLS on which only a header has arrived may stay idle for long, and
// keeps no memory for reading.
func TestHeaderKeepsNoMemory(t *testing.T) {
	o := Options{Log: zap.NewNop()}
	trust(&o)
	near, far := net.Pipe()
	defer far.Close()
	c := newServer(nil, o).entering(near, &Entrance{TLS: &tls.Config{}, Proxied: true})
	go func() { _, _ = io.WriteString(far, from4) }()
	if _, err := c.receiveProxyHeader(); err != nil || c.tls.below.buffered != nil {
		t.Errorf("%d bytes, %v", cap(c.tls.below.buffered), err)
	}
}

// TestHeaders reads each header, with and without bytes after it.
func TestHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		said, source string
		secure       bool
	}{
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
	} {
		want := proxyHeader{secure: tc.secure}
		if tc.source != "" {
			want.source = netip.MustParseAddrPort(tc.source)
		}
		for _, after := range []string{"", "\n", "GET / HTTP/1.1\r\n", tc.said} {
			r := bufio.NewReader(strings.NewReader(tc.said + after))
			h, err := readProxyHeader(r)
			if rest, _ := io.ReadAll(r); h != want || string(rest) != after || err != nil {
				t.Errorf("%s, before %q: %+v, then %q, %v; want %+v", name, after, h, rest, err, want)
			}
		}
	}
}

// TestMalformed reads texts that aren't valid headers.
func TestMalformed(t *testing.T) {
	for name, said := range map[string]string{
		"HTTP":          "GET / HTTP/1.1\r\n",
		"TLS":           "\x16\x03\x01",
		"1, in pieces":  "PROXY TCP4 203.0.113.9",
		"1, no line":    "PROXY TCP4 " + strings.Repeat("1", 107),
		"1, nobody":     "PROXY TCP4 0.0.0.0 127.0.0.1 0 443\r\n",
		"2, too long":   v2(1, 0x11, strings.Repeat("x", 5<<10)),
		"2, broken TLV": v2(1, 0x11, addresses4+"\x04\xff\xff"),
		"2, nobody":     v2(1, 0x21, addresses6("::")),
	} {
		if h, err := readProxyHeader(bufio.NewReader(strings.NewReader(said))); !errors.Is(err, errNoProxyHeader) || h != (proxyHeader{}) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}
