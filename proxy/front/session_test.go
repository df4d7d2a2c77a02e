package front

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"tempomat/internal/testkit"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/http1"
)

// peer is an HTTP/2 client that sends single frames and records the answers.
type peer struct {
	*http2.Framer
	t       *testing.T
	conn    net.Conn
	block   bytes.Buffer
	encoder *hpack.Encoder
	heads   map[uint32]map[string]string
}

// newPeer returns a peer that has sent its preface and settings.
func newPeer(t *testing.T, c net.Conn, settings ...http2.Setting) *peer {
	t.Helper()
	p := &peer{Framer: http2.NewFramer(c, c), t: t, conn: c, heads: map[uint32]map[string]string{}}
	p.encoder = hpack.NewEncoder(&p.block)
	p.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	p.AllowIllegalWrites = true
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	_, err := io.WriteString(c, preface)
	p.check(err)
	p.check(p.WriteSettings(settings...))
	return p
}

func (p *peer) check(err error) {
	p.t.Helper()
	testkit.Must(p.t, err)
}

// ask sends the head of a request. The fields are names and values, alternating.
func (p *peer) ask(id uint32, ends bool, fields ...string) {
	p.t.Helper()
	p.check(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: ends}))
}

func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.check(p.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return p.block.Bytes()
}

func to(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "http", ":authority", "site.example", ":path", path}, more...)
}

func (p *peer) get(id uint32, path string, more ...string) {
	p.t.Helper()
	p.ask(id, true, to("GET", path, more...)...)
}

// until reads frames and records the heads until is returns true for a frame, and returns this frame.
func (p *peer) until(is func(http2.Frame) bool) http2.Frame {
	p.t.Helper()
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.t.Fatalf("%v", err)
		}
		if m, ok := f.(*http2.MetaHeadersFrame); ok {
			h := map[string]string{}
			for _, x := range m.Fields {
				h[x.Name] = x.Value
			}
			p.heads[m.StreamID] = h
		}
		if is(f) {
			return f
		}
	}
}

// head waits for the head of an answer.
func (p *peer) head(id uint32) map[string]string {
	p.t.Helper()
	p.until(func(f http2.Frame) bool {
		_, ok := f.(*http2.MetaHeadersFrame)
		return ok && f.Header().StreamID == id
	})
	return p.heads[id]
}

// end reads until a stream ends, and opens windows in the meantime. It returns the body, followed by the error
// code if the stream was reset.
func (p *peer) end(id uint32) string {
	p.t.Helper()
	var body strings.Builder
	f := p.until(func(f http2.Frame) bool {
		if d, ok := f.(*http2.DataFrame); ok {
			if d.StreamID == id {
				body.Write(d.Data())
			}
			if n := d.Length; n > 0 {
				p.check(p.WriteWindowUpdate(0, n))
				if !d.StreamEnded() {
					p.check(p.WriteWindowUpdate(d.StreamID, n))
				}
			}
		}
		if f.Header().StreamID != id {
			_, over := f.(*http2.GoAwayFrame)
			return over
		}
		_, reset := f.(*http2.RSTStreamFrame)
		switch f.(type) {
		case *http2.DataFrame, *http2.MetaHeadersFrame:
			return f.Header().Flags.Has(http2.FlagDataEndStream)
		}
		return reset
	})
	switch f := f.(type) {
	case *http2.RSTStreamFrame:
		return body.String() + f.ErrCode.String()
	case *http2.GoAwayFrame:
		return "GOAWAY " + f.ErrCode.String()
	}
	return body.String()
}

// greeted waits until the server has acknowledged the settings.
func (p *peer) greeted() {
	p.until(func(f http2.Frame) bool {
		return f.Header().Type == http2.FrameSettings && f.Header().Flags.Has(http2.FlagSettingsAck)
	})
}

// alone serves a connection that doesn't come from a listener.
func (s *Server) alone(near net.Conn) *conn {
	c := s.entering(near, new(Entrance))
	c.waits(time.Now())
	s.conns.Add(&c.RosterEntry, c)
	go c.serve()
	return c
}

// serveAlone serves a single client in memory.
func serveAlone(t *testing.T, f http.HandlerFunc, settings ...http2.Setting) (*peer, *conn) {
	t.Helper()
	s := newServer(f, Options{Log: zap.NewNop(), MaxHead: 4 << 10})
	near, far := net.Pipe()
	c, p := s.alone(near), newPeer(t, far, settings...)
	p.greeted()
	t.Cleanup(func() {
		_ = far.Close()
		_ = s.Close()
	})
	return p, c
}

func id(n int) uint32 { return uint32(2*n + 1) }

