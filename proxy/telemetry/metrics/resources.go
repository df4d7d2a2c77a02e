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
