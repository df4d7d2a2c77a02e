package gossip

import (
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"tempomat/limiter"
	"tempomat/limiter/limitertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is the loopback interface with cables that can be cut.
type network struct {
	mu    sync.Mutex
	sides map[string]int // of a split, by address; who is not in it is on side 0
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

// cable is a node's connection to the network. What it sends to the other side is
// lost; streams there can not be opened.
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
func (n *network) plug(t testing.TB, address string) memberlist.NodeAwareTransport {
	host, port, _ := splitAddress(address)
	nt, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{host}, BindPort: port, Logger: log.New(os.Stderr, "", 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &cable{nt, n, address}
}

// freeAddress is one of the loopback interface whose port is free for both UDP and TCP.
func freeAddress(t testing.TB) string {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		a := l.Addr().String()
		p, err := net.ListenPacket("udp", a)
		l.Close()
		if err == nil {
			p.Close()
			return a
		}
	}
	t.Fatal("no free port")
	return ""
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

// join makes one more sharer, whose port is open from now on.
func (r *real) join(t testing.TB) *Sharer {
	o := r.options
	o.Listen = freeAddress(t)
	o.Name, o.Join = o.Listen, append([]string(nil), r.addresses...)
	r.addresses = append(r.addresses, o.Listen)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.o.plug = func() (memberlist.NodeAwareTransport, error) { return r.network.plug(t, o.Listen), nil }
	return s
}

func (r *real) Cut() {
	for i, a := range r.addresses {
		r.network.split(i, a)
	}
}

func (r *real) Heal() { r.network.split(0, r.addresses...) }

func TestConformance(t *testing.T) {
	limitertest.Sharers(t, func(*testing.T, limiter.Policy) limitertest.Fleet { return newReal() })
}
