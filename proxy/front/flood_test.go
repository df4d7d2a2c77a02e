package front

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/http2"
	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// budgets are the things that a hostile client may do repeatedly, each with its limits.
var budgets = map[string]struct {
	why  Flood
	most int // how often it may happen at once
	rate int // how often it may happen per second; 0: never
	do   func(f *floods, now time.Duration, n int) error
}{
	"resets":        {Resets, mostResets, resetsPerSecond, func(f *floods, now time.Duration, _ int) error { return f.reset(now) }},
	"PING":          {Control, mostControl, controlPerSecond, func(f *floods, now time.Duration, _ int) error { return f.control.charge(now, 1, Control) }},
	"WINDOW_UPDATE": {Windows, mostWindows, windowsPerSecond, func(f *floods, now time.Duration, _ int) error { return f.windowUpdate(now, false) }},
	"WINDOW_UPDATE of a connection that is open": {Control, mostControl, controlPerSecond, func(f *floods, now time.Duration, _ int) error {
		return f.windowUpdate(now, true)
	}},
	"answers byte by byte": {Windows, mostWindows, windowsPerSecond, func(f *floods, now time.Duration, _ int) error {
		f.sentData(1)
		return f.windowUpdate(now, false)
	}},
	"empty CONTINUATION": {Control, mostControl + 1, 0, func(f *floods, now time.Duration, n int) error { return f.header(now, n == 0, 0) }},
	"long CONTINUATION":  {HeaderTooLong, 3, 0, func(f *floods, now time.Duration, n int) error { return f.header(now, n == 0, 40000) }},
	"a long header":      {HeaderTooLong, 0, 0, func(f *floods, now time.Duration, _ int) error { return f.header(now, true, mostHeader+1) }},
	"HPACK bomb": {LongHeaders, mostHeaderBytes / (11 << 10), headerPerSecond / (11 << 10), func(f *floods, now time.Duration, _ int) error {
		return errors.Join(f.header(now, true, 12<<10), f.request(now))
	}},
	"headers in tiny pieces": {Control, mostControl / (10 - controlEarned), 0, func(f *floods, now time.Duration, _ int) error {
		err := f.header(now, true, 1)
		for range 10 {
			err = errors.Join(err, f.header(now, false, 0))
		}
		return errors.Join(err, f.request(now))
	}},
}

// TestBudgets: a flood is cut off after as many events as are allowed at once, and later if it is
// faster than the steady rate, but never if it is slower.
func TestBudgets(t *testing.T) {
	for name, c := range budgets {
		t.Run(name, func(t *testing.T) {
			f, n := newFloods(1), 0
			var err error
			for ; err == nil && n <= c.most+10; n++ {
				err = c.do(&f, 0, n)
			}
			if !errors.Is(err, c.why) || n < c.most || n > c.most+5 {
				t.Errorf("closed after %d, not %d, for %v, not %q", n, c.most, err, c.why)
			}
			if c.rate == 0 {
				return
			}
			slow, fast := newFloods(1), newFloods(1)
			var cut error
			for n := range 3 * c.most {
				if err := c.do(&slow, time.Duration(n)*(time.Second/time.Duration(c.rate)+1), n); err != nil {
					t.Fatalf("%d per second are closed for %v", c.rate, err)
				}
				cut = errors.Join(cut, c.do(&fast, time.Duration(n)*time.Second/time.Duration(2*c.rate), n))
			}
			if !errors.Is(cut, c.why) {
				t.Errorf("%d per second are closed for %v, not for %q", 2*c.rate, cut, c.why)
			}
		})
	}
}

// TestSavingsAreBounded: a client can't save enough for a flood.
func TestSavingsAreBounded(t *testing.T) {
	for name, c := range map[string]int{"PING": mostControl + savedControl, "WINDOW_UPDATE": mostWindows + savedWindows} {
		f := newFloods(1)
		for range 20000 {
			_ = f.request(0)
			f.sentData(16 << 10)
		}
		n := 0
		for ; budgets[name].do(&f, 0, n) == nil && n < 10*c; n++ {
		}
		if n > c+10 || n < c {
			t.Errorf("%s: %d at once, not %d", name, n, c)
		}
	}
}

// TestManyClients: the connection of a proxy in front has the budgets of several clients.
func TestManyClients(t *testing.T) {
	for _, clients := range []int{1, 7} {
		f, n := newFloods(clients), 0
		for ; budgets["PING"].do(&f, 0, n) == nil; n++ {
		}
		testkit.Same(t, clients*mostControl, n, "%d clients: PINGs before it is closed", clients)
	}
}

