// Package gossip shares limits among sidecars with no server at all. Each tells
// its peers what it charged, they take it off their own buckets, and so all of
// them together let through what one alone would.
//
// # Totals
//
// A sidecar adds up what it charges each key. A series of charges begins with the
// first one and has a number; after two minutes without a charge it is forgotten,
// and the next charge begins another one. Every 100 ms the sidecar tells all peers
// the totals that have changed, and the number of their series. A peer charges the
// difference to what it heard before, and never goes back. So it does not matter in
// which order totals come, how often, or which of them are lost: the next one heals
// it. The last one before a key falls silent is told once more, some epochs later.
//
// Buckets may go negative. A client that exceeds its limit within an epoch pays with a longer
// wait: bursts can be steeper than configured, the long-run rate is not. Each sidecar saves up
// a burst divided by the number of live ones.
//
// # Meeting
//
// Each side of a split serves at the limit, because each knows how many instances it has.
// Billing each other for that would stop them both. So a series that began before two sidecars
// met is not charged: its first total is where counting begins. Two that heard nothing of each
// other for some seconds meet again.
//
// What keys owe is told by memberlist's exchange of states, over TCP, when sidecars join and
// every ten seconds with one of them: debts, and the totals that they include. A sidecar that
// has met another one since raises its debts to those; because it doesn't add them, nothing
// counts twice.
//
// Clocks are never compared.
//
// # What is where
//
// The [Replica] is the whole protocol as a state machine that is told the time and
// returns what is to be sent; tests play it on a lossy network in virtual time.
// message.go is how it is written. The [Sharer] connects it to memberlist, which
// finds the peers, tells who is alive, and carries and encrypts the messages.
package gossip
