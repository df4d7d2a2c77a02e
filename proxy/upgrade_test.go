package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"tempomat/limiter"
)

// shout takes a connection over and sends each line back with a "!".
func shout(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "shout" || r.Header.Get("Connection") != "Upgrade" {
		http.Error(w, "no upgrade", http.StatusUpgradeRequired)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\nTempomat-Cost: 0\r\n\r\nwelcome\n")
	for {
		line, err := rw.ReadString('\n')
		if err != nil || line == "bye\n" {
			return
		}
		_, _ = io.WriteString(c, line[:len(line)-1]+"!\n")
	}
}

const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: shout\r\n\r\n"

// converse upgrades a connection and says something.
func converse(t *testing.T, r *rig) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, upgrade)
	res := answer(t, br, "GET")
	if res.StatusCode != 101 || res.Header.Get("Upgrade") != "shout" || res.Header.Get("Tempomat-Cost") != "" {
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

func TestUpgradeRefused(t *testing.T) {
	r := start(t, http.HandlerFunc(shout))
	c := r.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: shout\r\n\r\n") // not named in Connection
	if res := answer(t, bufio.NewReader(c), "GET"); res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("got %v", res)
	}
}
