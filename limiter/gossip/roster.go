package gossip

import (
	"cmp"
	"encoding/binary"
	"maps"
	"net"
	"strconv"
	"sync"

	"github.com/hashicorp/memberlist"
)

// member is a live node as memberlist knows it.
type member struct {
	name    string
	address string
	to      *memberlist.Node // a copy: memberlist changes its own
}

func compareNames(a, b member) int { return cmp.Compare(a.name, b.name) }

// roster keeps who is live, by what memberlist says of it. Its methods are called
// while memberlist holds a lock, so that they do nothing but note it.
type roster struct {
	self    node
	changed chan struct{}

	mu      sync.Mutex // guards the following
	members map[string]member
	ids     map[string]node
}

var _ memberlist.EventDelegate = (*roster)(nil)

func newRoster(self node) *roster {
	return &roster{
		self: self, changed: make(chan struct{}, 1),
		members: map[string]member{}, ids: map[string]node{},
	}
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
	r.members[n.Name], r.ids[n.Name] = member{n.Name, c.Address(), &c}, id
	r.mu.Unlock()
	r.notify()
}

// NotifyUpdate implements memberlist.EventDelegate.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.NotifyJoin(n) }

// NotifyLeave implements memberlist.EventDelegate.
func (r *roster) NotifyLeave(n *memberlist.Node) {
	r.mu.Lock()
	delete(r.members, n.Name)
	delete(r.ids, n.Name)
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
func (r *roster) live() map[node]member {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := make(map[node]member, len(r.members))
	for name, m := range r.members {
		live[r.ids[name]] = m
	}
	return live
}

// addresses returns where the members are.
func (r *roster) addresses() map[string]struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := make(map[string]struct{}, len(r.members))
	for m := range maps.Values(r.members) {
		set[m.address] = struct{}{}
	}
	return set
}

// What a node says of itself to memberlist: a version and who it is.
const metaVersion = 1

func appendMeta(b []byte, id node) []byte {
	return binary.BigEndian.AppendUint64(append(b, metaVersion), uint64(id))
}

func parseMeta(b []byte) (id node, ok bool) {
	if len(b) < 9 || b[0] != metaVersion {
		return 0, false
	}
	return node(binary.BigEndian.Uint64(b[1:])), true
}

// hostPort is an address with its host in the form that memberlist has it.
func hostPort(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