// TestStreamRequests checks what the handler sees of a request, and how malformed ones are refused
// (RFC 9113, 8).
func TestStreamRequests(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		var names []string
		for _, n := range *w.(*Stream).Asked() {
			names = append(names, n.Key)
		}
		if want := slices.Sorted(maps.Keys(r.Header)); !slices.Equal(want, slices.Compact(slices.Sorted(slices.Values(names)))) {
			t.Errorf("names %v of %v", names, want)
		}
		_, _ = fmt.Fprint(w, r.Method, " ", r.RequestURI, " ", r.Host, " ", r.URL.Path, " ", r.ContentLength, " ", r.Header)
	}, nil)
	malformed := http2.ErrCodeProtocol.String()
	for name, c := range map[string]struct {
		send []string
		want string
	}{
		"plain":           {to("GET", "/a%41?b", "accept", "x"), "GET /a%41?b site.example /aA 0 map[Accept:[x]]"},
		"cookies":         {to("GET", "/", "cookie", "a=1", "x-y", "1", "cookie", "b=2", "x-y", "2"), "GET / site.example / 0 map[Cookie:[a=1; b=2] X-Y:[1 2]]"},
		"host":            {[]string{":method", "GET", ":scheme", "https", ":path", "/", "host", "b"}, "GET / b / 0 map[Host:[b]]"},
		"all of a server": {[]string{":method", "OPTIONS", ":scheme", "https", ":path", "*", ":authority", "b"}, "OPTIONS * b * 0 map[]"},
		"connect":         {[]string{":method", "CONNECT", ":authority", "b:1"}, "CONNECT b:1 b:1  0 map[]"},
		"te":              {to("GET", "/", "te", "trailers"), "GET / site.example / 0 map[Te:[trailers]]"},
		"expects":         {to("GET", "/", "expect", "100-Continue"), "GET / site.example / 0 map[Expect:[100-Continue]]"},
		"expects more":    {to("GET", "/", "expect", "200-ok"), "Expectation Failed: malformed message: an expectation other than 100-continue\n"},
		"expects twice":   {to("GET", "/", "expect", "100-continue", "expect", "x"), "Expectation Failed: malformed message: an expectation other than 100-continue\n"},
		"spaces around":   {to("GET", "/", "user-agent", "App/1.0 ", "a", " \tb\t"), "GET / site.example / 0 map[A:[b] User-Agent:[App/1.0]]"},
		"many fields":     {to("GET", "/", slices.Repeat([]string{"x", "y"}, 100)...), "GET / site.example / 0 map[X:[" + strings.TrimSpace(strings.Repeat("y ", 100)) + "]]"},

		"no method":                  {[]string{":scheme", "http", ":path", "/", ":authority", "b"}, malformed},
		"no path":                    {[]string{":method", "GET", ":scheme", "http", ":authority", "b"}, malformed},
		"an empty path":              {to("GET", ""), malformed},
		"no scheme":                  {[]string{":method", "GET", ":path", "/", ":authority", "b"}, malformed},
		"another scheme":             {[]string{":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "b"}, malformed},
		"a path without a slash":     {to("GET", "a"), "Bad Request: malformed message: a target that isn't a URL\n"},
		"a path with a bare percent": {to("GET", "/100%-wool"), "Bad Request: malformed message: a target that isn't a URL\n"},
		"connect to a path":          {to("CONNECT", "/"), malformed},
		"connect to nothing":         {[]string{":method", "CONNECT"}, malformed},
		"extended connect":           {[]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", "b"}, malformed},
		"a pseudo-field twice":       {to("GET", "/", ":path", "/b"), malformed},
		"a pseudo-field of answers":  {to("GET", "/", ":status", "200"), malformed},
		"a pseudo-field at the end":  {append([]string{"a", "b"}, to("GET", "/")...), malformed},
		"a pseudo-field of no kind":  {to("GET", "/", ":x", "y"), malformed},
		"large letters":              {to("GET", "/", "Accept", "x"), malformed},
		"a name with a space":        {to("GET", "/", "a b", "x"), malformed},
		"a name with a colon":        {to("GET", "/", "a:b", "x"), malformed},
		"a name that is two lines":   {to("GET", "/", "a\r\nb", "x"), malformed},
		"no name":                    {to("GET", "/", "", "x"), malformed},
		"a value that is two lines":  {to("GET", "/", "a", "b\r\nTransfer-Encoding: chunked"), malformed},
		"a value with a line feed":   {to("GET", "/", "a", "b\nc"), malformed},
		"a value with a zero":        {to("GET", "/", "a", "b\x00"), malformed},
		"a path that is two lines":   {to("GET", "/ HTTP/1.1\r\nhost: a"), malformed},
		"a method that is two lines": {to("GET / HTTP/1.1\r\na: b", "/"), malformed},
		"connection":                 {to("GET", "/", "connection", "close"), malformed},
		"proxy-connection":           {to("GET", "/", "proxy-connection", "close"), malformed},
		"keep-alive":                 {to("GET", "/", "keep-alive", "timeout=5"), malformed},
		"transfer-encoding":          {to("GET", "/", "transfer-encoding", "chunked"), malformed},
		"upgrade":                    {to("GET", "/", "upgrade", "h2c"), malformed},
		"another te":                 {to("GET", "/", "te", "trailers, gzip"), malformed},
		"a length without a body":    {to("GET", "/", "content-length", "1"), malformed},
		"two lengths":                {to("GET", "/", "content-length", "0", "content-length", "0"), malformed},
		"a length with a sign":       {to("GET", "/", "content-length", "+0"), malformed},
		"a length below zero":        {to("GET", "/", "content-length", "-1"), malformed},
		"no length at all":           {to("GET", "/", "content-length", ""), malformed},
		"a list of lengths":          {to("GET", "/", "content-length", "0, 0"), malformed},
	} {
		p := newPeer(t, dial())
		p.ask(1, true, c.send...)
		testkit.Same(t, c.want, p.end(1), "%s", name)
		p.get(3, "/") // the connection still works
		testkit.Same(t, "GET / site.example / 0 map[]", p.end(3), "%s: then", name)
	}
}

// TestAnsweredRequestsAreNotInProgress: a client may send its next request as soon as it has a whole answer, although
// the handler hasn't returned yet.
func TestAnsweredRequestsAreNotInProgress(t *testing.T) {
	returns := make(chan bool)
	defer close(returns)
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-returns
	}, nil)
	p := newPeer(t, dial())
	for n := range mostStreams + 5 {
		id := uint32(2*n + 1)
		p.get(id, "/")
		testkit.Same(t, "x", p.end(id), "request %d", n)
	}
}

// TestHeadTooLong: a head that is too long is answered, however it is encoded, and the connection
// still works.
func TestHeadTooLong(t *testing.T) {
	dial, _ := start(t, script, nil)
	p := newPeer(t, dial())
	many := slices.Repeat([]string{"cookie", strings.Repeat("c", 3000)}, 30) // after the first, each takes a few bytes
	for i, more := range [][]string{many, {"x", strings.Repeat("x", 70<<10)}} {
		block := p.encode(to("GET", "/", more...)...)
		p.check(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id(2 * i), BlockFragment: block[:10], EndStream: true}))
		for block = block[10:]; len(block) > longestFrame; block = block[longestFrame:] {
			p.check(p.WriteContinuation(id(2*i), false, block[:longestFrame]))
		}
		p.check(p.WriteContinuation(id(2*i), true, block))
		if got := p.end(id(2 * i)); !strings.Contains(got, "cookies") || p.heads[id(2*i)][":status"] != "431" {
			t.Errorf("got %q, %v", got, p.heads)
		}
		p.get(id(2*i+1), "/nothing")
		if p.end(id(2*i + 1)); p.heads[id(2*i+1)][":status"] != "200" {
			t.Errorf("then %v", p.heads)
		}
	}
}

