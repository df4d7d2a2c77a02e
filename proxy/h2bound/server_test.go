package h2bound

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// site is a server of net/http behind bounds.
type site struct {
	address string
	floods  chan Flood // why connections were closed
}

const big = 32 << 20 // bytes of a large body

func serve(t *testing.T) *site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{address: l.Addr().String(), floods: make(chan Flood, 100)}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(answer)}
	bounded := listen(l, Options{Flooded: func(_ net.Conn, why Flood) { s.floods <- why }})
	served := make(chan error, 1)
	go func() { served <- server.Serve(bounded) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// answer reads all of a request, and answers as its path asks.
func answer(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	switch {
	case err != nil:
		panic(http.ErrAbortHandler)
	case r.URL.Path == "/wait":
		<-r.Context().Done()
	case r.URL.Path == "/big":
		piece := make([]byte, 32<<10)
		for range big / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	case r.Method == http.MethodPost && n != big:
		w.WriteHeader(400)
	default:
		_, _ = io.WriteString(w, "ok")
	}
}

// ask is the frame of a request for a path.
func ask(flags byte, stream uint32, method byte, path string) []byte {
	const get, post, http, literalPath = 0x82, 0x83, 0x86, 0x04 // HPACK, RFC 7541, appendix A
	block := []byte{get, http, literalPath, byte(len(path))}
	if method == 'P' {
		block[0] = post
	}
	return encode(headers, endHeaders|flags, stream, append(block, path...)...)
}

// attack sends a flood until it is cut, but no more than so many times, and returns
// why it was closed.
func attack(t *testing.T, begin []byte, times int, again func(n int) []byte) Flood {
	t.Helper()
	s := serve(t)
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // for a test that fails
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		closed <- err
	}()
	out := bufio.NewWriter(c)
	_, _ = out.WriteString(preface)
	_, _ = out.Write(join(encode(settings, 0, 0), begin))
	for n := 0; n < times && err == nil; n++ {
		_, err = out.Write(again(n))
	}
	_ = out.Flush() // an error is what is expected
	if err := <-closed; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("not closed after %d times", times)
	}
	select {
	case why := <-s.floods:
		return why
	default:
		return ""
	}
}

// TestFloodsOfAServerAreCut: with net/http behind it, after a bounded number of frames.
func TestFloodsOfAServerAreCut(t *testing.T) {
	get := func(n int) []byte { return ask(endStream, id(n), 'G', "/wait") }
	cookies := append([]byte{0x00, 1, 'x', 0x7f, 0xe1, 0x5c}, make([]byte, 12000)...) // x and the length of its value
	for i := range 12000 {
		cookies[6+i] = 'a'
	}
	for name, c := range map[string]struct {
		why   Flood
		begin []byte
		times int
		again func(n int) []byte
	}{
		"SETTINGS": {Sessions, nil, 10 * mostSessions, func(int) []byte { return encode(settings, 0, 0, 0, 3, 0, 0, 0, 100) }},
		"PING":     {Control, nil, 5 * mostControl, func(int) []byte { return encode(ping, 0, 0, make([]byte, 8)...) }},
		"PRIORITY": {Control, nil, 5 * mostControl, func(n int) []byte { return encode(2, 0, id(n), 0, 0, 0, 0, 16) }},
		"PRIORITY_UPDATE": {Control, nil, 5 * mostControl, func(n int) []byte {
			return encode(0x10, 0, 0, append(number(id(n)), "u=1"...)...)
		}},
		"empty CONTINUATION": {HeaderTooLong, encode(headers, endStream, 1, 0x82), 100, func(int) []byte { return encode(continuation, 0, 1) }},
		"empty DATA":         {Control, ask(0, 1, 'P', "/"), 5 * mostControl, func(int) []byte { return encode(data, 0, 1) }},
		"rapid reset": {Resets, nil, 5 * mostResets, func(n int) []byte {
			return join(get(n), encode(resetStream, 0, id(n), number(8)...))
		}},
		"WINDOW_UPDATE of 0": {Resets, nil, 5 * mostResets, func(n int) []byte {
			return join(get(n), encode(windowUpdate, 0, id(n), number(0)...))
		}},
		"too large a window": {Resets, nil, 5 * mostResets, func(n int) []byte {
			return join(get(n), encode(windowUpdate, 0, id(n), number(math.MaxInt32)...))
		}},
		"a header again":       {Resets, nil, 5 * mostResets, func(n int) []byte { return join(get(n), get(n)) }},
		"DATA after the end":   {Resets, nil, 5 * mostResets, func(n int) []byte { return join(get(n), encode(data, 0, id(n), 0)) }},
		"depending on oneself": {Resets, nil, 5 * mostResets, func(n int) []byte { return join(get(n), encode(2, 0, id(n), append(number(id(n)), 1)...)) }},
		"no pseudo-headers":    {Resets, nil, 5 * mostResets, func(n int) []byte { return encode(headers, endHeaders|endStream, id(n)) }},
		"WINDOW_UPDATE":        {Windows, ask(endStream, 1, 'G', "/wait"), 5 * mostWindows, func(int) []byte { return encode(windowUpdate, 0, 1, number(1)...) }},
		"long headers": {LongHeaders, nil, 5 * mostHeaderBytes / len(cookies), func(n int) []byte {
			return encode(headers, endHeaders|endStream, id(n), append([]byte{0x82, 0x84, 0x86}, cookies...)...)
		}},
		"Data Dribble": {Windows, join(encode(settings, 0, 0, 0, 4, 0, 0, 0, 0), ask(endStream, 1, 'G', "/big")), 5 * mostWindows, func(int) []byte {
			return encode(windowUpdate, 0, 1, number(1)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if why := attack(t, c.begin, c.times, c.again); why != c.why {
				t.Errorf("closed for %q, not for %q", why, c.why)
			}
		})
	}
}

// TestHTTP1IsServed: by the same listener.
func TestHTTP1IsServed(t *testing.T) {
	s := serve(t)
	client := &http.Transport{}
	defer client.CloseIdleConnections()
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.address+"/"+strings.Repeat("a", 5000), nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(a.Body); err != nil || string(text) != "ok" {
			t.Errorf("%q, %v", text, err)
		}
		a.Body.Close()
	}
}
