package h2bound

import (
	"math"
	"testing"
	"time"
)

// floods are what a hostile client does again and again, the n-th time, with what the
// server answers.
var floods = map[string]struct {
	why  Flood
	most int // times at once
	rate int // times per second that are let pass; 0: none is
	do   func(l *link, n int)
}{

	"rapid reset": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n), encode(resetStream, 0, id(n), number(8)...))
	}},
	"a reset in the middle of the answer": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n))
		l.sends(encode(headers, endHeaders, id(n), 0x88), encode(data, 0, id(n), 0))
		l.gets(encode(resetStream, 0, id(n), number(8)...))
	}},
	"MadeYouReset by WINDOW_UPDATE of 0": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n), encode(windowUpdate, 0, id(n), number(0)...))
		l.sends(encode(resetStream, 0, id(n), number(1)...))
	}},
	"MadeYouReset, and the server cannot write": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n), encode(windowUpdate, 0, id(n), number(0)...))
	}},
	"MadeYouReset by too large a window": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n), encode(windowUpdate, 0, id(n), number(math.MaxInt32)...))
		l.sends(encode(resetStream, 0, id(n), number(3)...))
	}},
	"MadeYouReset by a second header": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n), request(n))
		l.sends(encode(resetStream, 0, id(n), number(5)...))
	}},
	"MadeYouReset by DATA after the end": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n), encode(data, 0, id(n), make([]byte, 4000)...))
		l.sends(encode(resetStream, 0, id(n), number(5)...))
	}},
	"MadeYouReset by a bad trailer": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(encode(headers, endHeaders, id(n), 0x83), encode(headers, endHeaders, id(n)))
		l.sends(encode(resetStream, 0, id(n), number(1)...))
	}},
	"more streams than are allowed": {Resets, mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n))
		l.sends(encode(resetStream, 0, id(n), number(7)...))
	}},
	"more streams than are allowed, and the server cannot write": {Resets, mostStreams + mostResets, resetsPerSecond, func(l *link, n int) {
		l.gets(request(n))
	}},
	"SETTINGS": {Sessions, mostSessions, sessionsPerSecond, func(l *link, _ int) {
		l.gets(encode(settings, 0, 0, 0, 4, 0, 0, 0, 1))
		l.sends(encode(settings, ack, 0))
	}},
	"windows that SETTINGS open": {Sessions, mostSessions, sessionsPerSecond, func(l *link, _ int) {
		l.gets(encode(settings, 0, 0, 0, 4, 0, 0, 0, 1))
		for n := range 250 {
			l.sends(encode(data, 0, id(n), 0))
		}
	}},
	"GOAWAY":                     {Sessions, mostSessions / goAwayCosts, 1, func(l *link, _ int) { l.gets(encode(goAway, 0, 0, make([]byte, 8)...)) }},
	"SETTINGS that nobody asked": {Control, mostControl, controlPerSecond, func(l *link, _ int) { l.gets(encode(settings, ack, 0)) }},
	"PING": {Control, mostControl, controlPerSecond, func(l *link, _ int) {
		l.gets(encode(ping, 0, 0, make([]byte, 8)...))
		l.sends(encode(ping, ack, 0, make([]byte, 8)...))
	}},
	"PING that nobody asked":      {Control, mostControl, controlPerSecond, func(l *link, _ int) { l.gets(encode(ping, ack, 0, make([]byte, 8)...)) }},
	"PRIORITY":                    {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(2, 0, id(n), make([]byte, 5)...)) }},
	"PRIORITY_UPDATE":             {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(0x10, 0, 0, make([]byte, 5)...)) }},
	"frames of no known type":     {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(kind(n)|0x20, 0, 1)) }},
	"empty DATA":                  {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(data, 0, 1)) }},
	"empty DATA that ends again":  {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(data, endStream, 1)) }},
	"resets of nothing":           {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(resetStream, 0, 1, number(8)...)) }},
	"trailers without end":        {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(headers, endHeaders, 0)) }},
	"WINDOW_UPDATE":               {Windows, mostWindows, windowsPerSecond, func(l *link, n int) { l.gets(encode(windowUpdate, 0, 1, number(1)...)) }},
	"WINDOW_UPDATE of connection": {Control, mostControl, controlPerSecond, func(l *link, n int) { l.gets(encode(windowUpdate, 0, 0, number(1)...)) }},
	"answers byte by byte": {Windows, mostWindows, windowsPerSecond, func(l *link, n int) {
		l.gets(encode(windowUpdate, 0, 1, number(1)...))
		l.sends(encode(data, 0, 1, 0))
	}},
	"empty CONTINUATION": {HeaderTooLong, mostContinuations, 0, func(l *link, n int) {
		if n == 0 {
			l.gets(encode(headers, 0, 1))
		}
		l.gets(encode(continuation, 0, 1))
	}},
	"long CONTINUATION": {HeaderTooLong, 3, 0, func(l *link, n int) {
		if n == 0 {
			l.gets(encode(headers, 0, 1, make([]byte, 1000)...))
		}
		l.gets(encode(continuation, 0, 1, make([]byte, 40000)...))
	}},
	"a long header": {HeaderTooLong, 0, 0, func(l *link, n int) {
		l.gets(encode(headers, endHeaders, 1, make([]byte, mostHeader+1)...))
	}},
	"HPACK bomb": {LongHeaders, mostHeaderBytes / (11 << 10), headerPerSecond / (11 << 10), func(l *link, n int) {
		l.gets(encode(headers, endHeaders|endStream, id(n), make([]byte, 12<<10)...))
		l.sends(encode(headers, endHeaders|endStream, id(n), 0x89))
	}},
	"headers in tiny pieces": {Control, mostControl / (10 - controlEarned), 0, func(l *link, n int) {
		l.gets(encode(headers, endStream, id(n), 0x82))
		for range 9 {
			l.gets(encode(continuation, 0, id(n)))
		}
		l.gets(encode(continuation, endHeaders, id(n)))
		l.sends(encode(headers, endHeaders|endStream, id(n), 0x89))
	}},
}

