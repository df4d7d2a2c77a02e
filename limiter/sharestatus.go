package limiter

// SharingStatus is how sharing goes, in words that all Sharers have in common: metrics,
// the log and the doctor go by it. Totals are since the Sharer was made, and zero where it
// has none such.
type SharingStatus struct {
	Up       map[string]bool // what it depends on, by name, and whether it is there
	Peers    int             // other proxies that are live
	Ignored  int             // of these, those whose clocks are too far off
	Sent     uint64          // messages, or bytes, or calls: what the Sharer sends
	Received uint64          // what it learns by: orders, or bytes, or keys that were found to owe
	Dropped  uint64          // charges that others were never told of
	Failed   uint64          // calls and messages that failed
	Unsound  uint64          // messages that were not sound
	Detail   any             // the Sharer's own state, as the doctor shows it: a document of JSON
}