// honest describes the frames that a kind of real client sends after it has read DATA.
type honest struct {
	connection, stream int  // bytes that the client reads before it sends a WINDOW_UPDATE
	pings              bool // whether the client measures the bandwidth
	priorities         int  // frames with each request
}

// TestHonestClientsAreNeverCut: honest clients are never cut off, whatever they request, however
// fast the answers come, and however small the pieces are.
func TestHonestClientsAreNeverCut(t *testing.T) {
	kinds := map[string]honest{
		"a browser":   {connection: 7 << 20, stream: 3 << 20, priorities: 2},
		"curl":        {connection: 16 << 10, stream: 16 << 10},
		"nghttp2":     {connection: 32 << 10, stream: 32 << 10, priorities: 1},
		"Go, HAProxy": {connection: 4 << 10, stream: 4 << 10},
		"gRPC":        {connection: 1, stream: 16 << 10, pings: true},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f, now := newFloods(1), time.Duration(0)
				for n := range rapid.IntRange(1, 100).Draw(t, "requests") {
					now += time.Duration(rapid.IntRange(0, 1000).Draw(t, "µs")) * time.Microsecond
					size := rapid.SampledFrom([]int{0, 30, 4 << 10, 100 << 10, 3 << 20}).Draw(t, "answer")
					piece := rapid.SampledFrom([]int{4 << 10, 16 << 10}).Draw(t, "piece")
					if kind.pings {
						piece = rapid.SampledFrom([]int{20, 500, 16 << 10}).Draw(t, "message")
						size = min(size, 1000*piece)
					}
					err := errors.Join(f.header(now, true, 30), f.request(now))
					for range kind.priorities {
						err = errors.Join(err, f.control.charge(now, 1, Control))
					}
					err = errors.Join(err, kind.read(&f, now, size, piece))
					if n%3 == 0 {
						err = errors.Join(err, f.control.charge(now, 1, Control)) // gRPC resets streams that are complete
					}
					testkit.Must(t, err)
				}
			})
		})
	}
}

// read reads an answer.
func (k honest) read(f *floods, now time.Duration, size, piece int) (err error) {
	connection, stream := 0, 0
	for ; size > 0; size -= piece {
		got := min(size, piece)
		f.sentData(got)
		if connection += got; connection >= k.connection {
			err = errors.Join(err, f.windowUpdate(now, k.pings))
			connection = 0
		}
		if stream += got; stream >= k.stream {
			err = errors.Join(err, f.windowUpdate(now, false))
			stream = 0
		}
		if k.pings {
			err = errors.Join(err, f.control.charge(now, 1, Control))
		}
	}
	return err
}

// TestAtOnceWhatPeopleDo: a client may request or leave a whole page at once, with the longest
// cookies that the server accepts. A client that has read nothing for a long time may then read 120
// MB at once.
func TestAtOnceWhatPeopleDo(t *testing.T) {
	f := newFloods(1)
	var err error
	for range mostStreams {
		err = errors.Join(err, f.request(0), f.control.charge(0, 1, Control))
	}
	for range mostStreams { // the visitor leaves
		err = errors.Join(err, f.reset(0))
	}
	for range 400 { // two pages, cookies of 8 KB
		err = errors.Join(err, f.header(0, true, 8<<10), f.request(0))
	}
	long := newFloods(1)
	for range 45 {
		err = errors.Join(err, long.header(0, true, 16<<10), long.header(0, false, 16<<10), long.header(0, false, 16<<10),
			long.header(0, false, 16<<10), long.header(0, false, 0), long.request(0))
	}
	stalled := newFloods(1)
	for range 30 * 256 {
		stalled.sentData(16 << 10)
	}
	for range 30 * 256 {
		err = errors.Join(err, stalled.windowUpdate(0, true), stalled.windowUpdate(0, false))
	}
	testkit.Must(t, err)
}

// givesUp plays a connection that makes the given number of requests and waits for no answer.
func givesUp(all *addresses, now time.Duration, from string, requests int) (err error) {
	f := newFloods(1)
	f.address = addressOf(all, netip.MustParseAddr(from))
	for range requests {
		err = errors.Join(err, f.request(now))
	}
	return err
}

