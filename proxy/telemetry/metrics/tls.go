package metrics

import "time"

// Beginnings is how connections have begun, before their first request: how many of each
// result. Without such listeners they are nil.
type Beginnings struct{ Handshakes, Proxied map[string]uint64 }

// Certificate is one that clients are shown.
type Certificate struct {
	File    string    // as the configuration names it, or a name that it was got for
	Expires time.Time // zero: it was never read
	OK      bool      // what the file has now is in force
}

// secure are the lines of TLS and of the PROXY protocol.
func secure() []Metric {
	results := func(of func(*Beginnings) map[string]uint64) func(*State, tell) {
		return func(s *State, tell tell) {
			for result, n := range of(&s.Beginnings) {
				tell(float64(n), result)
			}
		}
	}
	return []Metric{
		counts("tls_handshakes_total", "tlsHandshakes", "Handshakes of TLS, by how they went.",
			results(func(b *Beginnings) map[string]uint64 { return b.Handshakes }), "result"),
		counts("proxy_headers_total", "proxyHeaders", "Connections to addresses with the PROXY protocol, by how they began.",
			results(func(b *Beginnings) map[string]uint64 { return b.Proxied }), "result"),
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