// TestFloodsAreCut: at once after as many as are allowed, and not before; later as
// soon as they are faster than the steady rate; never if they are slower.
func TestFloodsAreCut(t *testing.T) {
	for name, c := range floods {
		t.Run(name, func(t *testing.T) {
			l, n := newLink(), 0
			for ; l.why == "" && n <= c.most+10; n++ {
				c.do(l, n)
			}
			if l.why != c.why || n < c.most || n > c.most+5 {
				t.Errorf("closed after %d, not %d, for %q, not %q", n, c.most, l.why, c.why)
			}
			if c.rate == 0 || c.most > mostResets && c.why == Resets {
				return
			}
			slow := newLink()
			for n := range 3 * c.most {
				slow.now += time.Second/time.Duration(c.rate) + 1
				c.do(slow, n)
			}
			if slow.why != "" {
				t.Errorf("%d per second are closed for %q", c.rate, slow.why)
			}
			fast := newLink()
			for n := range 3 * c.most {
				fast.now += time.Second / time.Duration(2*c.rate)
				c.do(fast, n)
			}
			if fast.why != c.why {
				t.Errorf("%d per second are closed for %q, not for %q", 2*c.rate, fast.why, c.why)
			}
		})
	}
}

// TestDribbleOfConnection: a window that is used up may not be opened byte by byte.
func TestDribbleOfConnection(t *testing.T) {
	l := newLink()
	l.gets(request(0))
	for range 4 {
		l.sends(encode(data, 0, 1, make([]byte, firstWindow/4)...))
	}
	n := 0
	for ; l.why == "" && n < 10*mostWindows; n++ {
		l.gets(encode(windowUpdate, 0, 0, number(1)...))
		l.sends(encode(data, 0, 1, 0))
	}
	if limit := mostWindows + firstWindow/bytesEarnWindow + 10; l.why != Windows || n > limit {
		t.Errorf("closed after %d, for %q", n, l.why)
	}
}

// TestSavingsAreBounded: nobody saves for a flood.
func TestSavingsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		most int
		do   func(l *link)
	}{
		"PING":          {mostControl + savedControl, func(l *link) { l.gets(encode(ping, 0, 0, make([]byte, 8)...)) }},
		"WINDOW_UPDATE": {mostWindows + savedWindows, func(l *link) { l.gets(encode(windowUpdate, 0, 1, number(1)...)) }},
	} {
		l := newLink()
		for n := range 20000 {
			l.gets(request(n))
			l.server(data, endStream, id(n), 16<<10, 0)
		}
		if l.why != "" {
			t.Fatal(l.why)
		}
		n := 0
		for ; l.why == "" && n < 10*c.most; n++ {
			c.do(l)
		}
		if l.why == "" || n > c.most+10 {
			t.Errorf("%s: %d at once, not %d", name, n, c.most)
		}
	}
}

