package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log"
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

// Times for finding members and detecting lost ones. Two members count as separated once they haven't answered
// each other for two to six seconds.
const (
	probeEach    = 500 * time.Millisecond
	probeTimeout = 250 * time.Millisecond
	dialTimeout  = 2 * time.Second
	seekEach     = 200 * time.Millisecond // plus a random time of up to the same length
	seekAtOnce   = 8                      // configured addresses that are tried at once
	rememberLost = time.Hour              // how long the node tries to find a member that disappeared
	leaveTimeout = 500 * time.Millisecond
	reclaimAfter = time.Second
	stateEach    = 10 * time.Second
)

// Limits for connections from other hosts. memberlist reads a whole message before it can tell whether a
// member sent it, and logs each message that doesn't come from a member.
const (
	mostStreams   = 64 // at a time
	mostOfAddress = 4
	mostOfStream  = 2 * maxState // bytes
	logEach       = 10 * time.Second
	logBurst      = 10
)

// config returns the configuration of memberlist.
func (s *Sharer) config(d memberlist.Delegate) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	host, port := splitAddress(s.o.Listen)
	c.Name, c.BindAddr, c.BindPort, c.AdvertisePort = s.o.name, host, port, port
	if host == "" {
		c.BindAddr = "0.0.0.0"
	}
	if s.o.Advertise != "" {
		c.AdvertiseAddr, c.AdvertisePort = splitAddress(s.o.Advertise)
	}
	c.ProbeInterval, c.ProbeTimeout, c.TCPTimeout = probeEach, probeTimeout, dialTimeout
	c.SuspicionMaxTimeoutMult = 3 // a suspected member has time to answer
	c.GossipInterval = 100 * time.Millisecond
	c.PushPullInterval = stateEach
	c.DeadNodeReclaimTime = reclaimAfter
	c.EnableCompression = false // compressing each packet for each receiver would cost more than it saves
	c.Label = "tempomat"        // rejects members of other clusters that use this library
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

// streams is memberlist's transport with a limit on the connections that other hosts open.
type streams struct {
	*memberlist.NetTransport
	taken chan net.Conn
	ended chan struct{}

	mu   sync.Mutex // guards the fields below
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

// take passes connections to memberlist while there is room.
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

// count counts a connection. n is 1 when the connection begins, and -1 when it ends. count returns false if
// there are too many connections.
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

// stream is a connection from which at most a fixed number of bytes is read.
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

// logger passes on memberlist's warnings and errors, but only a few at a time. Many messages a second may
// arrive that were encrypted with a different key, so logger only stores when the last one arrived.
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
		line = strings.TrimSpace(line)
		if strings.Contains(line, "Conflicting address for") {
			line += ". Two instances have this name: give their machines different host names, or set coordination.gossip.advertise"
		}
		l.f("%s", line)
	}
	return len(b), nil
}

// ForeignAt returns the time at which the last message arrived that was encrypted with a different key, in
// whole seconds.
func (s *Sharer) ForeignAt() time.Time { return time.Unix(s.foreign.Load(), 0) }

// seek keeps trying to join the hosts that should be members but aren't. After a split, the parts of a fleet
// find each other again only if an instance tries.
func (s *Sharer) seek(ctx context.Context) {
	met := map[string]time.Time{}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		missing, failed := s.missing(ctx, met)
		for _, a := range missing {
			n, err := s.list.Join([]string{a})
			if n > 0 || ctx.Err() != nil {
				break
			}
			failed = err // a host that can't be reached now may be reachable next time
		}
		s.failed.Store(oneLine(failed))
		wait.Reset(seekEach + rand.N(seekEach)) //nolint:gosec // the random time only spreads the attempts
	}
}

// oneLine returns an error's text on one line; empty: no error.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// missing returns addresses to join that are neither members nor this node. Configured addresses come first,
// followed by the address of one member that disappeared, because the configured instances may never come back
// while others still run. met stores when each address was last a member; missing updates it. The error is why a host
// name has no address.
func (s *Sharer) missing(ctx context.Context, met map[string]time.Time) (list []string, failed error) {
	now := time.Now()
	met[s.list.LocalNode().FullAddress().Addr] = now
	for _, m := range s.roster.live() {
		met[m.Address()] = now
	}
	for _, a := range s.o.Join {
		all, err := resolve(ctx, a)
		if err != nil {
			failed = err
		}
		for _, r := range all {
			if !met[r].Equal(now) {
				list = append(list, r)
			}
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) //nolint:gosec // the order needn't be unpredictable
	list = list[:min(seekAtOnce, len(list))]
	for a, last := range met { // maps are iterated in random order
		switch ago := now.Sub(last); {
		case ago > rememberLost:
			delete(met, a)
		case ago > 0:
			return append(list, a), failed
		}
	}
	return list, failed
}

// resolve returns the addresses that a host name currently resolves to.
func resolve(ctx context.Context, address string) (list []string, err error) {
	host, port := splitAddress(address)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	for _, ip := range ips {
		list = append(list, hostPort(ip, port))
	}
	return slices.Compact(slices.Sorted(slices.Values(list))), err
}

// stop informs the peers that this instance is leaving, so they needn't detect it, and then closes everything.
func (s *Sharer) stop() error {
	if !s.o.kill {
		_ = s.list.Leave(leaveTimeout) // peers that don't receive the message detect the loss later
	}
	return s.list.Shutdown()
}

// SetKeys replaces the keys; the first one encrypts from now on. To change a key without interruption, add the
// new key as the second on all instances, then make it the first on all of them, and then remove the old key.
// SetKeys returns an error for a Sharer that was made without keys.
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
	// UseKey moves a key to the front. After this loop, the keys to be removed are at the end, where RemoveKey
	// removes them without changing the slice that concurrent readers hold.
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

// roster records which nodes memberlist considers alive. memberlist calls the roster's methods while it holds a
// lock of its own, so they only store their arguments.
type roster struct {
	self    Node
	changed chan struct{}

	mu      sync.Mutex                  // guards the fields below
	members map[string]*memberlist.Node // by name; these are copies, because memberlist modifies its nodes
}

var _ memberlist.EventDelegate = (*roster)(nil)

func newRoster(self Node) *roster {
	return &roster{self: self, changed: make(chan struct{}, 1), members: map[string]*memberlist.Node{}}
}

// NotifyJoin implements memberlist.EventDelegate.
func (r *roster) NotifyJoin(n *memberlist.Node) {
	if id, ok := parseMeta(n.Meta); !ok || id == r.self {
		return
	}
	c := *n
	c.Addr, c.Meta = slices.Clone(n.Addr), slices.Clone(n.Meta)
	r.set(n.Name, &c)
}

// NotifyUpdate implements memberlist.EventDelegate.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.NotifyJoin(n) }

// NotifyLeave implements memberlist.EventDelegate.
func (r *roster) NotifyLeave(n *memberlist.Node) { r.set(n.Name, nil) }

func (r *roster) set(name string, n *memberlist.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.members, name); n != nil {
		r.members[name] = n
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// live returns the members.
func (r *roster) live() map[Node]*memberlist.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := make(map[Node]*memberlist.Node, len(r.members))
	for _, m := range r.members {
		id, _ := parseMeta(m.Meta) // NotifyJoin has checked it
		live[id] = m
	}
	return live
}

// metaVersion is the version of a node's metadata in memberlist: a version and the node's identity.
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

// hostPort joins an IP address and a port in the same form as memberlist.
func hostPort(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
