package proxy

import "time"

// Retire takes no further connection, as another process does, and has Drain, which is
// to follow, linger for as long as given. Serve does not fail by that.
func (s *Server) Retire(linger time.Duration) {
	s.closing.drains.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linger = linger
	for _, l := range s.listeners {
		_ = l.Close() // Drain says so if it cannot
	}
}