// TestConnectionsOfAnAddress: a client that was cut off gets no new budget with its next
// connection.
func TestConnectionsOfAnAddress(t *testing.T) {
	for _, requests := range []int{990, 250, 1} {
		all := newAddresses()
		began := 0
		for range 2 * mostTogether {
			if givesUp(all, 0, "2001:db8::1", requests) != nil {
				break
			}
			began += requests
		}
		if began > mostTogether || began < mostTogether-requests {
			t.Errorf("%d requests were given up, want some %d", began, mostTogether)
		}
		if err := givesUp(all, 0, "2001:db8::2", 1); !errors.Is(err, Unanswered) {
			t.Errorf("another one of the network: %v", err)
		}
		if err := givesUp(all, 0, "2001:db8:0:1::1", 1); err != nil {
			t.Errorf("another one: %v", err)
		}
		if err := givesUp(all, time.Second, "2001:db8::1", togetherPerSecond-1); err != nil {
			t.Errorf("a second later: %v", err)
		}
	}
}

// TestAnsweredRequestsAreForgotten: requests that are answered don't count toward the limit.
func TestAnsweredRequestsAreForgotten(t *testing.T) {
	f, all := newFloods(1), newAddresses()
	f.address = addressOf(all, netip.MustParseAddr("192.0.2.1"))
	for n := range 3 * mostTogether {
		if err := f.request(0); err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		f.answered()
	}
}

// site starts a server that answers as the path says. The log shows why connections were closed.
func site(t *testing.T, change func(*Options)) (*peer, *observer.ObservedLogs) {
	t.Helper()
	core, said := observer.New(zap.WarnLevel)
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch n, err := io.Copy(io.Discard, r.Body); {
		case err != nil:
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/wait":
			<-r.Context().Done()
		case r.URL.Path == "/big":
			piece := make([]byte, 32<<10)
			for range 100 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		default:
			_, _ = fmt.Fprint(w, n)
		}
	}, func(o *Options) {
		o.Log = zap.New(core)
		if change != nil {
			change(o)
		}
	})
	return newPeer(t, dial()), said
}