// TestUploads sends bodies in pieces, with trailers and without, valid and malformed.
func TestUploads(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, len(b), " ", r.ContentLength, " ", headerOf(w.(*Stream).Trailer()))
	}, nil)
	for name, c := range map[string]struct {
		length string
		pieces []string
		ends   bool
		late   []string
		want   string
	}{
		"in pieces":            {"5", []string{"12", "", "345"}, true, nil, "5 5 map[]"},
		"of no told length":    {"", []string{"12", "345"}, true, nil, "5 -1 map[]"},
		"of nothing":           {"", []string{""}, true, nil, "0 -1 map[]"},
		"without an end":       {"5", []string{"12", "345"}, false, nil, "5 5 map[]"},
		"empty, without one":   {"0", nil, false, nil, "0 0 map[]"},
		"trailers":             {"", []string{"12"}, false, []string{"sum", "1", "sum", "2"}, "2 -1 map[Sum:[1 2]]"},
		"too long":             {"3", []string{"12", "34"}, true, nil, "PROTOCOL_ERROR"},
		"too short":            {"3", []string{"12"}, true, nil, "PROTOCOL_ERROR"},
		"too short, trailers":  {"3", []string{"12"}, false, []string{"sum", "1"}, "PROTOCOL_ERROR"},
		"a trailer of no kind": {"", []string{"12"}, false, []string{":path", "/"}, "PROTOCOL_ERROR"},
		"a trailer, two lines": {"", []string{"12"}, false, []string{"a", "b\r\nc"}, "PROTOCOL_ERROR"},
	} {
		p := newPeer(t, dial())
		head := to("POST", "/")
		if c.length != "" {
			head = append(head, "content-length", c.length)
		}
		p.ask(1, false, head...)
		for i, piece := range c.pieces {
			p.check(p.WriteDataPadded(1, c.ends && i == len(c.pieces)-1, []byte(piece), make([]byte, i)))
		}
		if c.late != nil {
			p.ask(1, true, c.late...)
		}
		testkit.Same(t, c.want, p.end(1), "%s", name)
	}
}

// TestUnread: the unread part of a body is read in order. A fast upload needs no new memory for each frame.
func TestUnread(t *testing.T) {
	empty := func() incoming {
		return incoming{s: &Stream{session: &session{conn: &conn{server: newServer(nil, Options{})}}}}
	}
	sizes := rapid.SampledFrom([]int{0, 1, 700, 3000, longestFrame})
	rapid.Check(t, func(t *rapid.T) {
		b, want, came := empty(), bytes.Buffer{}, 0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			piece, read := make([]byte, sizes.Draw(t, "arrives")), make([]byte, sizes.Draw(t, "read"))
			for i := range piece {
				piece[i] = byte(came % 251)
				came++
			}
			b.store(piece)
			want.Write(piece)
			n := b.load(read)
			if next := want.Next(len(read)); !bytes.Equal(next, read[:n]) || b.size != want.Len() {
				t.Fatalf("read %d bytes, want %d; %d are left, want %d", n, len(next), b.size, want.Len())
			}
		}
	})
	for _, size := range []int{1, 700, longestFrame} {
		b, frame := empty(), make([]byte, size)
		if n := testing.AllocsPerRun(100, func() { b.store(frame); b.load(frame) }); n > 0 {
			t.Errorf("each frame of %d bytes takes new memory %v times", size, n)
		}
	}
	for _, sizes := range [][]int{{1024, 1}, {1, 1, 1}, {3000, 3000}, {longestFrame, longestFrame, 1}} {
		b, held := empty(), 0
		for _, size := range sizes {
			b.store(make([]byte, size))
		}
		for _, piece := range b.unread {
			held += cap(piece)
		}
		if held > max(2*b.size, b.size+leastPiece) {
			t.Errorf("frames of %v bytes hold %d", sizes, held)
		}
	}
}

// TestNoStreamAfterTheEnd: a request that arrives after its session has failed to send isn't served. Otherwise
// its stream would stay in the session's list, and another client's request would use it.
func TestNoStreamAfterTheEnd(t *testing.T) {
	var served atomic.Int32
	p, x := serveAlone(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
	x.mu.Lock()
	h := x.session
	x.mu.Unlock()
	var request bytes.Buffer
	p.check(http2.NewFramer(&request, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(to("GET", "/")...), EndHeaders: true, EndStream: true}))
	all := request.Bytes()
	_, err := p.conn.Write(all[:len(all)-1])
	p.check(err)
	h.mu.Lock()
	_, err = p.conn.Write(all[len(all)-1:]) // the frame is read to its end, but not yet handled
	p.check(err)
	h.fail(errFailed)
	h.mu.Unlock()
	testkit.Eventually(t, "the connection has ended", func() bool {
		ended := true
		x.server.conns.Each(func(*conn) { ended = false })
		return ended
	})
	if n := served.Load(); n != 0 || len(h.streams) != 0 {
		t.Errorf("%d requests were served, %d streams are left", n, len(h.streams))
	}
}

// TestWindows: a client may send only as much as is read, but its window grows while the body is read. Sending more
// is an error. A body that isn't read leaves room for others. The server sends only as much as the client accepts.
func TestWindows(t *testing.T) {
	goOn := make(chan struct{})
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, strings.Repeat("x", 100<<10))
			return
		}
		<-goOn
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}, nil)
	p := newPeer(t, dial())
	const all = 4 << 20
	p.ask(1, false, to("POST", "/")...)
	of, widest, sent := map[uint32]int{0: widestWindow, 1: firstWindow}, 0, 0
	give := func() {
		for sent < all && of[1] > 0 && of[0] > 0 {
			n := min(all-sent, of[1], of[0], longestFrame)
			sent += n
			of[0], of[1] = of[0]-n, of[1]-n
			p.check(p.WriteData(1, sent == all, make([]byte, n)))
		}
	}
	give()
	testkit.Same(t, firstWindow, sent, "bytes sent at first")
	close(goOn)
	hello := true
	for sent < all {
		f := p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameWindowUpdate }).(*http2.WindowUpdateFrame)
		if f.StreamID == 0 && hello {
			hello = false // the first WINDOW_UPDATE belongs to the settings
			continue
		}
		of[f.StreamID] += int(f.Increment)
		widest = max(widest, of[1])
		give()
	}
	if got := p.end(1); got != fmt.Sprint(all) || widest < widestStream/2 || widest > widestStream {
		t.Errorf("%s bytes came, with a window of up to %d", got, widest)
	}
	slow := newPeer(t, dial(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	slow.get(1, "/")
	got := 0
	for _, opens := range []int{10, 7, 20000} {
		if opens != 10 {
			slow.check(slow.WriteWindowUpdate(1, uint32(opens)))
		}
		for left := opens; left > 0; {
			left -= len(slow.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }).(*http2.DataFrame).Data())
			if left < 0 {
				t.Errorf("%d bytes too many", -left)
			}
		}
		got += opens
	}
	slow.check(slow.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	testkit.Same(t, 100<<10-got, len(slow.end(1)), "bytes of the rest")
	flood := newPeer(t, dial())
	flood.ask(1, false, to("GET", "/")...)
	for range 5 {
		flood.check(flood.WriteData(1, false, make([]byte, longestFrame)))
	}
	if got := flood.end(1); !strings.HasSuffix(got, "FLOW_CONTROL_ERROR") {
		t.Errorf("more than the window: %.20q", got)
	}
	rest := window{open: widestWindow - widestStream, size: widestWindow, shared: true} // the widest stream is not read
	for range widestWindow / longestFrame {
		if rest.open -= longestFrame; rest.open < firstWindow {
			t.Fatal("no other upload has room")
		}
		rest.read(longestFrame)
	}
	rest.open = widestWindow/4 - longestFrame // two more streams are not read
	for range widestWindow / longestFrame {
		if rest.open -= longestFrame; rest.open < 0 {
			t.Fatal("other uploads stand still")
		}
		rest.read(longestFrame)
	}
}

