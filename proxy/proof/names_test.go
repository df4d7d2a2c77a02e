package proof

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone is a resolver that answers from memory after a delay.
type zone struct {
	takes time.Duration
	dead  atomic.Bool // whether the resolver is silent

	mu        sync.Mutex // guards the fields below
	names     map[string][]string
	addresses map[string][]netip.Addr
	questions int
	atOnce    int
	most      int
}

var errNoSuchName = &net.DNSError{Err: "no such host", IsNotFound: true}

func newZone() *zone {
	return &zone{names: make(map[string][]string), addresses: make(map[string][]netip.Addr)}
}

// crawler gives an address a name.
func (z *zone) crawler(address, name string) {
	z.names[address] = []string{name + "."}
	z.addresses[strings.ToLower(name)+"."] = []netip.Addr{netip.MustParseAddr(address)}
}

func (z *zone) ask(ctx context.Context) error {
	z.mu.Lock()
	z.questions++
	z.atOnce++
	z.most = max(z.most, z.atOnce)
	z.mu.Unlock()
	defer func() {
		z.mu.Lock()
		z.atOnce--
		z.mu.Unlock()
	}()
	takes := z.takes
	if z.dead.Load() {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (z *zone) LookupAddr(ctx context.Context, a string) ([]string, error) {
	if err := z.ask(ctx); err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if names, ok := z.names[a]; ok {
		return names, nil
	}
	return nil, errNoSuchName
}

func (z *zone) LookupNetIP(ctx context.Context, _, name string) ([]netip.Addr, error) {
	if err := z.ask(ctx); err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if addresses, ok := z.addresses[name]; ok {
		return addresses, nil
	}
	return nil, errNoSuchName
}

func (z *zone) asked() int {
	n, _ := z.load()
	return n
}

// load returns how many queries there were, and how many at most at the same time.
func (z *zone) load() (questions, most int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.questions, z.most
}

// inBubble runs a test on a virtual clock, with Names that query a zone.
func inBubble(t *testing.T, z *zone, test func(t *testing.T, n *Names)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := NewNames(z, zap.NewNop())
		n.SetDomains([]string{"googlebot.com", "search.msn.com"})
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() { n.Run(ctx) })
		test(t, n)
		cancel()
		asking.Wait()
	})
}

var real4, real6 = netip.MustParseAddr("66.249.66.1"), netip.MustParseAddr("2001:4860:4801:10::1")

// expect checks what is known about an address, without waiting.
func expect(t *testing.T, n *Names, a netip.Addr, name string, known bool) {
	t.Helper()
	began := time.Now()
	gotName, gotKnown := n.Host(began, a)
	if gotName != name || gotKnown != known {
		t.Errorf("%s: %q, known %t; want %q, %t", a, gotName, gotKnown, name, known)
	}
	testkit.Same(t, 0, time.Since(began), "%s: it took", a)
}

// TestHost: at first nothing is known about an address, then the answer for as long as it is valid.
func TestHost(t *testing.T) {
	z := newZone()
	z.takes = 30 * time.Millisecond
	z.crawler(real4.String(), "Crawl-66-249-66-1.GoogleBot.com")
	z.crawler(real6.String(), "crawl6.googlebot.com")
	other := netip.MustParseAddr("192.0.2.1")
	z.addresses["crawl6.googlebot.com."] = []netip.Addr{other, real6}
	inBubble(t, z, func(t *testing.T, n *Names) {
		for range 3 { // the name is looked up only once
			for _, a := range []netip.Addr{real4, netip.AddrFrom16(real4.As16()), real6.WithZone("eth0"), other} {
				expect(t, n, a, "", false)
			}
		}
		time.Sleep(time.Second)
		z.mu.Lock()
		z.crawler(other.String(), "late.googlebot.com")
		z.mu.Unlock()
		for range 3 {
			expect(t, n, real4, "crawl-66-249-66-1.googlebot.com", true)
			expect(t, n, real6, "crawl6.googlebot.com", true)
			expect(t, n, other, "", true)
		}
		testkit.Same(t, 5, z.asked(), "questions: 2, 2 and 1")
		time.Sleep(noneFor)
		expect(t, n, other, "", true) // the answer stays valid until there is a new one
		time.Sleep(time.Second)
		expect(t, n, other, "late.googlebot.com", true)
		expect(t, n, real6, "crawl6.googlebot.com", true)
		testkit.Same(t, 7, z.asked(), "questions an hour later: 2 more")
	})
}

