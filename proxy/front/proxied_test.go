package front

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