// TestStreamAnswers checks the answers that a client gets from handlers.
func TestStreamAnswers(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/length":
			h.Set("Content-Length", "5")
			h.Set("Connection", "close")
			h.Set("X-Name", "y")
			_, _ = io.WriteString(w, "hello")
		case "/empty":
		case "/none":
			h.Set("Content-Length", "5")
			w.WriteHeader(http.StatusNoContent)
		case "/short":
			h.Set("Content-Length", "5")
			_, _ = io.WriteString(w, "he")
		case "/abort":
			_, _ = io.WriteString(w, "he")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/nothing":
			panic(http.ErrAbortHandler)
		case "/fails":
			h.Set("X-Secret", "x")
			panic("a fault")
		case "/hints":
			w.(*Stream).Fields().Add("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.(*Stream).Fields().Del("Link")
			_, _ = io.WriteString(w, "hello")
		case "/trailers":
			h.Set("Trailer", "Announced")
			_, _ = io.WriteString(w, "hello")
			w.(*Stream).SetTrailer(http1.Fields{{Key: "Announced", Value: "1"}, {Key: "Late", Value: "2"}})
		case "/asks":
			w.(*Stream).Fields().Add("X-Name", "y") // belongs to the final answer
			b, _ := io.ReadAll(r.Body)
			_, _ = w.Write(b)
		case "/unread":
			_, _ = io.WriteString(w, "hello")
		}
	}, nil)
	for path, c := range map[string]struct{ body, head string }{
		"GET /length":   {"hello", "200 content-length:5 x-name:y"},
		"HEAD /length":  {"", "200 content-length:5 x-name:y"},
		"GET /empty":    {"", "200"},
		"GET /none":     {"", "204"},
		"GET /short":    {"heINTERNAL_ERROR", "200 content-length:5"},
		"GET /abort":    {"heINTERNAL_ERROR", "200"},
		"GET /nothing":  {"INTERNAL_ERROR", ""},
		"GET /fails":    {"", "500"},
		"GET /hints":    {"hello", "200"},
		"GET /trailers": {"hello", "announced:1 late:2"},
		"POST /asks":    {"body", "200 x-name:y"},
		"POST /unread":  {"hello", "200"},
	} {
		method, target, _ := strings.Cut(path, " ")
		p := newPeer(t, dial())
		p.ask(1, method != "POST", to(method, target, "expect", "100-continue")...)
		switch target {
		case "/asks":
			testkit.Same(t, map[string]string{":status": "100"}, p.head(1), "%s: first", path)
			p.check(p.WriteData(1, true, []byte("body")))
		case "/hints":
			if got := p.head(1); got[":status"] != "103" || got["link"] != "</a.css>" {
				t.Errorf("%s: first %v", path, got)
			}
		}
		body := p.end(1)
		h := p.heads[1]
		delete(h, "date")
		head := h[":status"]
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if name != ":status" {
				head += " " + name + ":" + h[name]
			}
		}
		if got := strings.TrimSpace(head); body != c.body || got != c.head {
			t.Errorf("%s: %q, %q", path, body, got)
		}
		if target == "/unread" {
			f := p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameRSTStream })
			testkit.Same(t, http2.ErrCodeNo, f.(*http2.RSTStreamFrame).ErrCode, "it is to send the rest")
			p.check(p.WriteData(1, false, []byte("on its way")))
			p.ask(1, true, "sum", "1")
		}
		p.get(3, "/length")
		testkit.Same(t, "hello", p.end(3), "%s: then", path)
	}
}

