package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/time/rate"
)

// How members are found and missed. Two that do not answer each other for two to
// six seconds are apart.
const (
	probeEach    = 500 * time.Millisecond
	probeTimeout = 250 * time.Millisecond
	dialTimeout  = 2 * time.Second
	seekEach     = 500 * time.Millisecond // with as much again at random
	seekAlone    = 100 * time.Millisecond // the same, until a peer was found
	seekAtOnce   = 8                      // addresses at once until a peer was found; then one
	leaveTimeout = 500 * time.Millisecond
	reclaimAfter = time.Second
	rememberLost = 256 // addresses of members that are gone
	stateEach    = 10 * time.Second
)

// Bounds of connections from others: memberlist reads all of a message before it can tell whether a member sent it, and
// logs each that no member did.
const (
	mostStreams   = 64 // at a time
	mostOfAddress = 4
	mostOfStream  = 2 * maxState // bytes
	logEach       = 10 * time.Second
	logBurst      = 10
)

// config is memberlist's.
func (s *Sharer) config(d memberlist.Delegate) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	host, port, _ := splitAddress(s.o.Listen) // checked before
	c.Name, c.BindAddr, c.BindPort, c.AdvertisePort = s.o.name, host, port, port
	if host == "" {
		c.BindAddr = "0.0.0.0"
	}
	if s.o.Advertise != "" {
		c.AdvertiseAddr, c.AdvertisePort, _ = splitAddress(s.o.Advertise)
	}
	c.ProbeInterval, c.ProbeTimeout, c.TCPTimeout = probeEach, probeTimeout, dialTimeout
	c.SuspicionMaxTimeoutMult = 3 // a member that was missed by mistake returns unharmed
	c.GossipInterval = 100 * time.Millisecond
	c.PushPullInterval = stateEach
	c.DeadNodeReclaimTime = reclaimAfter
	c.EnableCompression = false // it would cost more than it spares, for each packet and receiver
	c.Label = "tempomat"        // other clusters are not met by mistake
	c.Keyring = s.keys
	c.Delegate, c.Events = d, s.roster
	c.LogOutput = nil
	c.Logger = log.New(s.logger(), "", 0)
	var err error
	if s.o.plug != nil {
		c.Transport, err = s.o.plug()
	} else {
		c.Transport, err = listen(c)
	}
	return c, err
}

// streams is memberlist's transport with bounded connections from others.
type streams struct {
	*memberlist.NetTransport
	taken chan net.Conn
	ended chan struct{}

	mu   sync.Mutex // guards the following
	all  int
	from map[string]int // by address
}

func listen(c *memberlist.Config) (memberlist.NodeAwareTransport, error) {
	t, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{c.BindAddr}, BindPort: c.BindPort, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	s := &streams{NetTransport: t, taken: make(chan net.Conn), ended: make(chan struct{}), from: make(map[string]int)}
	go s.take()
	return s, nil
}

// StreamCh implements memberlist.Transport.
func (s *streams) StreamCh() <-chan net.Conn { return s.taken }

// Shutdown implements memberlist.Transport.
func (s *streams) Shutdown() error {
	defer close(s.ended)
	return s.NetTransport.Shutdown()
}

// take passes on connections while there is room.
func (s *streams) take() {
	for {
		select {
		case <-s.ended:
			return
		case c := <-s.NetTransport.StreamCh():
			address, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			if !s.count(address, 1) {
				_ = c.Close()
				continue
			}
			x := &stream{Conn: c, left: mostOfStream, leave: sync.OnceFunc(func() { s.count(address, -1) })}
			select {
			case s.taken <- x:
			case <-s.ended:
				_ = x.Close()
				return
			}
		}
	}
}

// count counts a connection that comes, unless there are too many, or one that ends.
func (s *streams) count(address string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && (s.all >= mostStreams || s.from[address] >= mostOfAddress) {
		return false
	}
	s.all += n
	if s.from[address] += n; s.from[address] == 0 {
		delete(s.from, address)
	}
	return true
}

// stream is a connection with a bound on the bytes that are read.
type stream struct {
	net.Conn
	left  int
	leave func()
}

func (s *stream) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

func (s *stream) Close() error {
	s.leave()
	return s.Conn.Close()
}

// logger passes on what memberlist says of trouble. What was encrypted with another key comes many
// times a second, so only when it did last is kept; of the rest some lines.
func (s *Sharer) logger() io.Writer {
	if s.o.Logf == nil {
		return io.Discard
	}
	return logger{s.o.Logf, rate.NewLimiter(rate.Every(logEach), logBurst), &s.foreign}
}

type logger struct {
	f       func(string, ...any)
	pace    *rate.Limiter
	foreign *atomic.Int64
}

func (l logger) Write(b []byte) (int, error) {
	switch line := string(b); {
	case strings.Contains(line, "could decrypt the message"):
		l.foreign.Store(time.Now().Unix())
	case (strings.HasPrefix(line, "[WARN]") || strings.HasPrefix(line, "[ERR]")) && l.pace.Allow():
		l.f("%s", strings.TrimSpace(line))
	}
	return len(b), nil
}

// ForeignAt is when something came that was encrypted with another key, within a second.
func (s *Sharer) ForeignAt() time.Time { return time.Unix(s.foreign.Load(), 0) }