// TestLies: the owner of an address may give it any name, but only confirmed names count.
func TestLies(t *testing.T) {
	const liar = "198.51.100.1"
	for what, names := range map[string][]string{
		"a name of Google's":           {"crawl-1.googlebot.com."},
		"a name that leads nowhere":    {"gone.googlebot.com."},
		"a name that ends so":          {"evilgooglebot.com."},
		"a name that begins so":        {"googlebot.com.evil.example."},
		"the domain itself":            {"googlebot.com."},
		"an empty name":                {"."},
		"a name that is too long":      {string(make([]byte, 300)) + ".googlebot.com."},
		"its own, which leads back":    {"own.example."},
		"more than anybody looks at":   {"a.googlebot.com.", "b.googlebot.com.", "c.googlebot.com.", "crawl-9.googlebot.com."},
		"a name with another's domain": {"crawl.googlebot.com.search.msn.com.example."},
	} {
		z := newZone()
		z.names[liar] = names
		z.addresses["crawl-1.googlebot.com."] = []netip.Addr{real4}
		z.addresses["own.example."] = []netip.Addr{netip.MustParseAddr(liar)}
		z.addresses["googlebot.com."] = []netip.Addr{netip.MustParseAddr(liar)}
		inBubble(t, z, func(t *testing.T, n *Names) {
			expect(t, n, netip.MustParseAddr(liar), "", false)
			time.Sleep(time.Minute)
			if expect(t, n, netip.MustParseAddr(liar), "", true); z.asked() > 1+mostNames {
				t.Errorf("%s: %d questions", what, z.asked())
			}
		})
	}
}

// TestDead: if the resolver doesn't answer, no name is found, there are few queries, and no memory grows.
// Confirmed names stay valid for a week.
func TestDead(t *testing.T) {
	z := newZone()
	z.crawler(real4.String(), "crawl.googlebot.com")
	inBubble(t, z, func(t *testing.T, n *Names) {
		n.Host(time.Now(), real4)
		time.Sleep(time.Second)
		z.dead.Store(true)
		before := z.asked()
		for i := range 24 * 60 { // minutes of a day
			expect(t, n, real4, "crawl.googlebot.com", true)
			expect(t, n, netip.AddrFrom4([4]byte{192, 0, byte(i / 256), byte(i)}), "", false)
			time.Sleep(time.Minute)
		}
		if got, most := z.load(); got-before > 3*24*60 || most > atOnce {
			t.Errorf("%d questions in a day, up to %d at a time", got-before, most)
		}
		for range 6 * 24 * 10 {
			time.Sleep(6 * time.Minute)
			n.Host(time.Now(), real4)
		}
		expect(t, n, real4, "crawl.googlebot.com", true)
		for range 2 * 24 * 10 {
			time.Sleep(6 * time.Minute)
			n.Host(time.Now(), real4)
		}
		expect(t, n, real4, "", false)
	})
}

