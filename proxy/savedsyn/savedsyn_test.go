package savedsyn

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// packet is bytes in hexadecimal digits, with blanks where one likes.
func packet(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

const (
	ip4     = "4500003c 1c464000 31060000 ac10000a c0a80001" // 49 left of 64
	ip6     = "60000000 0028 06 7b" + "20010db8000000000000000000000005" + "20010db8000000000000000000000001"
	linux   = "d2040050 00000001 00000000 a002 faf0 0000 0000 020405b4 0402 080a 01020304 00000000 01 030307"
	windows = "d2040050 00000001 00000000 8002 faf0 0000 0000 020405b4 01 030308 01 01 0402"
)

func TestSignature(t *testing.T) {
	for name, test := range map[string]struct{ packet, want string }{
		"Linux":               {ip4 + linux, "4:64:44s,7:MSTNW"},
		"Linux, another size": {ip4 + strings.Replace(strings.Replace(linux, "05b4", "0578", 1), "faf0", "f0a0", 1), "4:64:44s,7:MSTNW"},
		"Windows over IPv6":   {ip6 + windows, "6:128:44s,8:MNWNNS"},
		"no options":          {ip4 + "d2040050 00000001 00000000 5002 0400 0000 0000", "4:64:1024,0:"},
		"far away":            {strings.Replace(ip4, "3106", "0106", 1) + linux, "4:32:44s,7:MSTNW"},
		"broken options":      {ip4 + "d2040050 00000001 00000000 6002 0400 0000 0000 02ff0000", "4:64:1024,0:M"},
		"unknown options":     {ip4 + "d2040050 00000001 00000000 6002 0400 0000 0000 fe041234", "4:64:1024,0:?"},
		"no SYN":              {ip4 + "d2040050 00000001 00000000 5010 0400 0000 0000", ""},
		"cut":                 {ip4 + "d2040050 00000001", ""},
		"options cut":         {ip4 + "d2040050 00000001 00000000 f002 0400 0000 0000", ""},
		"UDP":                 {strings.Replace(ip4, "3106", "3111", 1) + linux, ""},
		"nothing":             {"", ""},
	} {
		if got := signatureOf(packet(test.packet)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add(packet(ip4 + linux))
	f.Add(packet(ip6 + windows))
	sound := regexp.MustCompile(`^[46]:(32|64|128|255):[0-9]{1,5}s?,[0-9]{1,3}:[A-Za-z?]{0,24}$`)
	f.Fuzz(func(t *testing.T, p []byte) {
		if s := signatureOf(p); s != "" && (!sound.MatchString(s) || len(s) > 64) {
			t.Errorf("%q", s)
		}
	})
}

func listen() (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false) // where the kernel keeps none
	return c.Listen(context.Background(), "tcp", "127.0.0.1:0")
}

// TestOfTheKernel: a connection's packet is there, once; that of a listener that keeps none is
// not.
func TestOfTheKernel(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		l, err := listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if keeps {
			if err := Keep(l); errors.Is(err, errors.ErrUnsupported) {
				t.Skipf("on %s/%s no packet is kept", runtime.GOOS, runtime.GOARCH)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		first, second := Read(c), Read(c)
		if (first != "") != keeps || second != "" {
			t.Errorf("keeps %v: %q, then %q", keeps, first, second)
		}
		if keeps && !strings.HasPrefix(first, "4:64:") {
			t.Errorf("this machine is %q", first)
		}
		t.Log(first)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if got := Read(a); got != "" {
		t.Errorf("a connection without a descriptor: %q", got)
	}
}

func BenchmarkRead(b *testing.B) {
	l, err := listen()
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.Run("call", func(b *testing.B) {
		for b.Loop() {
			Read(c)
		}
	})
	p := packet(ip4 + linux)
	b.Run("signature", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			signatureOf(p)
		}
	})
}
