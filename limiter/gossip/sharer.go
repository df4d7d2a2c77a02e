package gossip

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
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

// Bounds of what waits: charges for the next quarter of an epoch, and messages.
const (
	outboxCharges = 1 << 14
	inboxMessages = 1 << 10
	inboxBytes    = 16 << 20
)

// Sharer shares charges with peers that it finds automatically. All its methods may be called
// concurrently, except Run, which is called once.
type Sharer struct {
	limiter.Packets
	o      Options
	id     Node
	outbox *limiter.Outbox
	inbox  chan []byte
	roster *roster
	keys   *memberlist.Keyring // nil: nothing is encrypted

	waiting atomic.Int64  // bytes in the inbox
	overrun atomic.Uint64 // messages that there was no room for
	away    atomic.Uint64 // messages that could not be sent
	foreign atomic.Int64  // when something came that was encrypted with another key, Unix seconds
	setKeys sync.Mutex

	list    *memberlist.Memberlist // of Run
	mu      sync.Mutex             // guards the following
	replica *Replica               // nil before Run
}

var _ limiter.Sharer = (*Sharer)(nil)

// New makes a Sharer; it opens nothing. Its error is of the options.
func New(o Options) (*Sharer, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // never fails
	id := Node(binary.BigEndian.Uint64(drawn[:]))
	s := &Sharer{
		Packets: limiter.NewPackets(), o: o, id: id, outbox: limiter.NewOutbox(outboxCharges),
		inbox: make(chan []byte, inboxMessages), roster: newRoster(id),
	}
	if len(o.Keys) > 0 {
		if s.keys, err = memberlist.NewKeyring(o.Keys, o.Keys[0]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Offer implements limiter.Sharer. Only what was spent is told, and true is
// returned of the rest.
func (s *Sharer) Offer(c limiter.Charge) bool {
	if c.Event != limiter.Settled || c.Cost <= 0 {
		return true
	}
	return s.outbox.Offer(c)
}

// Run implements limiter.Sharer. If the sink is a Ledger as well, newcomers are
// told what keys owe. Its error is that the address can not be listened at.
func (s *Sharer) Run(ctx context.Context, in limiter.Sink) error {
	s.mu.Lock()
	s.replica = NewReplica(s.id, in)
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
	s.serve(ctx, in)
	seeker.Wait()
	in.SetReplicas(time.Now(), 1) // alone again
	return s.stop()
}

// serve is the one goroutine that keeps the replica.
func (s *Sharer) serve(ctx context.Context, in limiter.Sink) {
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
			s.receive(m, in)
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

// collectLocked takes what was offered into the replica.
func (s *Sharer) collectLocked(now time.Time) {
	s.outbox.Drain(func(c limiter.Charge) { s.replica.Charge(now, c) })
}

func (s *Sharer) setMembers() {
	live := s.roster.live()
	ids := make([]Node, 0, len(live))
	for id := range live {
		ids = append(ids, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.SetMembers(time.Now(), ids)
}

// tick sends what has changed, in packets that may get lost. It never waits.
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
			if s.list.SendBestEffort(m.to, p) != nil {
				s.away.Add(1)
			}
		}
	}
}

func (s *Sharer) receive(m []byte, in limiter.Sink) {
	s.waiting.Add(-int64(len(m)))
	if len(m) > 2 && m[0] == version && kind(m[1]) == kindPacket {
		in.Learn(time.Now(), m[2:])
		return
	}
	select {
	case <-s.roster.changed: // a joining node is a member before its state arrives
		s.setMembers()
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.Received(time.Now(), m)
}

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State is its state.
func (s *Sharer) State() State {
	live := s.roster.live()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{Name: s.o.name, Sidecars: 1}
	if s.replica != nil {
		s.replica.describe(&state, live)
	}
	state.Counts.Dropped += s.outbox.Dropped()
	state.Counts.Overrun = s.overrun.Load()
	state.Counts.Unsendable = s.away.Load()
	return state
}

// Ledger has the debts of keys. *limiter.Limiter is one. Without it, a sharer can't send debts
// to nodes that join.
type Ledger interface {
	Classes() []limiter.ClassInfo
	Dump(now time.Time, class string, yield func(limiter.Row) bool)
}

// debtsOf lists who owes, except for private classes. The guesses that requests which
// still run were charged with are among it, and what those cost is told again when
// they are done: a newcomer may count that twice, of the few requests that run at
// that moment.
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

// delegate is what memberlist asks and tells.
type delegate struct {
	*Sharer
	ledger Ledger // nil: there is none
}

var _ memberlist.Delegate = delegate{}

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte { return appendMeta(nil, d.id) }

// GetBroadcasts implements memberlist.Delegate. Totals go straight to all.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// NotifyMsg implements memberlist.Delegate. It never blocks, and what waits to be
// read is bounded by number and size.
func (d delegate) NotifyMsg(b []byte) {
	size := int64(len(b))
	if size <= maxState && d.waiting.Add(size) <= inboxBytes {
		select {
		case d.inbox <- bytes.Clone(b):
			return
		default:
		}
	}
	if size <= maxState {
		d.waiting.Add(-size)
	}
	d.overrun.Add(1)
}

// LocalState implements memberlist.Delegate. The debts are read before the totals, so
// that no total is charged again that is not among those told with them.
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

// MergeRemoteState implements memberlist.Delegate.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.NotifyMsg(b) }

// Options say how a Sharer finds its peers. The zero value of all but Listen is a
// good one.
type Options struct {
	// Listen is the address, host:port, for both UDP and TCP.
	Listen string
	// Advertise is the address at which peers reach it, if that is another one. It then
	// identifies the sidecar; otherwise the host's name and the port do.
	Advertise string
	// Join are addresses of peers, host:port; one that is alive is enough. A host may be a DNS
	// name of several addresses. They are tried again until they are members, so a fleet that
	// was split reunites.
	Join []string
	// Keys encrypt what is sent, by AES: 16, 24 or 32 bytes each. The first one
	// encrypts, each of them decrypts. Without any, whoever reaches the port may
	// read, and invent debts.
	Keys [][]byte
	// Logf is called with faults of the membership; it may be nil.
	Logf func(format string, arguments ...any)

	name string                                        // its name among members
	plug func() (memberlist.NodeAwareTransport, error) // in tests: a network that can be cut
	kill bool                                          // in tests: end without a word
}

// complete finds the name, and says what can not be.
func (o Options) complete() (Options, error) {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return o, fmt.Errorf("listen: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		name = host
	}
	o.name = net.JoinHostPort(name, strconv.Itoa(port))
	if o.Advertise != "" {
		if _, _, err := splitAddress(o.Advertise); err != nil {
			return o, fmt.Errorf("advertise: %w", err)
		}
		o.name = o.Advertise
	}
	return o, nil
}

func splitAddress(s string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, err
	}
	p, err := strconv.ParseUint(number, 10, 16)
	if err != nil || p == 0 {
		return "", 0, fmt.Errorf("%q is no port", number)
	}
	return host, int(p), nil
}

var errKeys = errors.New("encryption is on from the start, with at least one key, or never")

// Counts are numbers since the start, except for Waiting.
type Counts struct {
	Sent     uint64 `json:"sent"`     // bytes of messages, each counted for each receiver, before encryption
	Received uint64 `json:"received"` // the same

	Applied  uint64 `json:"applied"`  // totals of peers that led to a charge
	Repeated uint64 `json:"repeated"` // totals that were known
	Learned  uint64 `json:"learned"`  // states that brought debts

	Malformed uint64 `json:"malformed"` // messages that are not of this version
	Strangers uint64 `json:"strangers"` // messages of nodes that are no members

	Waiting    int    `json:"waiting"`    // keys whose charges wait for their turn now
	Dropped    uint64 `json:"dropped"`    // charges and totals without room, or that waited too long
	Overrun    uint64 `json:"overrun"`    // messages that came faster than they could be read
	Unsendable uint64 `json:"unsendable"` // messages that could not be sent
}

// PeerState is what is known of a peer.
type PeerState struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Heard   bool   `json:"heard"`   // something has come from it since it was met
	Learned bool   `json:"learned"` // the debts are known that it knew as it was met
}

// State is what the doctor shows of a Sharer.
type State struct {
	Name     string      `json:"name"`
	Sidecars int         `json:"sidecars"` // that are live, this one included
	Peers    []PeerState `json:"peers"`
	Counts   Counts      `json:"counts"`
}

// status is a State in the words of all Sharers.
func (s State) status() limiter.SharingStatus {
	c := s.Counts
	return limiter.SharingStatus{
		Up:    map[string]bool{"other sidecars": s.Sidecars > 1},
		Peers: max(0, s.Sidecars-1),
		Sent:  c.Sent, Received: c.Received, Dropped: c.Dropped, Failed: c.Unsendable, Unsound: c.Malformed,
		Detail: s,
	}
}

// describe fills in what a replica knows.
func (b *Replica) describe(s *State, roster map[Node]member) {
	s.Sidecars, s.Counts = len(b.live)+1, b.counts
	for _, id := range slices.SortedFunc(maps.Keys(roster), func(a, b Node) int { return strings.Compare(roster[a].name, roster[b].name) }) {
		if p := b.peers[id]; p != nil && p.alive {
			s.Peers = append(s.Peers, PeerState{Name: roster[id].name, Address: roster[id].address, Heard: p.met, Learned: !p.strange})
		}
	}
}
