package proxy

import (
	"bufio"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/limiter"
)

// shout takes a connection over and sends each line back with a "!".
func shout(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
		http.Error(w, "no upgrade", http.StatusUpgradeRequired)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTempomat-Cost: 0\r\n\r\nwelcome\n")
	for {
		line, err := rw.ReadString('\n')
		if err != nil || line == "bye\n" {
			return
		}
		_, _ = io.WriteString(c, line[:len(line)-1]+"!\n")
	}
}

const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"

// converse upgrades a connection and says something.
func converse(t *testing.T, r *rig) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, upgrade)
	res := answer(t, br, "GET")
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" || res.Header.Get("Tempomat-Cost") != "" {
		t.Fatalf("got %d, %v", res.StatusCode, res.Header)
	}
	if line, err := br.ReadString('\n'); err != nil || line != "welcome\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	for _, word := range []string{"a", "b"} {
		send(t, c, word+"\n")
		if line, err := br.ReadString('\n'); err != nil || line != word+"!\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	return c, br
}

func TestUpgrade(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative} {
		t.Run(m.String(), func(t *testing.T) {
			r := start(t, http.HandlerFunc(shout), mode(m))
			c, br := converse(t, r)
			if n := r.meter.Running(); n != 0 {
				t.Errorf("%d meters run during the upgrade", n)
			}
			send(t, c, "bye\n") // the backend closes
			if rest, err := io.ReadAll(br); err != nil || len(rest) != 0 {
				t.Errorf("the end: %q, %v", rest, err)
			}
			_ = c.Close()
			c, _ = converse(t, r)
			_ = c.Close() // the client closes
			for _, line := range r.lines() {
				if line["status"] != int64(101) || line["outcome"] != "answered" {
					t.Errorf("line %v", line)
				}
			}
		})
	}
}

// TestUpgradeIsForThisConnection has a backend say more as it agrees to an upgrade: what is for
// its own connection, and what it tells the proxy alone, is not for the client.
func TestUpgradeIsForThisConnection(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nServer: s\r\nConnection: Upgrade, X-Own\r\nUpgrade: websocket\r\n"+
			"X-Own: 1\r\nKeep-Alive: timeout=5\r\nTempomat-Cost: 0\r\nTempomat-Standing: user\r\nTempomat-Request: 1\r\n\r\n")
	}))
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, upgrade)
	head, err := textproto.NewReader(br).ReadLine()
	if err != nil || head != "HTTP/1.1 101 Switching Protocols" {
		t.Fatalf("%q, %v", head, err)
	}
	h, err := textproto.NewReader(br).ReadMIMEHeader()
	want := textproto.MIMEHeader{"Server": {"s"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	if err != nil || !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("%v, %v", h, err)
	}
}

func TestUpgradeRefused(t *testing.T) {
	r := start(t, http.HandlerFunc(shout))
	c := r.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n") // not named in Connection
	if res := answer(t, bufio.NewReader(c), "GET"); res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("got %v", res)
	}
}

// TestUpgradeUnasked: a client that asked for no other protocol goes on to speak HTTP, of
// which the backend would get every request uncounted.
func TestUpgradeUnasked(t *testing.T) {
	for _, fields := range []string{"", "Upgrade: x\r\n", "Connection: Upgrade\r\nUpgrade: x\r\n", "Connection: Upgrade\r\n"} {
		back := loopback(t)
		rawBackend(t, back, func(string) string { return "HTTP/1.1 101 Switching Protocols\r\n" + fields + "\r\n" })
		r := startOn(t, loopback(t), back, nil)
		c := r.dial()
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if res := answer(t, bufio.NewReader(c), "GET"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("%q: got %v", fields, res)
		}
		_ = c.Close()
	}
}

// TestUpgradeThatCannotBe: the backend is not asked for another protocol that it could
// agree to, and be blamed for what comes of it.
func TestUpgradeThatCannotBe(t *testing.T) {
	r := startHeadEcho(t)
	for _, line := range []string{
		"GET / HTTP/1.0\r\nConnection: Upgrade",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nExpect: 100-continue\r\nContent-Length: 9",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked",
	} {
		c := r.dial()
		send(t, c, line+"\r\nUpgrade: websocket\r\n\r\n")
		res := answer(t, bufio.NewReader(c), "GET")
		if head := readAll(t, res); res.StatusCode != http.StatusOK || strings.Contains(head, "pgrade") {
			t.Errorf("%q: got %d, the backend %q", line, res.StatusCode, head)
		}
		_ = c.Close()
	}
}

// TestUpgradeWithVersion has a client ask for a version that the backend does not tell.
func TestUpgradeWithVersion(t *testing.T) {
	back := loopback(t)
	rawBackend(t, back, func(string) string {
		return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	})
	r := startOn(t, loopback(t), back, nil)
	c := r.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket/13\r\n\r\n")
	if res := answer(t, bufio.NewReader(c), "GET"); res.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("got %v", res)
	}
	_ = c.Close()
}

// TestIdleUpgrade has upgraded connections on which nothing is said for too
// long, and ones on which one side speaks now and then.
func TestIdleUpgrade(t *testing.T) {
	for _, tc := range []struct {
		name    string
		speaks  bool
		backend bool // it is the backend that speaks
	}{{"idle", false, false}, {"client speaks", true, false}, {"backend speaks", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if !tc.backend {
						shout(w, q)
						return
					}
					c, _, _ := http.NewResponseController(w).Hijack()
					defer c.Close()
					_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
					for {
						time.Sleep(50 * time.Second)
						if _, err := io.WriteString(c, "word\n"); err != nil {
							return
						}
					}
				}), fairly, func(s *setup) { s.upgrade = time.Minute })
				c := r.dial()
				br := bufio.NewReader(c)
				send(t, c, upgrade)
				if res := answer(t, br, "GET"); res.StatusCode != 101 {
					t.Fatalf("got %d", res.StatusCode)
				}
				if !tc.backend {
					_, _ = br.ReadString('\n')
				}
				for range 10 {
					if !tc.speaks {
						break
					}
					if !tc.backend {
						time.Sleep(50 * time.Second)
						send(t, c, "word\n")
					}
					if line, err := br.ReadString('\n'); err != nil {
						t.Fatalf("got %q, %v", line, err)
					}
				}
				if g := r.limiter.GateState(); g.Busy != 1 {
					t.Errorf("%d places are taken, want 1", g.Busy)
				}
				from := time.Now()
				if tc.backend {
					_ = c.Close()
					time.Sleep(2 * time.Minute)
				} else if _, err := io.ReadAll(br); err != nil || time.Since(from) != time.Minute {
					t.Errorf("closed after %s, %v", time.Since(from), err)
				}
				r.busy.Wait()
				if g := r.limiter.GateState(); g.Busy != 0 {
					t.Errorf("%d places are taken after the end", g.Busy)
				}
				if line := r.line(); line["outcome"] != "answered" {
					t.Errorf("access log: %v", line)
				}
			})
		})
	}
}
