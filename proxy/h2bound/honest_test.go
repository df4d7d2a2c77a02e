package h2bound

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// honest is a client of a kind that is about: what it sends where it has read DATA.
type honest struct {
	connection, stream int  // bytes that it has read before it tells so
	pings              bool // it measures the bandwidth
	priorities         int  // frames with each request
}

// TestHonestClientsAreNeverCut: whatever they ask for, however fast it is answered, and
// in however small pieces the pieces of some size come.
func TestHonestClientsAreNeverCut(t *testing.T) {
	kinds := map[string]honest{
		"a browser":       {connection: 7 << 20, stream: 3 << 20, priorities: 2},
		"curl":            {connection: 16 << 10, stream: 16 << 10},
		"nghttp2":         {connection: 32 << 10, stream: 32 << 10, priorities: 1},
		"Go":              {connection: 4 << 10, stream: 4 << 10},
		"gRPC":            {connection: 1, stream: 16 << 10, pings: true},
		"HAProxy, simple": {connection: 4 << 10, stream: 4 << 10},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				l := newLink()
				for n := range rapid.IntRange(1, 100).Draw(t, "requests") {
					l.now += time.Duration(rapid.IntRange(0, 1000).Draw(t, "µs")) * time.Microsecond
					kind.ask(l, n, rapid.SampledFrom([]int{0, 3000, 70000, 1 << 20}).Draw(t, "upload"))
					size := rapid.SampledFrom([]int{0, 30, 4 << 10, 100 << 10, 3 << 20}).Draw(t, "answer")
					piece := rapid.SampledFrom([]int{4 << 10, 16 << 10}).Draw(t, "piece")
					if kind.pings {
						piece = rapid.SampledFrom([]int{20, 500, 16 << 10}).Draw(t, "message")
						size = min(size, 1000*piece)
					}
					kind.read(l, n, size, piece)
				}
				if l.why != "" {
					t.Fatalf("closed for %q", l.why)
				}
			})
		})
	}
}

// ask sends a request, and a body of some size.
func (k honest) ask(l *link, n, body int) {
	flags := byte(endHeaders)
	if body == 0 {
		flags |= endStream
	}
	l.client(headers, flags, id(n), 30, 0)
	for range k.priorities {
		l.client(2, 0, id(n), 5, 0)
	}
	for ; body > 0; body -= 16 << 10 {
		flags = 0
		if body <= 16<<10 {
			flags = endStream
		}
		l.client(data, flags, id(n), min(body, 16<<10), 0)
		l.server(windowUpdate, 0, id(n), 4, 16<<10)
	}
}

// read takes an answer.
func (k honest) read(l *link, n, size, piece int) {
	l.server(headers, endHeaders, id(n), 30, 0)
	connection, stream := 0, 0
	for ; size > 0; size -= piece {
		got := min(size, piece)
		l.server(data, 0, id(n), got, 0)
		if connection += got; connection >= k.connection {
			l.client(windowUpdate, 0, 0, 4, uint32(connection))
			connection = 0
		}
		if stream += got; stream >= k.stream {
			l.client(windowUpdate, 0, id(n), 4, uint32(stream))
			stream = 0
		}
		if k.pings {
			l.client(ping, 0, 0, 8, 0)
			l.server(ping, ack, 0, 8, 0)
		}
	}
	l.server(headers, endHeaders|endStream, id(n), 10, 0)
	if n%3 == 0 {
		l.client(resetStream, 0, id(n), 4, 0) // of gRPC, when the answer is complete
	}
}

// TestAtOnceWhatPeopleDo: a page's worth of everything, without a pause.
func TestAtOnceWhatPeopleDo(t *testing.T) {
	l := newLink()
	for n := range 250 {
		l.gets(request(n), encode(0x10, 0, 0, make([]byte, 9)...))
	}
	for n := range 250 { // they leave
		l.gets(encode(resetStream, 0, id(n), number(8)...))
	}
	for n := range 400 { // two pages, cookies of 8 KB
		l.client(headers, endStream|endHeaders, id(500+n), 8<<10, 0)
		l.server(headers, endStream|endHeaders, id(500+n), 20, 0)
	}
	if l.why != "" {
		t.Error(l.why)
	}
}

// TestLongestHeaders: cookies as long as the server takes them.
func TestLongestHeaders(t *testing.T) {
	l := newLink()
	for n := range 45 {
		l.gets(encode(headers, endStream, id(n), make([]byte, 16<<10)...))
		for range 3 {
			l.gets(encode(continuation, 0, id(n), make([]byte, 16<<10)...))
		}
		l.gets(encode(continuation, endHeaders, id(n)))
		l.sends(encode(headers, endHeaders|endStream, id(n)))
	}
	if l.why != "" {
		t.Error(l.why)
	}
}

// TestStalledClient: one that reads nothing for long, and then all at once, in its way.
func TestStalledClient(t *testing.T) {
	l := newLink()
	l.gets(encode(windowUpdate, 0, 0, number(1<<30)...))
	for n := range 30 {
		l.gets(request(n))
		for range 256 {
			l.server(data, 0, id(n), 16<<10, 0)
		}
	}
	for n := range 30 { // 4 MB each, 120 MB in all
		for range 256 {
			l.client(windowUpdate, 0, 0, 4, 16<<10)
			l.client(windowUpdate, 0, id(n), 4, 16<<10)
		}
	}
	if l.why != "" {
		t.Error(l.why)
	}
}