// seek joins hosts that should be members and aren't, again and again: a fleet that was split
// only reunites if an instance tries.
func (s *Sharer) seek(ctx context.Context) {
	lost := map[string]struct{}{} // members that there were
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		there := s.roster.addresses()
		for a := range there {
			lost[a] = struct{}{}
		}
		each, most := seekEach, 1
		if len(there) == 0 {
			each, most = seekAlone, seekAtOnce
		}
		targets := s.targets(ctx, there, lost)
		for _, a := range targets[:min(most, len(targets))] {
			if ctx.Err() != nil {
				return
			}
			if n, _ := s.list.Join([]string{a}); n > 0 {
				break
			} // a host that is away now may be there next time
		}
		for a := range lost {
			if len(lost) <= rememberLost {
				break
			}
			delete(lost, a)
		}
		wait.Reset(each + rand.N(each)) //nolint:gosec // only not all at once
	}
}

// targets lists who is to be joined, in random order, except for those that are
// members, or this node.
func (s *Sharer) targets(ctx context.Context, there, lost map[string]struct{}) []string {
	want := map[string]struct{}{}
	maps.Copy(want, lost)
	for _, a := range s.o.Join {
		for _, r := range resolve(ctx, a) {
			want[r] = struct{}{}
		}
	}
	self := s.list.LocalNode().FullAddress().Addr
	list := make([]string, 0, len(want))
	for a := range want {
		if _, member := there[a]; !member && a != self {
			list = append(list, a)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) //nolint:gosec // whom to try first is no secret
	return list
}

// resolve returns the addresses that a name has now.
func resolve(ctx context.Context, address string) (list []string) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, ip := range ips {
		list = append(list, hostPort(ip, port))
	}
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// stop says goodbye, so peers need not find out, and ends everything.
func (s *Sharer) stop() error {
	if !s.o.kill {
		_ = s.list.Leave(leaveTimeout) // peers that do not hear of it will miss us
	}
	return s.list.Shutdown()
}

// SetKeys replaces the keys; the first one encrypts from now on. To change a key,
// first add the new one as the second everywhere, then make it the first
// everywhere, then leave the old one out. A sharer that began without keys can
// not have any.
func (s *Sharer) SetKeys(keys [][]byte) error {
	if s.keys == nil || len(keys) == 0 {
		return errKeys
	}
	s.setKeys.Lock()
	defer s.setKeys.Unlock()
	for _, k := range keys {
		if err := s.keys.AddKey(k); err != nil {
			return err
		}
	}
	// Each one comes first once, the first one last: those that are to go are
	// last then. RemoveKey changes what concurrent readers hold, unless it takes
	// the last one.
	for _, k := range slices.Backward(keys) {
		if err := s.keys.UseKey(k); err != nil {
			return err
		}
	}
	for _, old := range slices.Backward(s.keys.GetKeys()) {
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) }) {
			break
		}
		if err := s.keys.RemoveKey(old); err != nil {
			return err
		}
	}
	return nil
}

// member is a live node as memberlist knows it.
type member struct {
	id      Node
	name    string
	address string
	to      *memberlist.Node // a copy: memberlist changes its own
}

// roster keeps which nodes are live according to memberlist. Its methods are called under a
// lock of memberlist's, so they only take notes.
type roster struct {
	self    Node
	changed chan struct{}

	mu      sync.Mutex        // guards the following
	members map[string]member // by name
}

var _ memberlist.EventDelegate = (*roster)(nil)

func newRoster(self Node) *roster {
	return &roster{self: self, changed: make(chan struct{}, 1), members: map[string]member{}}
}

// NotifyJoin implements memberlist.EventDelegate.
func (r *roster) NotifyJoin(n *memberlist.Node) {
	id, ok := parseMeta(n.Meta)
	if !ok || id == r.self {
		return
	}
	c := *n
	c.Addr, c.Meta = append(net.IP(nil), n.Addr...), nil
	r.mu.Lock()
	r.members[n.Name] = member{id, n.Name, c.Address(), &c}
	r.mu.Unlock()
	r.notify()
}

// NotifyUpdate implements memberlist.EventDelegate.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.NotifyJoin(n) }

// NotifyLeave implements memberlist.EventDelegate.
func (r *roster) NotifyLeave(n *memberlist.Node) {
	r.mu.Lock()
	delete(r.members, n.Name)
	r.mu.Unlock()
	r.notify()
}

func (r *roster) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// live returns the members.
func (r *roster) live() map[Node]member {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := make(map[Node]member, len(r.members))
	for _, m := range r.members {
		live[m.id] = m
	}
	return live
}

// addresses returns where the members are.
func (r *roster) addresses() map[string]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := make(map[string]struct{}, len(r.members))
	for _, m := range r.members {
		set[m.address] = struct{}{}
	}
	return set
}

// A node's metadata in memberlist: a version and its identity.
const metaVersion = 1

func appendMeta(b []byte, id Node) []byte {
	return binary.BigEndian.AppendUint64(append(b, metaVersion), uint64(id))
}

func parseMeta(b []byte) (id Node, ok bool) {
	if len(b) < 9 || b[0] != metaVersion {
		return 0, false
	}
	return Node(binary.BigEndian.Uint64(b[1:])), true
}

// hostPort is an address with its host in the form that memberlist has it.
func hostPort(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
