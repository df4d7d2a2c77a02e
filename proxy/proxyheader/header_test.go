package proxyheader

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pires/go-proxyproto"
)

const known = "203.0.113.9:5000"

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
		"1, IPv4":           {said: "PROXY TCP4 203.0.113.9 127.0.0.1 5000 443\r\n", source: known},
		"1, IPv6":           {said: "PROXY TCP6 2001:db8::9 ::1 5000 443\r\n", source: "[2001:db8::9]:5000"},
		"1, mapped":         {said: "PROXY TCP6 ::ffff:203.0.113.9 ::1 5000 443\r\n", source: known},
		"1, unknown":        {said: "PROXY UNKNOWN\r\n"},
		"1, unknown, more":  {said: "PROXY UNKNOWN ffff:f ffff:f 65535 65535\r\n"},
		"2, IPv4":           {said: v2(1, 0x11, addresses4), source: known},
		"2, IPv6":           {said: v2(1, 0x21, addresses6("2001:db8::9")), source: "[2001:db8::9]:5000"},
		"2, mapped":         {said: v2(1, 0x21, addresses6("::ffff:203.0.113.9")), source: known},
		"2, local":          {said: v2(0, 0x00, "")},
		"2, local, address": {said: v2(0, 0x11, addresses4)},
		"2, unspecified":    {said: v2(1, 0x00, "")},
		"2, unspec., more":  {said: v2(1, 0x00, tlvNoop)},
		"2, local, more":    {said: v2(0, 0x00, tlvNoop)},
		"2, unix":           {said: v2(1, 0x31, strings.Repeat("a", 216))},
		"2, TLS":            {said: v2(1, 0x11, addresses4+tlvNoop+tlvSSL), source: known, secure: true},
		"2, no TLS":         {said: v2(1, 0x11, addresses4+tlvClear), source: known},
		"2, long":           {said: v2(1, 0x11, addresses4+"\xe0\x07\x00"+strings.Repeat("x", 0x700)), source: known},
	}
}

// TestHeaders reads each, whole and beginning at each byte.
func TestHeaders(t *testing.T) {
	for name, tc := range headers() {
		t.Run(name, func(t *testing.T) {
			want := Header{Secure: tc.secure}
			if tc.source != "" {
				want.Source = netip.MustParseAddrPort(tc.source)
			}
			for i := range len(tc.said) {
				if h, size, err := Parse([]byte(tc.said[:i])); size != 0 || err != nil || h != (Header{}) {
					t.Fatalf("of %d bytes: %v, %d, %v", i, h, size, err)
				}
			}
			for _, after := range []string{"", "\n", "GET / HTTP/1.1\r\n", tc.said} {
				h, size, err := Parse([]byte(tc.said + after))
				if diff := cmp.Diff(want, h, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" || size != len(tc.said) || err != nil {
					t.Errorf("before %q: %d of %d bytes, %v (-want +got):\n%s", after, size, len(tc.said), err, diff)
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
		if h, size, err := Parse([]byte(said)); !errors.Is(err, ErrMalformed) || size != 0 || h != (Header{}) {
			t.Errorf("%s: %+v, %d, %v", name, h, size, err)
		}
	}
}

// FuzzParse compares with the library, which reads from a connection, and checks that nothing
// is longer than it may be.
func FuzzParse(f *testing.F) {
	for _, h := range headers() {
		f.Add([]byte(h.said))
		f.Add([]byte(h.said + "GET / HTTP/1.1\r\n"))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		kept := bytes.Clone(said)
		h, size, err := Parse(said)
		switch {
		case !bytes.Equal(kept, said):
			t.Fatal("it has changed what was said")
		case err != nil && (size != 0 || !errors.Is(err, ErrMalformed)):
			t.Fatalf("%d, %v", size, err)
		case size > most2 || size > len(said):
			t.Fatalf("%d bytes of %d", size, len(said))
		case err == nil && size == 0 && len(said) >= most2:
			t.Fatalf("%d bytes are not enough", len(said))
		case size == 0:
			return
		}
		for i := range size {
			if _, n, err := Parse(said[:i]); n != 0 || err != nil {
				t.Fatalf("%d bytes of %d: %d, %v", i, size, n, err)
			}
		}
		near, far := net.Pipe()
		defer near.Close()
		go func() { _, _ = far.Write(said); _ = far.Close() }()
		c := proxyproto.NewConn(near)
		if h.Source.IsValid() && c.RemoteAddr().(*net.TCPAddr).AddrPort().Port() != h.Source.Port() {
			t.Fatalf("%v, the library has %v", h.Source, c.RemoteAddr())
		}
	})
}
