package metrics

import "strconv"

// resources returns the metrics of the proxy's own resources and of its configuration.
func resources() []Metric {
	return []Metric{
		level("held_requests", "held", "Requests waiting now.", func(s *State) int { return s.Held }),
		level("keys", "keys", "Keys in memory.", func(s *State) int { return s.Keys }),
		gauge("buffer_memory_bytes", "bufferMemory", "Memory that buffered bodies use.", func(s *State) float64 { return float64(s.Buffer.Memory) }),
		gauge("buffer_disk_bytes", "bufferDisk", "Size of the files with buffered bodies.", func(s *State) float64 { return float64(s.Buffer.Disk) }),
		gauge("buffer_files", "bufferFiles", "Open files with buffered bodies.", func(s *State) float64 { return float64(s.Buffer.Files) }),
		gauge("buffer_bodies", "bufferBodies", "Buffered bodies.", func(s *State) float64 { return float64(s.Buffer.Spools) }),
		counts("buffer_no_room_total", "bufferNoRoom", "Bodies without room, by what was full: memory (then disk is used), disk (the sender waits) or the address's part.", func(s *State, tell tell) {
			tell(float64(s.Buffer.NoMemory), "memory")
			tell(float64(s.Buffer.NoDisk), "disk")
			tell(float64(s.Buffer.NoAddress), "address")
		}, "where"),
		count("buffer_errors_total", "bufferErrors", "Buffer files that couldn't be written.", func(s *State) uint64 { return s.Buffer.Errors }),
		level("connections", "connections", "Open client connections.", func(s *State) int { return s.Connections.Open }),
		level("connections_most", "connectionsMost", "Maximum number of client connections that may be open.", func(s *State) int { return s.Connections.Most }),
		level("connections_addresses", "connectionsAddresses", "Addresses with open connections.", func(s *State) int { return s.Connections.Addresses }),
		count("connections_shed_total", "connectionsShed", "Connections closed to make room for others.", func(s *State) uint64 { return s.Connections.Shed }),
		count("connections_refused_total", "connectionsRefused", "Connections closed right after they were opened.", func(s *State) uint64 { return s.Connections.Refused }),
		count("reloads_total", "reloads", "Successful reloads.", func(s *State) uint64 { return s.Reloads }),
		count("reloads_rejected_total", "reloadsRejected", "Rejected reloads.", func(s *State) uint64 { return s.Rejected }),
		gauge("reload_ok", "reloadOK", "0 if the last reload was rejected, otherwise 1.", func(s *State) float64 { return truth(s.ReloadOK) }),
		count("log_lines_lost_total", "logLinesLost", "Lost log lines.", func(s *State) uint64 { return s.LostLines }),
		gauges("mode", "", "Always 1; the labels show the mode.", func(s *State, tell tell) { tell(1, s.Mode, strconv.FormatBool(s.Shadow)) }, "mode", "shadow"),
		gauges("build_info", "", "Always 1; the label shows the release.", func(s *State, tell tell) { tell(1, s.Release) }, "version"),
	}
}

// secure returns the lines of TLS and of the PROXY protocol.
func secure() []Metric {
	results := func(of func(*ConnStats) map[string]uint64) func(*State, tell) {
		return func(s *State, tell tell) {
			for result, n := range of(&s.ConnStats) {
				tell(float64(n), result)
			}
		}
	}
	return []Metric{
		counts("tls_handshakes_total", "tlsHandshakes", "TLS handshakes, by result.",
			results(func(b *ConnStats) map[string]uint64 { return b.Handshakes }), "result"),
		counts("proxy_headers_total", "proxyHeaders", "Connections to addresses with proxyProtocol, by result.",
			results(func(b *ConnStats) map[string]uint64 { return b.Proxied }), "result"),
		gauges("tls_certificate_expiry_seconds", "", "Expiry of the certificate, in seconds since 1970.", func(s *State, tell tell) {
			for _, c := range s.Certificates {
				if !c.Expires.IsZero() {
					tell(float64(c.Expires.Unix()), c.File)
				}
			}
		}, "certificate"),
		gauges("tls_certificate_ok", "", "1 if the file is valid; 0 if not, and the previous certificate is used.", func(s *State, tell tell) {
			for _, c := range s.Certificates {
				tell(truth(c.Fault == ""), c.File)
			}
		}, "certificate"),
	}
}

// sharing returns the lines about other instances. Without sharing, the lines have no numbers.
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
		gauges("sharing_up", "sharingUp", "1 if the other side can be reached, otherwise 0.", func(s *State, tell tell) {
			for name, up := range s.Sharing.Up {
				tell(truth(up), name)
			}
		}, "with"),
		level("sharing_peers", "sharingPeers", "Live peers (gossip).", func(s *Sharing) int { return s.Peers }),
		gauges("sharing_other_secret", "sharingOtherSecret", "1 if another instance had a different coordination.secret in the last minute, otherwise 0.",
			number(func(s *Sharing) float64 { return truth(s.OtherSecret) }), "kind"),
		level("sharing_drift", "sharingDrift", "Differences between instances (release, mode, classes or clock) lasting at least half a minute.", func(s *Sharing) int { return s.Drift }),
		total("sharing_sent_total", "sharingSent", "Sent messages (Redis: calls; gossip: bytes).", func(s *Sharing) uint64 { return s.Sent }),
		total("sharing_received_total", "sharingReceived", "Received orders (Smockron), bytes (gossip) or keys in debt (Redis).", func(s *Sharing) uint64 { return s.Received }),
		total("sharing_dropped_total", "sharingDropped", "Charges that were not shared.", func(s *Sharing) uint64 { return s.Dropped }),
		total("sharing_failed_total", "sharingFailed", "Failed calls and messages.", func(s *Sharing) uint64 { return s.Failed }),
		total("sharing_unsound_total", "sharingUnsound", "Invalid messages.", func(s *Sharing) uint64 { return s.Unsound }),
	}
}