// TestPriorities: more urgent answers come first. Equally urgent answers come one after the other, or together
// if the client can use parts of them or doesn't say (RFC 9218).
func TestPriorities(t *testing.T) {
	const size = 10 * longestFrame
	for name, c := range map[string]struct {
		says  [3]string
		later string // priority of the third request, sent later
		want  string // the order in which the streams end
		mixed bool   // whether the first two answers come together
	}{
		"urgent":      {[3]string{"u=5", "u=3", "u=1"}, "", "531", false},
		"in turn":     {[3]string{"u=3", "u=3", "u=3"}, "", "135", false},
		"together":    {[3]string{"u=3, i", "u=3, i=?1", "u=7"}, "", "", true},
		"nothing":     {[3]string{}, "", "", true},
		"told later":  {[3]string{"u=3", "u=3", "u=7"}, "u=0", "513", false},
		"what is not": {[3]string{"u=9, x=\"", "u=-1", "u=2"}, "", "513", false},
	} {
		t.Run(name, func(t *testing.T) {
			var waiting sync.WaitGroup
			waiting.Add(3)
			dial, s := start(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(size))
				_ = http.NewResponseController(w).Flush()
				waiting.Done()
				_, _ = w.Write(make([]byte, size))
			}, nil)
			p := newPeer(t, dial(), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
			p.check(p.WriteWindowUpdate(0, 1<<20-firstWindow))
			var h *session
			testkit.Eventually(t, "it is HTTP/2", func() bool {
				s.conns.Each(func(c *conn) { c.mu.Lock(); h = c.session; c.mu.Unlock() })
				return h != nil
			})
			h.mu.Lock()
			h.window -= 1 << 28 // keeps answers from being sent
			h.mu.Unlock()
			for i, says := range c.says {
				var more []string
				if says != "" {
					more = []string{"priority", says}
				}
				p.get(id(i), "/", more...)
			}
			if c.later != "" {
				p.check(p.WritePriorityUpdate(5, c.later))
				p.check(p.WritePing(false, [8]byte{})) // the answer to the PING shows that the session has read this
				p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing })
			}
			waiting.Wait()
			testkit.Eventually(t, "all wait", func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return len(h.waiting) == 3
			})
			h.mu.Lock()
			h.window += 1 << 28
			h.wakeNext()
			h.mu.Unlock()
			order, last, changes := "", uint32(0), 0
			for len(order) < 3 {
				d := p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameData }).(*http2.DataFrame)
				if d.StreamID != last {
					last, changes = d.StreamID, changes+1
				}
				if d.StreamEnded() {
					order += fmt.Sprint(d.StreamID)
				}
			}
			if c.want != "" && order != c.want || (changes > 6) != c.mixed {
				t.Errorf("ended %s, %d changes", order, changes)
			}
		})
	}
}

// TestSessionDrains: a server that ends loses no request. It warns the client, serves the requests that the
// client sends before it has read the warning, and reports that later ones were not served, whatever they send.
func TestSessionDrains(t *testing.T) {
	goOn := make(chan struct{})
	dial, s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/on-its-way" {
			<-goOn
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}, nil)
	p := newPeer(t, dial())
	p.get(1, "/first")
	p.end(1)
	drained := make(chan error, 1)
	go func() { drained <- s.Shutdown(t.Context()) }()
	bye := p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway }).(*http2.GoAwayFrame)
	if bye.LastStreamID != 1<<31-1 || bye.ErrCode != http2.ErrCodeNo {
		t.Errorf("first %v", bye)
	}
	ping := p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FramePing }).(*http2.PingFrame)
	p.get(3, "/on-its-way")
	p.check(p.WritePing(true, ping.Data))
	p.ask(5, false, to("POST", "/too-late")...)
	p.check(p.WriteData(5, false, make([]byte, 1)))
	p.check(p.WriteData(5, false, nil))
	p.check(p.WriteWindowUpdate(5, 1))
	p.check(p.WriteRSTStream(5, http2.ErrCodeCancel))
	p.check(p.WritePing(false, ping.Data))
	bye = p.until(func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway }).(*http2.GoAwayFrame)
	if bye.LastStreamID != 3 || bye.ErrCode != http2.ErrCodeNo {
		t.Errorf("then %v", bye)
	}
	p.until(func(f http2.Frame) bool {
		return f.Header().Type == http2.FramePing && f.Header().Flags.Has(http2.FlagPingAck)
	})
	var h *session
	s.conns.Each(func(c *conn) {
		c.mu.Lock()
		defer c.mu.Unlock()
		h = c.session
	})
	sends := func(on bool) (left bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.writing = on // as if another goroutine were sending
		h.room.Broadcast()
		return h.serving > 0
	}
	sends(true)
	close(goOn)
	testkit.Eventually(t, "it is answered", func() bool { return !sends(true) })
	testkit.Eventually(t, "the session waits until everything is sent", func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "front.(*session).end(")
	})
	sends(false)
	testkit.Same(t, "/on-its-way", p.end(3), "what was on its way")
	if f, err := p.ReadFrame(); err != io.EOF { //nolint:errorlint // ReadFrame returns exactly this value
		t.Errorf("then %v, %v", f, err)
	}
	_ = p.conn.Close()
	testkit.Must(t, <-drained)
}

// TestDrainWaitsForNobodyForLong: the server finishes the requests of a client that doesn't answer the warning,
// but doesn't wait for the client.
func TestDrainWaitsForNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		s := newServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn }), Options{Log: zap.NewNop(), MaxHead: 4 << 10})
		var peers []*peer
		for range 2 {
			near, far := net.Pipe()
			s.alone(near)
			go func() { _, _ = io.Copy(io.Discard, far) }()
			peers = append(peers, newPeer(t, far))
		}
		go s.sweep()
		peers[1].get(1, "/")
		synctest.Wait()
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { close(goOn) })
		testkit.Must(t, s.Shutdown(t.Context()))
		if took := time.Since(began); took < 10*time.Second || took > 17*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestResetWhileOthersSend: a client resets a stream while the beginning of the answer is being
// sent. The reader of the body gets an error.
func TestResetWhileOthersSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan error, 1)
		p, _ := serveAlone(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "x")
			_, err := io.Copy(io.Discard, r.Body)
			over <- err
		})
		p.ask(1, false, to("POST", "/")...)
		synctest.Wait() // the beginning of the answer is being sent
		p.check(p.WriteRSTStream(1, http2.ErrCodeCancel))
		synctest.Wait()
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		synctest.Wait()
		select {
		case err := <-over:
			if err == nil {
				t.Error("the body came to its end")
			}
		default:
			t.Error("the handler waits for a body that does not come")
		}
	})
}

// TestResetOfTheSender: a client resets the stream whose goroutine is sending. It still sends what other streams have
// queued in the meantime.
func TestResetOfTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := make(chan struct{})
		p, _ := serveAlone(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				_, _ = w.Write(make([]byte, 3*sendSize))
				<-works
			}
			_, _ = io.WriteString(w, "x")
		})
		p.get(1, "/long")
		synctest.Wait() // its beginning is being sent
		p.get(3, "/", "priority", "u=1")
		synctest.Wait() // the more urgent answer is in the queue
		p.check(p.WriteRSTStream(1, http2.ErrCodeCancel))
		synctest.Wait()
		p.until(func(f http2.Frame) bool { return f.Header().StreamID == 3 && f.Header().Type == http2.FrameData })
		close(works)
	})
}