// TestFloodsAreCut: each flood is cut off after a bounded number of frames, and the log says why.
func TestFloodsAreCut(t *testing.T) {
	opened := func(p *peer, n int) { p.get(id(n), "/wait") }
	for name, c := range map[string]struct {
		why   Flood
		times int
		begin func(p *peer)
		again func(p *peer, n int) error
	}{
		"rapid reset": {Resets, 5 * mostResets, nil, func(p *peer, n int) error {
			opened(p, n)
			return p.WriteRSTStream(id(n), http2.ErrCodeCancel)
		}},
		"WINDOW_UPDATE of 0": {Resets, 5 * mostResets, nil, func(p *peer, n int) error {
			opened(p, n)
			return p.WriteWindowUpdate(id(n), 0)
		}},
		"too large a window": {Resets, 5 * mostResets, nil, func(p *peer, n int) error {
			opened(p, n)
			return p.WriteWindowUpdate(id(n), math.MaxInt32)
		}},
		"a header again": {Resets, 5 * mostResets, nil, func(p *peer, n int) error { opened(p, n); opened(p, n); return nil }},
		"DATA after the end": {Resets, 5 * mostResets, nil, func(p *peer, n int) error {
			opened(p, n)
			return p.WriteData(id(n), false, []byte{0})
		}},
		"a bad trailer": {Resets, 5 * mostResets, nil, func(p *peer, n int) error {
			p.ask(id(n), false, to("POST", "/")...)
			p.ask(id(n), true, ":path", "/")
			return nil
		}},
		"more than the length says": {Resets, 5 * mostResets, nil, func(p *peer, n int) error {
			p.ask(id(n), false, to("POST", "/", "content-length", "1")...)
			return p.WriteData(id(n), true, []byte("12"))
		}},
		"no request":                  {Resets, 5 * mostResets, nil, func(p *peer, n int) error { p.ask(id(n), true, ":path", "/"); return nil }},
		"more requests than may be":   {Resets, 5 * mostResets, nil, func(p *peer, n int) error { opened(p, n); return nil }},
		"SETTINGS":                    {Control, mostControl, nil, func(p *peer, _ int) error { return p.WriteSettings(http2.Setting{ID: 3, Val: 100}) }},
		"GOAWAY":                      {Control, mostControl, nil, func(p *peer, _ int) error { return p.WriteGoAway(0, 0, nil) }},
		"SETTINGS that nobody asked":  {Control, 5 * mostControl, nil, func(p *peer, _ int) error { return p.WriteSettingsAck() }},
		"PING":                        {Control, 5 * mostControl, nil, func(p *peer, _ int) error { return p.WritePing(false, [8]byte{}) }},
		"PING that nobody asked":      {Control, 5 * mostControl, nil, func(p *peer, _ int) error { return p.WritePing(true, [8]byte{}) }},
		"PRIORITY":                    {Control, 5 * mostControl, nil, func(p *peer, n int) error { return p.WritePriority(id(n), http2.PriorityParam{}) }},
		"PRIORITY_UPDATE":             {Control, 5 * mostControl, nil, func(p *peer, n int) error { return p.WritePriorityUpdate(id(n), "u=1") }},
		"frames of no known type":     {Control, 5 * mostControl, nil, func(p *peer, _ int) error { return p.WriteRawFrame(0x20, 0, 1, nil) }},
		"resets of nothing":           {Control, 5 * mostControl, func(p *peer) { p.get(1, "/"); p.end(1) }, func(p *peer, _ int) error { return p.WriteRSTStream(1, 8) }},
		"empty DATA":                  {Control, 5 * mostControl, func(p *peer) { p.ask(1, false, to("POST", "/")...) }, func(p *peer, _ int) error { return p.WriteData(1, false, nil) }},
		"empty DATA on what is over":  {Control, 5 * mostControl, func(p *peer) { p.get(1, "/"); p.end(1) }, func(p *peer, _ int) error { return p.WriteData(1, true, nil) }},
		"WINDOW_UPDATE":               {Windows, 5 * mostWindows, func(p *peer) { p.get(1, "/wait") }, func(p *peer, _ int) error { return p.WriteWindowUpdate(1, 1) }},
		"WINDOW_UPDATE of connection": {Control, 5 * mostControl, nil, func(p *peer, _ int) error { return p.WriteWindowUpdate(0, 1) }},
		"Data Dribble": {Windows, 5 * mostWindows, func(p *peer) {
			p.check(p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
			p.get(1, "/big")
		}, func(p *peer, _ int) error { return p.WriteWindowUpdate(1, 1) }},
		"empty CONTINUATION": {Control, 5 * mostControl, func(p *peer) {
			p.check(p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}}))
		}, func(p *peer, _ int) error { return p.WriteContinuation(1, false, nil) }},
		"long headers": {LongHeaders, 5 * mostHeaderBytes / 12000, nil, func(p *peer, n int) error {
			p.encoder.SetMaxDynamicTableSize(0)
			p.get(id(n), "/", "x", strings.Repeat("~", 10000))
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, said := site(t, nil)
			if c.begin != nil {
				c.begin(p)
			}
			over := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, p.conn)
				over <- err
			}()
			p.Framer = http2.NewFramer(quiet{p.conn}, nil)
			p.AllowIllegalWrites = true
			for n := range c.times {
				if c.again(p, n) != nil || said.Len() > 0 {
					break
				}
			}
			testkit.Eventually(t, "the flood is cut", func() bool { return said.Len() == 1 })
			testkit.Same(t, c.why.Error(), fmt.Sprint(said.All()[0].ContextMap()["error"]), "closed for")
			<-over
		})
	}
}

// quiet writes to a connection that may be closed.
type quiet struct{ io.Writer }

func (q quiet) Write(p []byte) (int, error) {
	_, _ = q.Writer.Write(p)
	return len(p), nil
}

// TestSmallDataIsSlowed: a client that sends small pieces is read no faster than allowed, and is
// never cut off.
func TestSmallDataIsSlowed(t *testing.T) {
	f, now := newFloods(1), time.Duration(0)
	for range mostSmallData {
		f.small.spend(now, 1)
	}
	testkit.Same(t, 0, f.small.late(now), "a wait for as many as are allowed")
	for range 5 * smallDataPerSecond {
		f.small.spend(now, 1)
		now += f.small.late(now)
	}
	testkit.Same(t, 5*time.Second, now, "the next five seconds' took")
	talks := newFloods(1)
	for range 10 * mostSmallData { // a stream of messages, each of which is answered
		talks.sentData(30)
		talks.small.spend(0, 1)
	}
	testkit.Same(t, 0, talks.small.late(0), "what is answered waits for")
}