// TestSmallDataIsSlowed: it is never cut, and no more of it is read than is allowed.
func TestSmallDataIsSlowed(t *testing.T) {
	for name, do := range map[string]func(l *link){
		"byte by byte": func(l *link) { l.client(data, 0, 1, 1, 0) },
		"padded":       func(l *link) { l.client(data, 8, 1, 256, 0) },
		"on a closed stream": func(l *link) {
			l.client(data, 0, 1, smallData, 0)
			l.server(resetStream, 0, 1, 4, 5)
		},
	} {
		l := newLink()
		for range mostSmallData {
			do(l)
		}
		if wait := l.pause(l.now); wait != 0 {
			t.Errorf("%s: a wait of %v for as many as are allowed", name, wait)
		}
		for range 5 * smallDataPerSecond {
			do(l)
			l.now += l.pause(l.now)
		}
		if l.now != 5*time.Second || l.why != "" {
			t.Errorf("%s: the next five seconds' took %v, closed for %q", name, l.now, l.why)
		}
	}
	l := newLink()
	for range 10 * mostSmallData {
		l.client(data, 0, 1, 30, 0)
		l.server(data, 0, 1, 30, 0)
	}
	for range 10 * mostSmallData {
		l.client(data, 0, 1, smallData, 0)
	}
	if wait := l.pause(l.now); wait != 0 || l.why != "" {
		t.Errorf("what is answered, and what is long, waits for %v, closed for %q", wait, l.why)
	}
}

// TestManyClients: a proxy in front carries many.
func TestManyClients(t *testing.T) {
	for _, clients := range []int{1, 7} {
		b := newBounds(clients)
		n := 0
		for why := Flood(""); why == ""; n++ {
			why = b.fromClient(0, frame{kind: ping, length: 8})
		}
		if want := clients*mostControl + 1; n != want {
			t.Errorf("%d clients: closed after %d PING, not %d", clients, n, want)
		}
	}
}

// TestHandlerMayReset: what the backend does is not the client's fault.
func TestHandlerMayReset(t *testing.T) {
	l := newLink()
	for n := range 10 * mostResets {
		l.gets(encode(headers, endHeaders, id(n), 0x83))
		switch n % 3 {
		case 0: // it breaks off
			l.sends(encode(resetStream, 0, id(n), number(2)...))
		case 1: // it does not read all of the request
			l.sends(encode(headers, endHeaders|endStream, id(n), 0x88), encode(resetStream, 0, id(n), number(0)...))
		case 2:
			l.sends(encode(resetStream, 0, id(n), number(8)...))
		}
	}
	if l.why != "" {
		t.Error(l.why)
	}
}

func TestNotHTTP2(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\n", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r", "PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n", "PRI * HTTP/1.1\r\n", "POST /"} {
		b := newBounds(1)
		got := true
		for i := range len(text) {
			if is, why := b.read(0, []byte(text[i:i+1])); why != "" {
				t.Errorf("%q: %s", text, why)
			} else if !is {
				got = false
				break
			}
		}
		if want := len(text) <= len(preface) && text == preface[:len(text)]; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzSplit: however the bytes are split, the verdict is the same.
func FuzzSplit(f *testing.F) {
	for _, c := range floods {
		l := newLink()
		for n := range 3 {
			c.do(l, n)
		}
		if len(l.in)+len(l.out) < 10000 {
			f.Add(l.in, l.out, uint16(len(l.in)))
		}
	}
	f.Add([]byte(preface), []byte{}, uint16(1))
	f.Add(join([]byte(preface), request(0), encode(resetStream, 0, 1, number(8)...), encode(data, 0, 1)), encode(resetStream, 0, 1, number(1)...), uint16(7))
	f.Add(join([]byte(preface), encode(headers, 0, 1), encode(continuation, 0, 1), encode(windowUpdate, 0, 0, number(5)...)), encode(data, endStream, 1, 1), uint16(3))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte("HTTP/1.1 200 OK\r\n\r\n"), uint16(5))
	f.Fuzz(func(t *testing.T, client, server []byte, seed uint16) {
		// So that floods are within reach, the budgets are those of a moment later.
		begin := func() *bounds {
			b := newBounds(1)
			for _, x := range []*budget{&b.resets, &b.sessions, &b.control, &b.windows, &b.small, &b.long} {
				x.paid = time.Duration(x.burst-2) * x.each
			}
			return b
		}
		whole := begin()
		is, want := whole.read(0, client)
		if want == "" && is {
			want = whole.write(0, server)
		}
		for _, size := range []int{1, 2, int(seed)%29 + 1} {
			parts := begin()
			isHTTP2, got := true, Flood("")
			for rest := client; len(rest) > 0 && got == "" && isHTTP2; rest = rest[min(size, len(rest)):] {
				isHTTP2, got = parts.read(0, rest[:min(size, len(rest))])
			}
			for rest := server; len(rest) > 0 && got == "" && isHTTP2; rest = rest[min(size, len(rest)):] {
				got = parts.write(0, rest[:min(size, len(rest))])
			}
			if got != want || isHTTP2 != is || parts.pause(0) != whole.pause(0) {
				t.Errorf("in pieces of %d: %q, HTTP/2 %v, pause %v; in one: %q, %v, %v", size, got, isHTTP2, parts.pause(0), want, is, whole.pause(0))
			}
		}
		if len(whole.streams) > mostStreams {
			t.Errorf("%d streams are followed", len(whole.streams))
		}
	})
}
