package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"

	"tempomat/proxy/front"
	"tempomat/proxy/http1"
)

// Entrance is a listener, and how its connections begin.
type Entrance struct {
	net.Listener
	TLS      *tls.Config // nil: they are in the clear
	Proxied  bool        // by a header of the PROXY protocol, of a trusted proxy
	Redirect bool        // requests are sent to the same URL over HTTPS
}

// begins is what the server's side has to know of it.
func (s *Server) begins(e Entrance) front.Entrance {
	f := front.Entrance{TLS: e.TLS, Proxied: e.Proxied}
	switch {
	case e.Redirect:
		f.Handler = s.challenged(redirector{next: s.handler})
	case e.TLS == nil && s.challenges != nil:
		f.Handler = s.challenged(s.handler)
	}
	return f
}

// challenged has the challenges of a certificate authority answered before a handler.
func (s *Server) challenged(h http.Handler) http.Handler {
	if s.challenges == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isChallenge(r) || !s.challenges(w, r) {
			h.ServeHTTP(w, r)
		}
	})
}

// longestToken is how many letters a challenge's token has at most; those of today have 43.
const longestToken = 128

// isChallenge tells whether a certificate authority asks (RFC 8555, 8.3). Its token has no
// letter that could lead the backend to another place, which nobody is to see in the clear.
func isChallenge(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.URL.Path, "/.well-known/acme-challenge/")
	if !ok || token == "" || len(token) > longestToken {
		return false
	}
	for _, c := range []byte(token) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// redirector sends requests to the same URL over HTTPS, but those of a certificate authority:
// programs beside the backend answer these, such as certbot with --webroot. Who came by HTTPS,
// as a header of the PROXY protocol tells, would be sent in a circle.
type redirector struct{ next http.Handler }

func (d redirector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil || isChallenge(r) {
		d.next.ServeHTTP(w, r)
		return
	}
	host := http1.HostName(r.Host)
	target := r.URL.RequestURI()
	if host == "" || !strings.HasPrefix(target, "/") || r.Method == http.MethodConnect {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "this address is for requests of a host over HTTPS", http.StatusBadRequest)
		return
	}
	status := http.StatusPermanentRedirect // the method and the body are to be the same
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = http.StatusMovedPermanently
	}
	w.Header().Set("Location", "https://"+host+target)
	w.WriteHeader(status)
}
