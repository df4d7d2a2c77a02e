//go:build accept

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// plainBackend answers each request with two bytes, and is fast: what is
// measured is the proxy. A path that begins with /sleep takes a second.
func plainBackend(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for answerPlainly(in, c) == nil {
				}
			})
		}
	})
	return "http://" + l.Addr().String()
}

func answerPlainly(in *bufio.Reader, out io.Writer) error {
	slow := false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		slow = slow || strings.HasPrefix(string(line[:min(len(line), 10)]), "GET /sleep")
		if len(line) <= 2 {
			break
		}
	}
	if slow {
		time.Sleep(time.Second)
	}
	_, err := io.WriteString(out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok")
	return err
}

// TestAcceptManyClients sends a million requests, each of another address.
func TestAcceptManyClients(t *testing.T) {
	sayLoad(t)
	const requests, connections, debtor = 1_000_000, 16, "203.0.113.9"
	s := startProxy(t, plainBackend(t), `cpuCount: 1
cost: {source: wall}
throttle: {mode: cooperative, maxHold: 0s, memory: 1h}
classes:
  slash32: {share: 0.1, burst: 30s}
  slash24: {share: 1, burst: 1h}
  slash16: {share: 1, burst: 1h}
  userAgent: {share: 1, burst: 24h}
log: {access: off}
`)
	var running []<-chan string
	for range 80 {
		running = append(running, s.later(from(debtor), "/sleep"))
	}
	for _, r := range running {
		if got := <-r; got != "200 OK" {
			t.Fatal(got)
		}
	}
	before, _ := s.account("slash32", debtor)
	idle, _ := s.memory()
	began := time.Now()
	var done atomic.Int64
	var all sync.WaitGroup
	for part := range uint32(connections) {
		all.Go(func() {
			if err := visitFrom(s.url, part*requests/connections, requests/connections, &done); err != nil {
				t.Error(err)
			}
		})
	}
	f := newFigures("clients", "after", "keys", "memory", "at most", "debt", "expected", "the debtor gets")
	inDebt := int64(0)
	look := func() {
		n, elapsed := done.Load(), time.Since(began)
		want := before.Level + 0.1*elapsed.Seconds()
		row, known := s.account("slash32", debtor)
		asks := s.get(debtor, "/")
		now, most := s.memory()
		keys := s.stats().Counters["keys"]
		f.row("%d | %.0f s | %d | %.0f MB | %.0f MB | %.2f | %.2f | %d", n, elapsed.Seconds(), keys, now, most, row.Level, want, asks.StatusCode)
		if !known || row.Level > want+0.1 || row.Level < want-0.1 {
			t.Errorf("the debtor has %.2f (known: %v), want %.2f", row.Level, known, want)
		}
		if want < -0.1 {
			inDebt = n
			if asks.StatusCode != http.StatusTooManyRequests {
				t.Errorf("the debtor got %s", asks.Status)
			}
		}
		if most > 150 {
			t.Errorf("%.0f MB of memory, allowed are 150", most)
		}
		if keys > 65_536+connections {
			t.Errorf("%d keys are remembered, want 65536", keys)
		}
	}
	for n := int64(1); n < 10; n++ {
		for done.Load() < n*requests/10 && !t.Failed() {
			time.Sleep(10 * time.Millisecond)
		}
		look()
	}
	all.Wait()
	look()
	t.Logf("%s\n%d MB of memory before; %.0f clients per second", f, int(idle), requests/time.Since(began).Seconds())
	if inDebt < requests {
		t.Errorf("the last 429 was after %d clients", inDebt)
	}
}

// visitFrom asks for a page as one client after another, over one connection.
func visitFrom(url string, first, n uint32, done *atomic.Int64) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	var request []byte
	for i := first; i < first+n; i++ {
		request = append(request[:0], "GET /page HTTP/1.1\r\nHost: a\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0\r\nX-Forwarded-For: "...)
		request = addressOf(i).AppendTo(request)
		request = append(request, "\r\n\r\n"...)
		if _, err := c.Write(request); err != nil {
			return err
		}
		if err := readPlainAnswer(in); err != nil {
			return fmt.Errorf("client %v: %w", addressOf(i), err)
		}
		done.Add(1)
	}
	return nil
}

// addressOf spreads numbers over all of IPv4: an odd factor makes no two alike.
func addressOf(i uint32) netip.Addr {
	for {
		i = i*2654435761 + 12345
		if first := i >> 24; first != 127 && first != 0 && i>>16 != 203<<8 {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], i)
			return netip.AddrFrom4(b)
		}
	}
}

func readPlainAnswer(in *bufio.Reader) error {
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.HasPrefix(string(line), "HTTP/1.1 200 ") {
			return fmt.Errorf("answered %q", line)
		}
		if len(line) <= 2 {
			break
		}
	}
	var body [2]byte
	if _, err := io.ReadFull(in, body[:]); err != nil || string(body[:]) != "ok" {
		return fmt.Errorf("the body is %q: %w", body, err)
	}
	return nil
}
