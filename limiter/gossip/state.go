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

	Applied   uint64 `json:"applied"`   // parcels of peers that were charged
	Late      uint64 `json:"late"`      // of these, those that came more than two epochs after theirs
	Repeated  uint64 `json:"repeated"`  // parcels that had been charged before
	TooLate   uint64 `json:"tooLate"`   // parcels and summaries from before the history, or before the peer and this node met
	Skewed    uint64 `json:"skewed"`    // parcels of peers whose clock is too far off
	Summaries uint64 `json:"summaries"` // that were learnt from

	Malformed uint64 `json:"malformed"` // messages and parcels that are not of this version
	Strangers uint64 `json:"strangers"` // messages and parcels of nodes that are no members

	Waiting    int    `json:"waiting"`    // keys whose charges wait for their turn now
	Unsent     uint64 `json:"unsent"`     // keys that had to wait for another epoch, each time
	Expired    uint64 `json:"expired"`    // keys whose charges waited for longer than the history and are not sent
	Withheld   uint64 `json:"withheld"`   // parcels that a peer lacked and the budget did not allow for
	Dropped    uint64 `json:"dropped"`    // charges for which there was no room
	Overrun    uint64 `json:"overrun"`    // messages that came faster than they could be read
	Unsendable uint64 `json:"unsendable"` // messages that could not be sent
}

// PeerState is what is known of a peer.
type PeerState struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Skew    float64 `json:"skew"`    // how far its clock is ahead of ours, less the transit, in seconds; negative: behind
	Ignored bool    `json:"ignored"` // as its clock is too far off
	Parcels uint64  `json:"parcels"` // that it has committed, as far as is known
}

// State is what the doctor shows of a Sharer.
type State struct {
	Name     string      `json:"name"`
	Sidecars int         `json:"sidecars"` // that are live, this one included
	Learned  bool        `json:"learned"`  // of the debts that there were before it started
	Peers    []PeerState `json:"peers"`
	// SentPerSecond and ReceivedPerSecond are bytes, over the last few seconds.
	SentPerSecond     float64 `json:"sentPerSecond"`
	ReceivedPerSecond float64 `json:"receivedPerSecond"`
	Counts            Counts  `json:"counts"`
}

// status is a State in the words of all Sharers.
func (s State) status() limiter.SharingStatus {
	c := s.Counts
	all := limiter.SharingStatus{
		Up:    map[string]bool{"other sidecars": s.Sidecars > 1},
		Peers: max(0, s.Sidecars-1),
		Sent:  c.Sent, Received: c.Received, Dropped: c.Dropped + c.Expired, Failed: c.Unsendable, Unsound: c.Malformed,
		Detail: s,
	}
	for _, p := range s.Peers {
		if p.Ignored {
			all.Ignored++
		}
	}
	return all
}

// describe fills in what a replica knows.
func (b *replica) describe(s *State, roster map[node]member) {
	s.Sidecars, s.Learned, s.Counts = len(b.live)+1, b.learned, b.counts
	s.Counts.Waiting = len(b.pending.totals)
	for _, id := range slices.SortedFunc(maps.Keys(roster), func(a, b node) int { return compareNames(roster[a], roster[b]) }) {
		p := b.peers[id]
		if p == nil || !p.alive {
			continue
		}
		s.Peers = append(s.Peers, PeerState{
			Name: roster[id].name, Address: roster[id].address,
			Skew: -p.skew.behind().Seconds(), Ignored: b.isSkewed(p), Parcels: p.high,
		})
	}
}
