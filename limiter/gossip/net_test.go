package gossip

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"tempomat/internal/sim"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(settled{m}) }

// settled waits for the probes that still run after memberlist has shut down. They end some seconds later, when
// they time out.
type settled struct{ *testing.M }

func (s settled) Run() int {
	code := s.M.Run()
	for tries := 0; tries < 8 && goleak.Find() != nil; tries++ {
		continue
	}
	return code
}

// network is the loopback interface with cables that can be cut.
type network struct {
	mu    sync.Mutex
	sides map[string]int // the sides of a split, by address; other addresses are on side 0
}

func (n *network) split(side int, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range addresses {
		n.sides[a] = side
	}
}

func (n *network) connected(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sides[a] == n.sides[b]
}

// cable is a node's connection to the network. Packets to the other side are lost, and streams to the other
// side can't be opened.
type cable struct {
	*memberlist.NetTransport
	network *network
	from    string
}

func (c *cable) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if !c.network.connected(c.from, a.Addr) {
		return time.Now(), nil
	}
	return c.NetTransport.WriteToAddress(b, a)
}

func (c *cable) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if !c.network.connected(c.from, a.Addr) {
		return nil, fmt.Errorf("%s is on the other side", a.Addr)
	}
	return c.NetTransport.DialAddressTimeout(a, timeout)
}

// plug makes the transport of a node that listens at an address.
func (n *network) plug(address string) (memberlist.NodeAwareTransport, error) {
	host, port := splitAddress(address)
	nt, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{host}, BindPort: port, Logger: log.New(io.Discard, "", 0),
	})
	return &cable{nt, n, address}, err
}

// real is a fleet of sharers on the loopback interface.
type real struct {
	network   *network
	addresses []string
	options   Options
}

func newReal() *real {
	return &real{network: &network{sides: map[string]int{}}, options: Options{Keys: [][]byte{make([]byte, 16)}}}
}

func (r *real) Join(t testing.TB) limiter.Sharer { return r.join(t) }

// join makes another Sharer and opens its port.
func (r *real) join(t testing.TB) *Sharer {
	o := r.options
	o.Listen = cmp.Or(o.Listen, testkit.FreeAddress(t))
	o.Join = append([]string(nil), r.addresses...)
	r.addresses = append(r.addresses, o.Listen)
	s, err := New(o)
	testkit.Must(t, err)
	s.o.plug = func() (memberlist.NodeAwareTransport, error) { return r.network.plug(o.Listen) }
	return s
}

func (r *real) Cut() {
	for i, a := range r.addresses {
		r.network.split(i, a)
	}
}

func (r *real) Heal() { r.network.split(0, r.addresses...) }

// sidecar is a limiter with its sharer running.
type sidecar struct {
	*limiter.Limiter
	*Sharer
	end func() // ends the instance without informing the peers
}

// start runs another instance until the test ends.
func (r *real) start(t testing.TB) *sidecar {
	s := r.join(t)
	s.o.kill = true
	c := &sidecar{Limiter: limiter.New(time.Now(), testPolicy(), 1<<18, s), Sharer: s}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, c.Limiter); err != nil {
			t.Errorf("the Sharer stopped: %v", err)
		}
	})
	c.end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(c.end)
	return c
}

// ask sends one request from a client.
func (c *sidecar) ask(client string, cost time.Duration) bool {
	now := time.Now()
	t := c.Arrive(now, limiter.Arrival{Client: testKey(client), Guess: cost})
	defer c.Leave(now, t)
	if t.Verdict().Refused() {
		return false
	}
	c.Settle(now, t, cost)
	return true
}

func (c *sidecar) level(client string) float64 {
	if r, ok := c.Find(time.Now(), testKey(client)); ok {
		return r.Level
	}
	return testBurst
}

// together waits until each of the instances sees all of them, including itself.
func together(t testing.TB, cars ...*sidecar) time.Duration {
	t.Helper()
	return testkit.Eventually(t, fmt.Sprintf("%d instances see each other", len(cars)), func() bool {
		for _, c := range cars {
			if c.State().Sidecars != len(cars) {
				return false
			}
		}
		return true
	})
}

func TestConformance(t *testing.T) {
	sim.Sharers(t, func(*testing.T, limiter.Policy) sim.Fleet { return newReal() })
}

// TestEqualNames: if two instances have the same name, the log says what to do.
func TestEqualNames(t *testing.T) {
	said := ""
	s, err := New(Options{Listen: "127.0.0.1:1", Logf: func(_ string, v ...any) { said = fmt.Sprint(v...) }})
	testkit.Must(t, err)
	if _, _ = s.logger().Write([]byte("[ERR] memberlist: Conflicting address for vm:1.\n")); !strings.Contains(said, "host names") {
		t.Error(said)
	}
}

// TestHostWithoutAKey: a host that reaches the port without a key fills neither the log nor the memory, and
// doesn't keep peers from connecting.
func TestHostWithoutAKey(t *testing.T) {
	lines := 0
	s, err := New(Options{Listen: "127.0.0.1:1", Keys: [][]byte{make([]byte, 32)}, Logf: func(string, ...any) { lines++ }})
	testkit.Must(t, err)
	l := s.logger()
	for range 1000 {
		_, _ = l.Write([]byte("[ERR] memberlist: discarding packet with unacceptable label"))
	}
	if lines > logBurst+1 {
		t.Errorf("a thousand packets from an unknown host make %d log lines", lines)
	}
	c := memberlist.DefaultLANConfig()
	c.BindAddr, c.BindPort, c.Logger = "127.0.0.1", 0, log.New(io.Discard, "", 0)
	transport, err := listen(c)
	testkit.Must(t, err)
	bound := transport.(*streams)
	address := fmt.Sprintf("127.0.0.1:%d", bound.GetAutoBindPort())
	dial := func(from string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", address)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var taken []net.Conn
	for range mostOfAddress {
		dial("127.0.0.2")
		taken = append(taken, <-transport.StreamCh())
	}
	if _, err := dial("127.0.0.2").Read(make([]byte, 1)); err == nil {
		t.Error("one address has more connections than the limit")
	}
	peer := dial("127.0.0.3")
	x := <-transport.StreamCh()
	go func() { _, _ = peer.Write(make([]byte, mostOfStream+1)) }()
	if n, err := io.Copy(io.Discard, x); n != mostOfStream || err == nil {
		t.Errorf("%d bytes are read from a connection: %v", n, err)
	}
	for _, x := range append(taken, x) {
		_ = x.Close()
		_ = x.Close()
	}
	dial("127.0.0.2")
	_ = (<-transport.StreamCh()).Close()
	if bound.all != 0 || len(bound.from) != 0 {
		t.Errorf("%d ended connections still count, from %d addresses", bound.all, len(bound.from))
	}
	testkit.Must(t, transport.Shutdown())
}
