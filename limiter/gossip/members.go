package gossip

import (
	"slices"
	"time"
)

// setMembers says who the live members are now, this node left out.
func (b *replica) setMembers(now time.Time, members []node) {
	b.live, b.turns = slices.Sorted(slices.Values(members)), nil
	for id, p := range b.peers {
		if p.alive && !slices.Contains(b.live, id) {
			p.alive, p.left = false, now
		}
	}
	for _, id := range b.live {
		p, known := b.peers[id]
		if !known {
			p = &peer{}
			b.peers[id] = p
		}
		if p.alive {
			continue
		}
		if p.alive = true; !known {
			p.since = now.UnixMilli() // what was before, a summary tells
			if !b.learned {
				b.askAmong = append(b.askAmong, id)
			}
		}
	}
	b.forgetPeers(now)
	b.sink.SetReplicas(now, len(b.live)+1)
}

// heard notes that something came from a node, if only by way of others. If there
// had been nothing for clearly longer than the history, it does not count what the node
// charged meanwhile: that was on another side of a split. But it may know debts.
func (b *replica) heard(now time.Time, id node, p *peer) {
	// Each is sent a digest once in as many epochs as there are members.
	silence := b.history + 4*time.Duration(len(b.live))*b.epoch
	if !p.heard.IsZero() && now.Sub(p.heard) > silence {
		p.since = now.UnixMilli()
		b.askAmong = append(b.askAmong, id)
	}
	p.heard = now
}

// rememberPeers is how many that are gone are remembered at most, and for how long.
const (
	rememberPeers = 256
	rememberFor   = 24 * time.Hour
)

func (b *replica) forgetPeers(now time.Time) {
	for id, p := range b.peers {
		if !p.alive && (now.Sub(p.left) > rememberFor || len(b.peers)-len(b.live) > rememberPeers) {
			delete(b.peers, id)
		}
	}
}
