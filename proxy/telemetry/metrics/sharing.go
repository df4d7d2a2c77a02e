package metrics

// sharing are the lines of those with whom accounts are shared. Without sharing there are
// none.
func sharing() []Metric {
	number := func(get func(*Sharing) float64) func(*State, tell) {
		return func(s *State, tell tell) {
			if s.Sharing.Kind != "none" {
				tell(get(&s.Sharing), s.Sharing.Kind)
			}
		}
	}
	total := func(name, series, help string, get func(*Sharing) uint64) Metric {
		return counts(name, series, help, number(func(s *Sharing) float64 { return float64(get(s)) }), "kind")
	}
	level := func(name, series, help string, get func(*Sharing) int) Metric {
		return gauges(name, series, help, number(func(s *Sharing) float64 { return float64(get(s)) }), "kind")
	}
	return []Metric{
		gauges("sharing_up", "sharingUp", "1 if what sharing depends on is there, else 0: masters, Redis, other proxies.", func(s *State, tell tell) {
			for name, up := range s.Sharing.Up {
				tell(truth(up), name)
			}
		}, "with"),
		level("sharing_peers", "sharingPeers", "Other proxies that are live (gossip).", func(s *Sharing) int { return s.Peers }),
		total("sharing_sent_total", "sharingSent", "Messages (gossip: bytes, Redis: calls) that were sent.", func(s *Sharing) uint64 { return s.Sent }),
		total("sharing_received_total", "sharingReceived", "Orders of masters, bytes of peers, keys found to owe in Redis.", func(s *Sharing) uint64 { return s.Received }),
		total("sharing_dropped_total", "sharingDropped", "Charges that others were never told of.", func(s *Sharing) uint64 { return s.Dropped }),
		total("sharing_failed_total", "sharingFailed", "Calls and messages that failed.", func(s *Sharing) uint64 { return s.Failed }),
		total("sharing_unsound_total", "sharingUnsound", "Messages that were not sound.", func(s *Sharing) uint64 { return s.Unsound }),
	}
}
