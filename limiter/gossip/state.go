package gossip

import (
	"maps"
	"slices"

	"tempomat/limiter"
)

// Counts are numbers since the start, but for Waiting.
type Counts struct {
	Sent     uint64 `json:"sent"`     // bytes of messages, each counted for each receiver, before encryption
	Received uint64 `json:"received"` // the same

	Applied  uint64 `json:"applied"`  // totals of peers of which something was charged
	Repeated uint64 `json:"repeated"` // totals that were known
	Learned  uint64 `json:"learned"`  // states from which debts were learnt

	Malformed uint64 `json:"malformed"` // messages that are not of this version
	Strangers uint64 `json:"strangers"` // messages of nodes that are no members

	Waiting    int    `json:"waiting"`    // keys whose charges wait for their turn now
	Dropped    uint64 `json:"dropped"`    // charges and totals for which there was no room, or that waited for too long
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
func (b *replica) describe(s *State, roster map[node]member) {
	s.Sidecars, s.Counts = len(b.live)+1, b.counts
	for _, id := range slices.SortedFunc(maps.Keys(roster), func(a, b node) int { return compareNames(roster[a], roster[b]) }) {
		if p := b.peers[id]; p != nil && p.alive {
			s.Peers = append(s.Peers, PeerState{Name: roster[id].name, Address: roster[id].address, Heard: p.met, Learned: !p.strange})
		}
	}
}
