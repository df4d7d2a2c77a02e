// Package gossip shares limits among instances without a server. Each instance sends its peers the amounts that
// it charged, and they charge their own buckets the same amounts. All instances together therefore admit as
// much as a single instance would.
//
// # Totals
//
// An instance adds up what it charges each key. The charges of a key form a numbered series. After 30 s without
// a charge, the series ends, and the next charge begins another one. Every 100 ms, the instance sends all peers
// the totals that have changed, with the numbers of their series. A peer charges the difference from the total
// that it received before, and ignores smaller totals. Messages may therefore arrive in any order, twice, or
// not at all, because the next total makes up for a lost one. Three seconds after the last total of a series,
// that total is sent again, in case it was lost.
//
// Buckets may go negative. If a client uses more than its limit before the instances have exchanged totals,
// it pays with a longer wait. Bursts can therefore exceed the configured limit, but the long-run rate can't.
// Each instance saves the burst divided by the number of live instances.
//
// # Splits and joins
//
// While a fleet is split, each part serves up to the full limit, because each instance divides the burst by the
// number of instances that it sees. If both parts charged each other afterwards for that time, clients would
// have to wait too long. For this reason, when two instances meet, neither charges for a series that the other
// began earlier; the first total received is only the base for later ones. Two instances that received nothing
// from each other for 6.4 s meet again in the same way.
//
// Debts are exchanged in states, by memberlist's push/pull over TCP: when an instance joins, and with a random
// member every ten seconds. A state contains debts, and the totals that the debts include. An instance that has
// met another one since it last received a state raises its own debts to the received ones. It never adds the
// two, so no charge counts twice.
//
// The clocks of two instances are never compared.
//
// # Files
//
// The [Replica] implements the whole protocol as a state machine. It gets the time as an argument and returns
// the packets to send, so tests can run it in virtual time. message.go defines the format of the messages. The
// [Sharer] connects the Replica to memberlist, which finds the peers, detects which ones are alive, and
// encrypts and sends the messages.
package gossip
