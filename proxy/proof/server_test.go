package proof

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a DNS server of ours. It answers with the records that it has of a name, that
// there is no such name, or, of names with "broken" in them, that it cannot tell.
type server struct {
	records   map[string][]string // by type and name
	questions atomic.Int64
}

func (s *server) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	s.questions.Add(1)
	m := new(dns.Msg).SetReply(r)
	q := r.Question[0]
	name := strings.ToLower(q.Name)
	all, ok := s.records[dns.TypeToString[q.Qtype]+" "+name]
	if !ok {
		m.Rcode = dns.RcodeNameError
	}
	if strings.Contains(name, "broken") || len(all) == 1 && all[0] == "SERVFAIL" {
		m.Rcode, all = dns.RcodeServerFailure, nil
	}
	for _, data := range all {
		rr, err := dns.NewRR(q.Name + " 60 IN " + dns.TypeToString[q.Qtype] + " " + data)
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	_ = w.WriteMsg(m)
}

// start has it serve, and returns the system's resolver that asks it and nobody else.
func (s *server) start(t *testing.T) *net.Resolver {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	of := &dns.Server{PacketConn: c, Handler: s, NotifyStartedFunc: func() { close(started) }}
	ended := make(chan error, 1)
	go func() { ended <- of.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		_ = of.Shutdown()
		<-ended
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
}

func ptr(t *testing.T, address string) string {
	t.Helper()
	name, err := dns.ReverseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	return "PTR " + name
}

// TestServer asks a real server by way of the system's resolver.
func TestServer(t *testing.T) {
	s := &server{records: map[string][]string{
		ptr(t, "66.249.66.1"):        {"crawl-66-249-66-1.googlebot.com."},
		ptr(t, "2001:4860:4801::1"):  {"crawl6.googlebot.com."},
		ptr(t, "198.51.100.1"):       {"crawl-66-249-66-1.googlebot.com."},
		ptr(t, "198.51.100.2"):       {"host.example."},
		ptr(t, "198.51.100.3"):       {"broken.googlebot.com."},
		ptr(t, "198.51.100.4"):       {"SERVFAIL"},
		ptr(t, "2001:db8::5"):        {"crawl-66-249-66-1.googlebot.com."},
		ptr(t, "198.51.100.6"):       {"gone.googlebot.com."},
		ptr(t, "198.51.100.7"):       {"first.googlebot.com.", "second.googlebot.com."},
		"A second.googlebot.com.":    {"198.51.100.7"},
		"A first.googlebot.com.":     {"198.51.100.99"},
		"AAAA crawl6.googlebot.com.": {"2001:4860:4801::1"},
		"A crawl-66-249-66-1.googlebot.com.": {
			"66.249.66.2", "66.249.66.1",
		},
	}}
	n := NewNames(s.start(t))
	n.SetDomains([]string{"googlebot.com"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()

	for _, x := range []struct {
		address, name string
		known         bool
	}{
		{"66.249.66.1", "crawl-66-249-66-1.googlebot.com", true},
		{"::ffff:66.249.66.1", "crawl-66-249-66-1.googlebot.com", true},
		{"2001:4860:4801::1", "crawl6.googlebot.com", true},
		{"198.51.100.1", "", true}, // it says that it is Google's
		{"198.51.100.2", "", true},
		{"198.51.100.3", "", false},
		{"198.51.100.4", "", false},
		{"2001:db8::5", "", true},
		{"198.51.100.6", "", true},
		{"198.51.100.7", "second.googlebot.com", true},
		{"203.0.113.1", "", true}, // no name at all
	} {
		a := netip.MustParseAddr(x.address)
		name, known := answered(t, n, a)
		if name != x.name || known != x.known {
			t.Errorf("%s: %q, known %t; want %q, %t", a, name, known, x.name, x.known)
		}
	}
	// Go asks again where a server could not tell.
	if got := s.questions.Load(); got > 40 {
		t.Errorf("%d questions for ten addresses", got)
	}
}

// answered waits until an address is no longer asked for.
func answered(t *testing.T, n *Names, a netip.Addr) (string, bool) {
	t.Helper()
	n.Host(time.Now(), a)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		n.mu.Lock()
		asking := n.asking[a.Unmap()]
		n.mu.Unlock()
		if !asking {
			return n.Host(time.Now(), a)
		}
		<-tick.C
	}
	t.Fatalf("%s: no answer", a)
	return "", false
}
