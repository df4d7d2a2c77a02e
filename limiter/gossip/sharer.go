package gossip

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"tempomat/limiter"
)

// These are the limits of the queues of charges for the next quarter of an epoch and of received messages.
const (
	outboxCharges = 1 << 14
	inboxMessages = 1 << 10
)

// Sharer shares charges with peers that it finds automatically. Its methods may be called concurrently, but Run
// may be called only once.
type Sharer struct {
	limiter.Packets
	o      Options
	id     Node
	outbox *limiter.Outbox
	inbox  chan []byte
	roster *roster
	keys   *memberlist.Keyring // nil: messages aren't encrypted

	overrun atomic.Uint64 // messages dropped because the inbox was full
	away    atomic.Uint64 // messages that couldn't be sent
	failed  atomic.Value  // State.LastError
	foreign atomic.Int64  // when the last message arrived that was encrypted with a different key, in Unix seconds
	setKeys sync.Mutex

	list    *memberlist.Memberlist // set by Run
	sink    limiter.Sink           // set by Run
	mu      sync.Mutex             // guards the fields below
	replica *Replica               // nil before Run
}

var _ limiter.Sharer = (*Sharer)(nil)

// New makes a Sharer without opening a connection. It returns an error if a key is invalid.
func New(o Options) (*Sharer, error) {
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // never fails
	id := Node(binary.BigEndian.Uint64(drawn[:]))
	s := &Sharer{
		Packets: limiter.NewPackets(), o: o.complete(), id: id, outbox: limiter.NewOutbox(outboxCharges),
		inbox: make(chan []byte, inboxMessages), roster: newRoster(id),
	}
	if len(o.Keys) > 0 {
		var err error
		if s.keys, err = memberlist.NewKeyring(o.Keys, o.Keys[0]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Offer implements limiter.Sharer. It shares only settled charges. For others, it does nothing and returns
// true.
func (s *Sharer) Offer(c limiter.Charge) bool {
	if c.Event != limiter.Settled || c.Cost <= 0 {
		return true
	}
	return s.outbox.Offer(c)
}

// Run implements limiter.Sharer. If the sink is also a Ledger, instances that join receive the debts of keys.
// Run returns an error if it can't listen on the address.
func (s *Sharer) Run(ctx context.Context, in limiter.Sink) error {
	s.mu.Lock()
	s.replica, s.sink = NewReplica(s.id, in), in
	s.mu.Unlock()
	ledger, _ := in.(Ledger)
	c, err := s.config(delegate{s, ledger})
	if err != nil {
		return err
	}
	list, err := memberlist.Create(c)
	if err != nil {
		return err
	}
	s.list = list
	var seeker sync.WaitGroup
	seeker.Go(func() { s.seek(ctx) })
	s.serve(ctx)
	seeker.Wait()
	in.SetInstances(time.Now(), 1) // this instance is alone again
	return s.stop()
}

// serve is the goroutine that drives the replica.
func (s *Sharer) serve(ctx context.Context) {
	quarter := time.NewTicker(epoch / 4)
	defer quarter.Stop()
	for n := 1; ; {
		select {
		case <-ctx.Done():
			if !s.o.kill {
				s.tick()
			}
			return
		case <-s.roster.changed:
			s.setMembers()
		case m := <-s.inbox:
			s.receive(m)
		case p := <-s.Packets:
			s.send(append([]byte{version, byte(kindPacket)}, p...))
		case <-quarter.C:
			if n++; n%4 == 0 {
				s.tick()
			} else {
				s.mu.Lock()
				s.collectLocked(time.Now())
				s.mu.Unlock()
			}
		}
	}
}

// collectLocked moves offered charges into the replica.
func (s *Sharer) collectLocked(now time.Time) {
	s.outbox.Drain(func(c limiter.Charge) { s.replica.Charge(now, c) })
}

// setMembers passes the members of the roster to the replica.
func (s *Sharer) setMembers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.SetMembers(time.Now(), slices.Collect(maps.Keys(s.roster.live())))
}

// tick sends the changed totals, in packets that may be lost. It never blocks.
func (s *Sharer) tick() {
	now := time.Now()
	s.mu.Lock()
	s.collectLocked(now)
	packets := s.replica.Tick(now)
	s.mu.Unlock()
	s.send(packets...)
}

// send sends packets to all live members.
func (s *Sharer) send(packets ...[]byte) {
	if len(packets) == 0 {
		return
	}
	for _, m := range s.roster.live() {
		for _, p := range packets {
			if s.list.SendBestEffort(m, p) != nil {
				s.away.Add(1)
			}
		}
	}
}

func (s *Sharer) receive(m []byte) {
	if len(m) > 2 && m[0] == version && kind(m[1]) == kindPacket {
		s.sink.Learn(time.Now(), m[2:])
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.Received(time.Now(), m)
}

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State returns a snapshot of the Sharer's state.
func (s *Sharer) State() State {
	live := s.roster.live()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{Name: s.o.name, Sidecars: 1}
	state.LastError, _ = s.failed.Load().(string)
	if s.replica != nil {
		s.replica.describe(&state, live)
	}
	state.Counts.Dropped += s.outbox.Dropped() + s.overrun.Load()
	state.Counts.Unsendable = s.away.Load()
	return state
}

// Ledger gives access to the debts of keys; *limiter.Limiter implements it. Without a Ledger, a Sharer can't
// send debts to nodes that join.
type Ledger interface {
	Classes() []limiter.ClassInfo
	Dump(now time.Time, class string, yield func(limiter.Row) bool)
}

// debtsOf lists the keys in debt, except those of LocalOnly classes. The debts include the guesses for requests
// that are still running. The costs of these requests are sent again when they end, so a node that joins may
// count them twice.
func debtsOf(now time.Time, l Ledger) (list []debt) {
	for _, c := range l.Classes() {
		if c.Budget.External || c.Budget.CPUs <= 0 || c.Budget.LocalOnly || len(c.Name) > maxClass {
			continue
		}
		l.Dump(now, c.Name, func(r limiter.Row) bool {
			owes := time.Duration(min(-r.Level/c.Budget.CPUs, maxCost.Seconds()) * float64(time.Second))
			if owes >= time.Millisecond && len(r.ID) <= maxID {
				list = append(list, debt{limiter.Key{Class: r.Class, ID: r.ID}, owes})
			}
			return len(list) < maxKeys
		})
	}
	return list
}

// delegate implements memberlist's callbacks for a Sharer.
type delegate struct {
	*Sharer
	ledger Ledger // nil: the sink isn't a Ledger
}

var _ memberlist.Delegate = delegate{}

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte { return appendMeta(nil, d.id) }

// GetBroadcasts implements memberlist.Delegate. It returns nil, because totals go to all members directly.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// NotifyMsg implements memberlist.Delegate. It never blocks. Both the number and the size of waiting messages
// are limited.
func (d delegate) NotifyMsg(b []byte) {
	if len(b) <= maxPacket {
		select {
		case d.inbox <- bytes.Clone(b):
			return
		default:
		}
	}
	d.overrun.Add(1)
}

// LocalState implements memberlist.Delegate. It reads the debts before the totals. A charge made in between is
// then missing from the debts. In the opposite order, the charge would count twice.
func (d delegate) LocalState(bool) []byte {
	if d.ledger == nil {
		return nil
	}
	now := time.Now()
	debts := debtsOf(now, d.ledger)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.collectLocked(now)
	return d.replica.state(debts)
}

// MergeRemoteState implements memberlist.Delegate. A joining node is already in the roster when its state
// arrives, but serve may not have passed the roster to the replica yet.
func (d delegate) MergeRemoteState(b []byte, _ bool) {
	d.setMembers()
	d.receive(b)
}

// Options define how a Sharer listens and finds its peers. Only Listen is required.
type Options struct {
	// Listen is the address, host:port, for both UDP and TCP.
	Listen string
	// Advertise is the address at which peers reach this instance, if it differs from Listen. If Advertise is
	// set, it is also the instance's name. Otherwise, the name consists of the host name and the port.
	Advertise string
	// Join lists addresses of peers, host:port. One live peer is enough. A host may be a DNS name with several
	// addresses. The Sharer tries the addresses until they are members, and tries them again after a split.
	Join []string
	// Keys are AES keys of 16, 24 or 32 bytes. The first key encrypts, and all keys decrypt. Without keys,
	// anyone who can reach the port can read messages and forge debts.
	Keys [][]byte
	// Logf receives membership problems; it may be nil.
	Logf func(format string, arguments ...any)

	name string                                        // the instance's name among the members
	plug func() (memberlist.NodeAwareTransport, error) // in tests: a network that can be cut
	kill bool                                          // in tests: stop without informing the peers
}

// complete returns the options with the name set.
func (o Options) complete() Options {
	host, port := splitAddress(o.Listen)
	if name, err := os.Hostname(); err == nil {
		host = name
	}
	o.name = cmp.Or(o.Advertise, net.JoinHostPort(host, strconv.Itoa(port)))
	return o
}

// splitAddress splits an address that was validated with the configuration.
func splitAddress(s string) (host string, port int) {
	host, number, _ := net.SplitHostPort(s)
	port, _ = strconv.Atoi(number)
	return host, port
}

var errKeys = errors.New("encryption can't be turned on or off while the program runs")

// Counts are totals since the start, except Waiting.
type Counts struct {
	Sent     uint64 `json:"sent"`     // bytes of messages, each counted for each receiver, before encryption
	Received uint64 `json:"received"` // bytes of messages, after decryption

	Learned uint64 `json:"learned"` // states from which debts were learned

	Malformed uint64 `json:"malformed"` // invalid messages, or messages of a different version
	Strangers uint64 `json:"strangers"` // messages from nodes that aren't members

	Waiting    int    `json:"waiting"`    // keys whose charges are waiting to be sent
	Dropped    uint64 `json:"dropped"`    // charges, totals and messages for which there was no room, or that waited too long
	Unsendable uint64 `json:"unsendable"` // messages that couldn't be sent
}

// PeerState is the state of a peer, as shown by the doctor.
type PeerState struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Heard   bool   `json:"heard"`   // a message from the peer has arrived since the nodes met
	Learned bool   `json:"learned"` // the debts that the peer knew when the nodes met have arrived
}

// State is the state of a Sharer, as shown by the doctor.
type State struct {
	Name     string      `json:"name"`
	Sidecars int         `json:"sidecars"` // live instances, including this one
	Peers    []PeerState `json:"peers"`
	Counts   Counts      `json:"counts"`

	LastError string `json:"lastError,omitempty"` // why a host can't be reached; empty: all can
}

// status converts the State to the form that all Sharers have in common.
func (s State) status() limiter.SharingStatus {
	c := s.Counts
	return limiter.SharingStatus{
		Up:    map[string]bool{"other sidecars": s.Sidecars > 1},
		Peers: max(0, s.Sidecars-1),
		Sent:  c.Sent, Received: c.Received, Dropped: c.Dropped, Failed: c.Unsendable, Unsound: c.Malformed,
		Detail: s,
	}
}

// describe fills in the replica's part of the state.
func (b *Replica) describe(s *State, roster map[Node]*memberlist.Node) {
	s.Sidecars, s.Counts = len(b.live)+1, b.counts
	for _, id := range slices.SortedFunc(maps.Keys(roster), func(a, b Node) int { return strings.Compare(roster[a].Name, roster[b].Name) }) {
		if p := b.peers[id]; p != nil && p.alive {
			s.Peers = append(s.Peers, PeerState{Name: roster[id].Name, Address: roster[id].Address(), Heard: p.met, Learned: !p.strange})
		}
	}
}