// TestFlood: 1,000 forged crawlers of 1,000 networks, each of which returns once a second, cause ten queries a
// second until each was looked up once. A true crawler among them is confirmed earlier, and so is one among a
// thousand addresses of one network.
func TestFlood(t *testing.T) {
	for what, forger := range map[string]func(i int) netip.Addr{
		"1000 networks":  func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, byte(i / 256), byte(i), 1}) },
		"one network":    func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}) },
		"one IPv6 /48":   func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:1:%x::1", i)) },
		"slow answers":   func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, byte(i / 256), byte(i), 2}) },
		"forged answers": func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, byte(i / 256), byte(i), 3}) },
	} {
		z := newZone()
		z.crawler(real4.String(), "crawl.googlebot.com")
		switch what {
		case "slow answers":
			z.takes = 300 * time.Millisecond
		case "forged answers":
			for i := range 1000 {
				z.names[forger(i).String()] = []string{"crawl.googlebot.com."}
			}
		}
		inBubble(t, z, func(t *testing.T, n *Names) {
			var answered time.Duration
			began := time.Now()
			for time.Since(began) < 4*time.Minute {
				for i := range 1000 {
					if name, _ := n.Host(time.Now(), forger(i)); name != "" {
						t.Fatalf("%s: %s is called %s", what, forger(i), name)
					}
				}
				if _, known := n.Host(time.Now(), real4); known && answered == 0 {
					answered = time.Since(began)
				}
				time.Sleep(time.Second)
				seconds := time.Since(began).Seconds()
				if got, most := z.load(); float64(got) > burst+seconds/betweenAsking.Seconds()+1 || most > atOnce {
					t.Fatalf("%s: %d questions in %v s, up to %d at a time", what, got, seconds, most)
				}
			}
			if answered == 0 || what == "one network" && answered > 10*time.Second {
				t.Errorf("%s: the true one was known after %s", what, answered)
			}
			if got, most := z.asked(), 2002; got > most {
				t.Errorf("%s: %d questions, want %d at most", what, got, most)
			}
		})
	}
}

// TestMemory: however many addresses are asked for, only a fixed number is remembered, with priority for those
// with a name.
func TestMemory(t *testing.T) {
	z := newZone()
	z.crawler(real4.String(), "crawl.googlebot.com")
	inBubble(t, z, func(t *testing.T, n *Names) {
		n.Host(time.Now(), real4)
		time.Sleep(time.Second)
		for i := range 60000 {
			n.Host(time.Now(), netip.AddrFrom4([4]byte{10, byte(i / 65536), byte(i / 256), byte(i)}))
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		n.mu.Lock()
		known, asking, networks := n.named.Len()+n.others.Len(), len(n.asking), len(n.networks)
		n.mu.Unlock()
		if most := mostWaiting + atOnce; known > mostNamed+mostOthers || asking > most || networks > most {
			t.Errorf("%d are known, %d of %d networks are asked for: more than there may be", known, asking, networks)
		}
		expect(t, n, real4, "crawl.googlebot.com", true)
	})
}

// TestSetDomains: if the domains change, addresses without a name are looked up again.
func TestSetDomains(t *testing.T) {
	z := newZone()
	z.crawler("192.0.2.7", "a.crawl.example")
	a := netip.MustParseAddr("192.0.2.7")
	inBubble(t, z, func(t *testing.T, n *Names) {
		n.Host(time.Now(), a)
		time.Sleep(time.Second)
		expect(t, n, a, "", true)
		n.SetDomains([]string{"search.msn.com", "googlebot.com"}) // the same
		expect(t, n, a, "", true)
		time.Sleep(time.Second)
		testkit.Same(t, 1, z.asked(), "questions for the same domains")
		n.SetDomains([]string{"Crawl.example"})
		n.Host(time.Now(), a)
		time.Sleep(time.Second)
		expect(t, n, a, "a.crawl.example", true)
	})
}

// TestSilenceIsLogged: a silent resolver is logged after a few queries, and only once in ten minutes.
func TestSilenceIsLogged(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	n := NewNames(nil, zap.New(core))
	now, dead := time.Unix(0, 0), errors.New("refused")
	for range 3 {
		for _, err := range []error{dead, dead, errNoSuchName, dead, dead, dead, dead, errNoSuchName, nil} {
			n.hear(now, err)
			now = now.Add(time.Second)
		}
	}
	testkit.Same(t, 1, logs.Len(), "times logged")
	for range 4 {
		n.hear(now.Add(quietFor), dead)
	}
	testkit.Same(t, 2, logs.Len(), "times logged, after a while")
}

// TestAnswerOf: an error counts as an answer only if it says that there is no such name.
func TestAnswerOf(t *testing.T) {
	for _, x := range []struct {
		err  error
		want answer
	}{
		{nil, none}, {errNoSuchName, none}, {fmt.Errorf("so: %w", errNoSuchName), none},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, silence},
		{context.DeadlineExceeded, silence}, {errors.New("connection refused"), silence},
	} {
		testkit.Same(t, x.want, answerOf(x.err), "%v", x.err)
	}
}