// TestDeadlineOfAUsedStream: a deadline passes just as a wait ends. It doesn't touch the stream when that is used again.
func TestDeadlineOfAUsedStream(t *testing.T) {
	h, s := &session{}, newStream()
	s.session, s.writes.L = h, &h.mu
	const limit = 100 * time.Millisecond
	h.mu.Lock()
	go func() {
		h.mu.Lock() // once the stream waits
		defer h.mu.Unlock()
		s.writes.Broadcast()
		time.Sleep(3 * limit)
	}()
	err := s.wait(&s.writes, time.Now().Add(limit))
	h.mu.Unlock()
	s.clear()
	time.Sleep(limit)
	testkit.Must(t, err)
}

// waitTogether returns a session in which streams wait for their turn, and a channel that gets the index of each stream
// that is woken.
func waitTogether(streams ...*Stream) (*session, chan int) {
	h, woken := &session{greeted: true, floods: newFloods(1)}, make(chan int, len(streams))
	h.streams, h.waiting = streams, streams
	for n, s := range streams {
		s.writes.L = &h.mu
		go func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			s.writes.Wait()
			woken <- n
		}()
	}
	synctest.Wait()
	return h, woken
}

// TestMoreUrgentNow: the client makes a stream more urgent just after another one was woken, which must then wait for
// it. The more urgent one is woken as well.
func TestMoreUrgentNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, woken := waitTogether(&Stream{id: 1, urgency: 3, wants: 1, window: 1}, &Stream{id: 3, urgency: 3, wants: 1, window: 1, turn: 1})
		h.window = 1
		h.wakeNext()
		testkit.Same(t, 0, <-woken, "the stream that is woken")
		_ = h.take(0, &http2.PriorityUpdateFrame{PrioritizedStreamID: 3, Priority: "u=0"})
		synctest.Wait()
		testkit.Same(t, 1, len(woken), "streams woken by the change")
		h.waiting[1].writes.Broadcast()
	})
}

// TestEndNeedsNoWindow: the end of an answer is sent while the connection's window is used up, although a more
// urgent answer waits for this window.
func TestEndNeedsNoWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, woken := waitTogether(&Stream{wants: 1, window: 1}, &Stream{urgency: 1})
		h.wakeNext()
		testkit.Same(t, 1, <-woken, "the stream that is woken")
		h.window = 1
		h.wakeNext()
		testkit.Same(t, 0, <-woken, "the stream that is woken with a window")
	})
}

// TestDownloadStopsNoOther: after its first megabyte, an answer no longer goes before less urgent ones.
func TestDownloadStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, woken := waitTogether(&Stream{wants: 1, window: 2}, &Stream{urgency: 5, wants: 1, window: 1})
		h.waiting[0].written, h.window, h.out = mostUrgent, 2, make([]byte, 0, sendSize)
		h.data(h.waiting[0], []byte("x"), false)
		h.wakeNext()
		testkit.Same(t, 1, <-woken, "the stream that is woken")
		h.waiting[0].writes.Broadcast()
	})
}

// TestWaitsForItsTurn: an answer's deadline passes while its client takes more urgent answers over a slow link.
func TestWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := serveAlone(t, func(w http.ResponseWriter, _ *http.Request) {
			_ = w.(*Stream).SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(w, "hello")
		})
		c.session.window = 0
		p.get(1, "/")
		p.head(1)
		c.session.mu.Lock()
		c.session.sent += steadily
		c.session.mu.Unlock()
		time.Sleep(drainTime)
		p.check(p.WriteWindowUpdate(0, 5))
		testkit.Same(t, "hello", p.end(1), "the answer")
	})
}

// noRoom is a Bound without room.
type noRoom struct{}

func (noRoom) Take() int    { return 0 }
func (noRoom) GiveBack(int) {}

// TestHeadsWithoutRoom: a client reads nothing at all, so the heads of its answers wait. Without room the
// answers end, except for the one that is being sent, one in the queue and the one that has waited longest.
func TestHeadsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Int32
		p, _ := serveAlone(t, func(w http.ResponseWriter, _ *http.Request) {
			w.(*Stream).Bound(noRoom{})
			w.Header().Set("X-Long", strings.Repeat("x", sendSize))
			if _, err := io.WriteString(w, "x"); err != nil {
				failed.Add(1)
			}
		})
		for i := range 10 {
			p.get(uint32(2*i+1), "/")
			synctest.Wait()
		}
		testkit.Same(t, 10-3, failed.Load(), "answers ended")
	})
}

// TestRefusalsWaitForNobodyForLong: a client that doesn't read a refusal loses its stream, as does one that doesn't
// read an answer of unknown length, which must not look complete.
func TestRefusalsWaitForNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := serveAlone(t, func(w http.ResponseWriter, _ *http.Request) {
			_ = w.(*Stream).SetWriteDeadline(time.Now().Add(drainSilence))
			_, _ = io.WriteString(w, "hello")
		}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		_ = p.conn.SetDeadline(time.Time{})
		for i, expects := range []string{"200-ok", "100-continue"} {
			began := time.Now()
			p.get(uint32(2*i+1), "/", "expect", expects)
			f := p.until(func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameRSTStream || f.Header().Type == http2.FrameData
			})
			testkit.Same(t, http2.FrameRSTStream, f.Header().Type, "the end")
			testkit.Same(t, drainSilence, time.Since(began), "it took")
		}
	})
}

// TestLateHead: a client doesn't read, and the deadline passes before the head of an answer is in the queue. The
// client then doesn't get the body alone.
func TestLateHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := serveAlone(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("~", sendSize))
			if r.URL.Path == "/late" {
				_ = w.(*Stream).SetWriteDeadline(time.Now().Add(time.Second))
				time.Sleep(2 * time.Second)
				w.WriteHeader(http.StatusOK)
				_ = w.(*Stream).SetWriteDeadline(time.Now().Add(time.Minute))
			}
			_, _ = io.WriteString(w, "hello")
		})
		p.get(1, "/late")
		p.get(3, "/") // this answer is being sent, and the next one fills the queue
		p.get(5, "/")
		time.Sleep(3 * time.Second)
		f := p.until(func(f http2.Frame) bool { return f.Header().StreamID == 1 })
		testkit.Same(t, http2.FrameRSTStream, f.Header().Type, "the late answer begins with")
	})
}

