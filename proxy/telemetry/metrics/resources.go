package metrics

// resources are the lines of what the proxy itself uses, and of its configuration.
func resources() []Metric {
	return []Metric{
		level("held_requests", "held", "Requests that are held at this moment, for debt or at the gate.", func(s *State) int { return s.Held }),
		level("keys", "keys", "Keys that are remembered.", func(s *State) int { return s.Keys }),
		gauge("buffer_memory_bytes", "bufferMemory", "Memory in which bodies wait.", func(s *State) float64 { return float64(s.Buffer.Memory) }),
		gauge("buffer_disk_bytes", "bufferDisk", "Files in which bodies wait.", func(s *State) float64 { return float64(s.Buffer.Disk) }),
		gauge("buffer_files", "bufferFiles", "Files that are open for it.", func(s *State) float64 { return float64(s.Buffer.Files) }),
		gauge("buffer_bodies", "bufferBodies", "Bodies that wait.", func(s *State) float64 { return float64(s.Buffer.Spools) }),
		counts("buffer_no_room_total", "bufferNoRoom", "Times that there was no room for a body, by where.", func(s *State, tell tell) {
			tell(float64(s.Buffer.NoMemory), "memory")
			tell(float64(s.Buffer.NoDisk), "disk")
			tell(float64(s.Buffer.NoAddress), "address")
		}, "where"),
		count("buffer_errors_total", "bufferErrors", "Files that could not be made or written.", func(s *State) uint64 { return s.Buffer.Errors }),
		level("connections", "connections", "Connections of clients.", func(s *State) int { return s.Connections.Open }),
		level("connections_most", "connectionsMost", "Most connections of clients.", func(s *State) int { return s.Connections.Most }),
		level("connections_addresses", "connectionsAddresses", "Addresses that have one or more.", func(s *State) int { return s.Connections.Addresses }),
		count("connections_shed_total", "connectionsShed", "Connections that were closed for others.", func(s *State) uint64 { return s.Connections.Shed }),
		count("connections_refused_total", "connectionsRefused", "Connections that were closed at once.", func(s *State) uint64 { return s.Connections.Refused }),
		count("reloads_total", "reloads", "Configurations that were put in force by a reload.", func(s *State) uint64 { return s.Reloads }),
		count("reloads_rejected_total", "reloadsRejected", "Configurations that were rejected.", func(s *State) uint64 { return s.Rejected }),
		gauge("reload_ok", "reloadOK", "1, or 0 if the last reload was rejected.", func(s *State) float64 { return truth(s.ReloadOK) }),
		count("log_lines_lost_total", "logLinesLost", "Lines of the log that were lost: it could not be written, or what reads it was too slow.", func(s *State) uint64 { return s.LostLines }),
		gauges("mode", "", "1; the labels tell throttle.mode, and whether all is only judged (throttle.shadow: true).", func(s *State, tell tell) {
			shadow := "false"
			if s.Shadow {
				shadow = "true"
			}
			tell(1, s.Mode, shadow)
		}, "mode", "shadow"),
		gauges("build_info", "", "1; the label tells the release.", func(s *State, tell tell) { tell(1, s.Release) }, "version"),
	}
}

// secure are the lines of TLS and of the PROXY protocol.
func secure() []Metric {
	results := func(of func(*ConnStats) map[string]uint64) func(*State, tell) {
		return func(s *State, tell tell) {
			for result, n := range of(&s.ConnStats) {
				tell(float64(n), result)
			}
		}
	}
	return []Metric{
		counts("tls_handshakes_total", "tlsHandshakes", "Handshakes of TLS, by how they went.",
			results(func(b *ConnStats) map[string]uint64 { return b.Handshakes }), "result"),
		counts("proxy_headers_total", "proxyHeaders", "Connections to addresses with the PROXY protocol, by how they began.",
			results(func(b *ConnStats) map[string]uint64 { return b.Proxied }), "result"),
		gauges("tls_certificate_expiry_seconds", "", "When a certificate expires, in seconds since 1970; the label is its file, or the name for which it was got.", func(s *State, tell tell) {
			for _, c := range s.Certificates {
				if !c.Expires.IsZero() {
					tell(float64(c.Expires.Unix()), c.File)
				}
			}
		}, "certificate"),
		gauges("tls_certificate_ok", "", "1, or 0 if what the file has now cannot be used: the certificate before stays in force.", func(s *State, tell tell) {
			for _, c := range s.Certificates {
				tell(truth(c.OK), c.File)
			}
		}, "certificate"),
	}
}

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
