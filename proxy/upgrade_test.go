package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
)

// shout takes over a connection and sends each line back with a "!".
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

// converse upgrades a connection, with additional fields, and says something.
func converse(t *testing.T, r *rig, fields ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, strings.TrimSuffix(upgrade, "\r\n")+strings.Join(fields, "")+"\r\n")
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
	r := start(t, http.HandlerFunc(shout))
	c, br := converse(t, r, "Cookie: "+strings.Repeat("x", 20<<10)+"\r\n")
	if held := r.handler.heads.Held(); held < 20<<10 {
		t.Errorf("%d bytes are counted of a header that is kept for as long as the connection", held)
	}
	testkit.Same(t, 0, r.meter.Running(), "meters that run during the upgrade")
	send(t, c, "bye\n") // the backend closes
	if rest, err := io.ReadAll(br); err != nil || len(rest) != 0 {
		t.Errorf("the end: %q, %v", rest, err)
	}
	_ = c.Close()
	c, _ = converse(t, r)
	_ = c.Close() // the client closes
	r.checkLog(map[string]any{"status": int64(101), "outcome": "answered"})
}

// TestUpgradeUnasked: the backend must not upgrade a connection whose client asked for no other protocol,
// because the client would continue to speak HTTP, and its requests would pass uncounted. A client that asked
// for a version of a protocol has asked for the protocol, whether or not the backend names the version.
func TestUpgradeUnasked(t *testing.T) {
	for _, tc := range []struct {
		asks, agrees string
		status       int
	}{
		{"", "", http.StatusBadGateway},
		{"", "Upgrade: x\r\n", http.StatusBadGateway},
		{"", "Connection: Upgrade\r\nUpgrade: x\r\n", http.StatusBadGateway},
		{"", "Connection: Upgrade\r\n", http.StatusBadGateway},
		{"Connection: Upgrade\r\nUpgrade: websocket/13\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n", http.StatusSwitchingProtocols},
	} {
		r := startRaw(t, func(string) string { return "HTTP/1.1 101 Switching Protocols\r\n" + tc.agrees + "\r\n" })
		if res, _ := r.say("GET / HTTP/1.1\r\nHost: h\r\n" + tc.asks + "\r\n"); res.StatusCode != tc.status {
			t.Errorf("%q, %q: got %v", tc.asks, tc.agrees, res)
		}
	}
}

// TestUpgradeThatCannotBe: the backend never sees a request to upgrade to a protocol that the proxy can't pass
// on, so the backend can't agree to it.
func TestUpgradeThatCannotBe(t *testing.T) {
	r := startHeadEcho(t)
	for _, line := range []string{
		"GET / HTTP/1.0\r\nConnection: Upgrade",
		"GET / HTTP/1.1\r\nHost: h", // not named in Connection
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nExpect: 100-continue\r\nContent-Length: 9",
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked",
	} {
		res, head := r.say(line + "\r\nUpgrade: websocket\r\n\r\n")
		if res.StatusCode != http.StatusOK || strings.Contains(head, "pgrade") {
			t.Errorf("%q: got %d, the backend %q", line, res.StatusCode, head)
		}
	}
}

// held starts a dialogue in which who speaks. It returns both ends, and a channel that gets hold's result.
func held(who string, limit time.Duration) (speaks, hears net.Conn, over <-chan bool) {
	client, near := net.Pipe()
	far, back := net.Pipe()
	d := dialogue{client: near, back: far, limit: limit}
	idle := make(chan bool, 1)
	go func() { idle <- d.hold(near) }()
	if who == "the backend" {
		return back, client, idle
	}
	return client, back, idle
}

// TestIdleUpgrade: on an upgraded connection, one side sends something now and then, until both sides are
// silent for too long. The limit is a usual one or the shortest that the configuration allows.
func TestIdleUpgrade(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, time.Minute} {
		for _, who := range []string{"the client", "the backend"} {
			inBubble(t, fmt.Sprint(who, " speaks, limit ", limit), func(t *testing.T) {
				speaks, hears, over := held(who, limit)
				go func() { _, _ = io.Copy(io.Discard, hears) }()
				for range 20 {
					time.Sleep(limit * 7 / 10)
					if _, err := io.WriteString(speaks, "word\n"); err != nil {
						t.Fatalf("closed although %s speaks: %v", who, err)
					}
				}
				go func() { _, _ = io.Copy(io.Discard, speaks) }()
				if _, err := io.WriteString(hears, "answer\n"); err != nil {
					t.Errorf("the silent side can't answer: %v", err)
				}
				from := time.Now()
				if idle, after := <-over, time.Since(from); !idle || after < limit || after > limit+deadlineStep {
					t.Errorf("closed after %s, idle: %t", after, idle)
				}
			})
		}
	}
}

// TestUpgradeWithOneSide: one side reads nothing, but sends something now and then.
func TestUpgradeWithOneSide(t *testing.T) {
	for _, who := range []string{"the client", "the backend"} {
		inBubble(t, who, func(t *testing.T) {
			speaks, hears, over := held(who, time.Minute)
			go func() { _, _ = io.Copy(io.Discard, hears) }()
			go func() { _, _ = hears.Write(make([]byte, 1<<10)) }()
			words := 0
			for ; words < 10; words++ {
				time.Sleep(30 * time.Second)
				if _, err := io.WriteString(speaks, "word\n"); err != nil {
					break
				}
			}
			testkit.Same(t, 2, words, "words before it is closed")
			_ = speaks.Close()
			<-over
		})
	}
}

// TestUpgradeThatIsNotRead: a client doesn't read that the backend agrees to upgrade.
func TestUpgradeThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(shout), limited)
		c := r.dial()
		send(t, c, upgrade)
		time.Sleep(31 * time.Second)
		testkit.Same(t, 1, r.access.Len(), "requests that have ended")
		_ = c.Close()
	})
}

// TestUpgradeThatPanics: a panic in the code below an upgraded connection ends the connection, but not the
// process.
func TestUpgradeThatPanics(t *testing.T) {
	_, near := net.Pipe()
	far, back := net.Pipe()
	d := dialogue{client: near, back: far, log: zap.NewNop()}
	if d.hold(panics{}) {
		t.Error("closed as an idle one")
	}
	if _, err := back.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the backend's side: %v", err)
	}
}

// panics is a reader that panics.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("a record that TLS doesn't expect") }