// TestWhoIsCutIsNotWaitedFor: a client that doesn't read the GOAWAY is cut off nevertheless.
func TestWhoIsCutIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(http.HandlerFunc(script), Options{Log: zap.NewNop(), MaxHead: 4 << 10, Idle: time.Hour})
		near, far := net.Pipe()
		s.alone(near)
		p := newPeer(t, far)
		p.greeted()
		p.get(2, "/")
		time.Sleep(2 * warnTime)
		synctest.Wait()
		s.conns.Each(func(*conn) { t.Error("the connection is still there") })
		_ = far.Close()
		_ = s.Close()
	})
}

// half sends the first n bytes of a request's header, and not the rest.
func half(p *peer, id uint32, n int) {
	p.t.Helper()
	p.check(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: bytes.Repeat([]byte{0x82}, n)}))
}

// TestSessionsThatWait: a session without a request ends on time with a GOAWAY, whatever else the
// client sends. A session with an unfinished header is cut off, even during a request. An idle session holds no memory.
func TestSessionsThatWait(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		goes  bool // whether the session ends with a GOAWAY
		do    func(p *peer)
	}{
		"says nothing":       {time.Minute, true, func(*peer) {}},
		"has asked":          {time.Minute + 5*time.Second, true, func(p *peer) { time.Sleep(5 * time.Second); p.get(1, "/") }},
		"pings":              {time.Minute, true, func(p *peer) { time.Sleep(30 * time.Second); p.check(p.WritePing(false, [8]byte{})) }},
		"half a header":      {10 * time.Second, false, func(p *peer) { half(p, 1, 1) }},
		"beside a request":   {10 * time.Second, false, func(p *peer) { p.get(1, "/hour"); half(p, 3, 1) }},
		"at a request's end": {15 * time.Second, false, func(p *peer) { p.get(1, "/5s"); half(p, 3, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
					select {
					case <-q.Context().Done():
					case <-time.After(map[string]time.Duration{"/5s": 5 * time.Second, "/hour": time.Hour}[q.URL.Path]):
					}
				}), Options{Log: zap.NewNop(), MaxHead: 4 << 10, Header: 10 * time.Second, Idle: time.Minute})
				go s.sweep()
				near, far := net.Pipe()
				s.alone(near)
				began := time.Now()
				p := newPeer(t, far)
				_ = far.SetDeadline(time.Time{})
				goes, over := false, make(chan struct{})
				go func() {
					defer close(over)
					for f, err := p.ReadFrame(); err == nil; f, err = p.ReadFrame() {
						goes = goes || f.Header().Type == http2.FrameGoAway
					}
				}()
				c.do(p)
				<-over
				if took := time.Since(began); goes != c.goes || took < c.after || took > c.after+drainSilence+2*sweepEvery(10*time.Second, time.Minute) {
					t.Errorf("GOAWAY %t after %v", goes, took)
				}
				_ = far.Close()
				testkit.Must(t, s.Shutdown(t.Context()))
			})
		})
	}
}

// woken counts how often the server wakes the connection.
type woken struct {
	net.Conn
	times *atomic.Int32
}

func (w woken) SetReadDeadline(t time.Time) error {
	if t.Equal(time.Unix(1, 0)) {
		w.times.Add(1)
	}
	return w.Conn.SetReadDeadline(t)
}

// TestHalfAFrameWakesOnce: a session that waits for the rest of a frame is woken only once, and
// rests again after the frame.
func TestHalfAFrameWakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Options{Log: zap.NewNop(), MaxHead: 4 << 10, Header: time.Minute, Idle: time.Minute})
		go s.sweep()
		near, far := net.Pipe()
		var times atomic.Int32
		x := s.alone(woken{near, &times})
		p := newPeer(t, far)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		for n := range 2 {
			p.get(id(n), "/")
			_, _ = far.Write([]byte{0, 0, 8, byte(http2.FramePing)})
			time.Sleep(10 * time.Second)
			testkit.Same(t, 1, times.Swap(0), "times woken by half a frame")
			_, _ = far.Write(make([]byte, 5+8))
			time.Sleep(10 * time.Second)
			if got := times.Swap(0); got != 1 || !x.rested.Load() {
				t.Errorf("woken %d times after it, rests %t", got, x.rested.Load())
			}
		}
		_ = far.Close()
		testkit.Must(t, s.Shutdown(t.Context()))
	})
}

// TestSessionKeepsNothing: after a request, the session returns the memory, and a goroutine with a small stack
// waits. There is then no HPACK table of answers.
func TestSessionKeepsNothing(t *testing.T) {
	dial, s := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, nil)
	p := newPeer(t, dial())
	for from := range 2 {
		for n := range 20 {
			p.ask(id(20*from+n), false, to("POST", "/")...)
		}
		for n := range 20 {
			p.check(p.WriteData(id(20*from+n), true, make([]byte, 1000)))
			p.end(id(20*from + n))
		}
		testkit.Eventually(t, "nothing is kept", func() bool {
			keeps := false
			s.conns.Each(func(c *conn) {
				c.mu.Lock()
				h := c.session
				c.mu.Unlock()
				h.mu.Lock()
				defer h.mu.Unlock()
				keeps = h.out != nil || h.streams != nil && cap(h.streams) > fewStreams || h.serving > 0 || h.received.open+h.received.unsaid != widestWindow || !c.rested.Load() || h.encoder != nil
			})
			return !keeps
		})
	}
}

// TestSessionKeepsNoHead: the HPACK table keeps only its own fields alive, and not the whole head
// of an answer.
func TestSessionKeepsNoHead(t *testing.T) {
	heads := make(chan weak.Pointer[byte], 1)
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		head := append(make([]byte, 64<<10), "Sat, 21 Nov 2026 10:00:00 GMT"...)
		heads <- weak.Make(&head[0])
		value := unsafe.String(&head[0], len(head))[64<<10:]
		name := unsafe.String(&head[0], len(head))[64<<10+5 : 64<<10+7] // has the same spelling in both protocols
		*w.(*Stream).Fields() = http1.Fields{{Name: "Date", Key: "Date", Value: value}, {Name: name, Key: name, Value: "a"}}
	}, nil)
	p := newPeer(t, dial())
	p.get(1, "/")
	if got := p.head(1); got["date"] != "Sat, 21 Nov 2026 10:00:00 GMT" || got["21"] != "a" {
		t.Fatalf("%v", got)
	}
	head := <-heads
	testkit.Eventually(t, "the head is forgotten", func() bool {
		runtime.GC()
		return head.Value() == nil
	})
}

