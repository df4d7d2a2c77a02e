// Package gossip shares limits among sidecars with no server at all. Each tells
// its peers what it charged, they take it off their own buckets, and so all of
// them together let through what one alone would.
//
// # Epochs
//
// A sidecar adds up what it charged each key for an epoch, 100 ms unless
// configured otherwise, aligned to the wall clock. When the epoch ends its totals
// are committed: packed into parcels of at most [maxParcel] bytes, numbered, and
// sent to the peers, who charge them to their own buckets, which may go negative.
// Who runs over within an epoch pays with a longer wait: bursts can be steeper
// than configured, the long-run rate is not. Each sidecar saves up a burst
// divided by the number of live ones.
//
// A parcel never changes once it is committed, and is known by who committed it
// and its number. To merge is to unite sets of parcels: it does not matter in
// which order they come, how often, or by way of whom, and each is charged once.
//
// # Push and pull
//
// Beside its new parcels, each sidecar sends one peer after the other a digest of
// what it has, one each epoch. The peer sends what is lacking, and answers with its own
// digest if it lacks something itself. So what the network lost, or what came to
// one peer only, reaches everybody an epoch or two later. Parcels are kept for a
// bounded history, 64 epochs; what is older is not charged any more.
//
// # Who was away
//
// Who starts, or has not seen a peer for longer than the history, does not get
// the past as parcels: each side of a split served at the limit, as each knew how
// many it was, and to bill each other for that would stop them both. It asks for
// a summary instead: until when which keys owe, and which parcels that includes.
// Debts are then raised to that, which is no sum and so counts nothing twice, and
// the parcels that are included are not charged any more.
//
// # Clocks
//
// Every message says when it was sent. The least of what a peer's messages seem to
// have taken lately is how far its clock is off, but for the fastest transit. More
// than an epoch is compensated for. Beyond a configured bound the peer's figures
// are ignored, and [State] says so.
//
// # What is where
//
// The [replica] is the whole protocol as a state machine that is told the time and
// returns what is to be sent; tests play it on a lossy network in virtual time.
// The [Sharer] connects it to memberlist, which finds the peers, tells who is
// alive, and carries and encrypts the messages.
package gossip