// TestLongHeadIsNotKept: a connection doesn't keep the memory of a head in many pieces.
func TestLongHeadIsNotKept(t *testing.T) {
	dial, s := start(t, func(http.ResponseWriter, *http.Request) {}, nil)
	p := newPeer(t, dial())
	block := slices.Clone(p.encode(to("GET", "/", "a", strings.Repeat("~", 30<<10))...)) // Huffman coding would make it longer
	for first := true; len(block) > 0; first = false {
		n := min(len(block), longestFrame)
		if first {
			p.check(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:n], EndStream: true}))
		} else {
			p.check(p.WriteContinuation(1, n == len(block), block[:n]))
		}
		block = block[n:]
	}
	testkit.Same(t, "200", p.head(1)[":status"], "it is answered with")
	s.conns.Each(func(c *conn) {
		c.mu.Lock()
		h := c.session
		c.mu.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		if n := reflect.ValueOf(h.decoder).Elem().FieldByName("saveBuf").FieldByName("buf").Cap(); n > 0 || h.pieces != nil {
			t.Errorf("%d bytes are kept, and %d", n, cap(h.pieces))
		}
	})
}

// TestLongHeadersTogether: an address may hold only as many long unfinished headers as over HTTP/1.1.
func TestLongHeadersTogether(t *testing.T) {
	dial, s := start(t, script, nil)
	s.long.Bound(connlimit.OnePart) // one for each address
	held := func(n int) func() bool { return func() bool { return s.long.Held() == n } }
	first, second, third := newPeer(t, dial()), newPeer(t, dial()), newPeer(t, dial())
	half(first, 1, inSize+1)
	testkit.Eventually(t, "a long header is counted", held(1))
	half(second, 1, inSize)
	second.check(second.WriteContinuation(1, false, []byte{0x82}))
	testkit.Same(t, "GOAWAY ENHANCE_YOUR_CALM", second.end(1), "a second long header")
	first.check(first.WriteContinuation(1, true, nil))
	testkit.Same(t, "431", first.head(1)[":status"], "the complete header gets")
	testkit.Eventually(t, "a complete header isn't counted", held(0))
	half(third, 1, inSize+1)
	testkit.Eventually(t, "another one is counted", held(1))
	_ = third.conn.Close()
	testkit.Eventually(t, "a closed connection's header isn't counted", held(0))
}

// TestTrailersAreFewAndShort: trailers are bounded as over HTTP/1.1, because they are held until
// the request is over.
func TestTrailersAreFewAndShort(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, len(w.(*Stream).Trailer()))
	}, nil)
	p := newPeer(t, dial())
	for i, c := range []struct {
		fields []string
		want   string
	}{
		{slices.Repeat([]string{"a", "b"}, http1.FewTrailers), fmt.Sprint(http1.FewTrailers)},
		{slices.Repeat([]string{"a", "b"}, http1.FewTrailers+1), "PROTOCOL_ERROR"},
		{[]string{"a", strings.Repeat("x", http1.ShortTrailer-1)}, "1"},
		{[]string{"a", strings.Repeat("x", http1.ShortTrailer)}, "PROTOCOL_ERROR"},
	} {
		p.ask(id(i), false, to("POST", "/")...)
		p.ask(id(i), true, c.fields...)
		testkit.Same(t, c.want, p.end(id(i)), "%d fields", len(c.fields)/2)
	}
}

// TestStreamInUse: a handler has derived a context from the request's. A goroutine of package context may still use the
// request's context after the answer, so the stream's memory isn't reused.
func TestStreamInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used *Stream
		p, _ := serveAlone(t, func(w http.ResponseWriter, r *http.Request) {
			_, stop := context.WithTimeout(r.Context(), time.Hour)
			stop()
			used = w.(*Stream)
		})
		p.get(1, "/")
		p.end(1)
		synctest.Wait()
		testkit.Same(t, 1, used.id, "the stream's number")
	})
}

// TestHeadSize: HeadSize counts all that a request's head keeps in memory.
func TestHeadSize(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, w.(interface{ HeadSize() int }).HeadSize())
	}, nil)
	const head = "GET / HTTP/1.1\r\nHost: a\r\nTrailer:   x   \r\n\r\n"
	c := dial()
	_, got := ask(t, c, bufio.NewReader(c), head)
	testkit.Same(t, fmt.Sprint(len(head)), got, "HTTP/1.1")
	const fields = ":methodGET:schemehttp:authoritysite.example:path/trailerx"
	p := newPeer(t, dial())
	p.get(1, "/", "trailer", "x")
	testkit.Same(t, fmt.Sprint(len(fields)), p.end(1), "HTTP/2: %d bytes", len(fields))
}

// FuzzSession: whatever a client sends, its connection ends and leaves no memory or goroutine behind.
func FuzzSession(f *testing.F) {
	var said bytes.Buffer
	w := http2.NewFramer(&said, nil)
	w.AllowIllegalWrites = true
	_ = w.WriteSettings(http2.Setting{ID: 4, Val: 100})
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82, 0x84, 0x86}, EndHeaders: true, EndStream: true})
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x83, 0x84}})
	_ = w.WriteContinuation(3, true, []byte{0x86, 0x41, 1, 'a'})
	_ = w.WriteDataPadded(3, false, []byte("hello"), make([]byte, 3))
	_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{0x40, 1, 'a', 1, 'b'}, EndHeaders: true, EndStream: true})
	_ = w.WriteWindowUpdate(1, 100)
	_ = w.WriteRSTStream(1, 8)
	_ = w.WritePriorityUpdate(3, "u=1, i")
	_ = w.WritePing(false, [8]byte{})
	_ = w.WriteGoAway(0, 0, nil)
	f.Add(said.Bytes())
	f.Fuzz(func(t *testing.T, said []byte) {
		handler := func(w http.ResponseWriter, r *http.Request) {
			if r.URL == nil || r.Host == "" && r.Method != http.MethodConnect && r.Header["Host"] != nil {
				t.Errorf("%+v", r)
			}
			_, _ = io.Copy(w, r.Body)
		}
		s := newServer(http.HandlerFunc(handler), Options{Log: zap.NewNop(), MaxHead: 4 << 10})
		defer s.stop()
		c := s.entering(&played{says: append([]byte(preface), said...), piece: longestFrame}, new(Entrance))
		s.conns.Add(&c.RosterEntry, c)
		c.serve()
	})
}
