package config

import (
	"net"
	"net/netip"
	"net/url"

	"tempomat/config/form"
)

// validate checks what no single key can: what keys mean together. It also
// settles what follows from several of them.
func validate(r *form.Reader, d *draft) {
	if _, given := r.Given["table.size"]; d.hashMaxLen > 0 && !given {
		d.Table.Size = d.tableSize()
	}
	validateClasses(r, d)
	validateListen(r, d)
	validateErrorPages(r, d)
	validateTLS(r, d)
	validateAdminWeb(r, d)
	validateCoordination(r, d)
	validateLimits(r, d)
	validateRedis(r, d)
}

// isItself is true if a request to the backend would arrive at the listener.
// Only what can be told without asking the system counts.
func isItself(listen, backend string) bool {
	if listen == backend {
		return true // a unix socket
	}
	u, err := url.Parse(backend)
	if err != nil || u.Host == "" {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host, listenPort, err := net.SplitHostPort(listen)
	if err != nil || listenPort != port {
		return false
	}
	return host == u.Hostname() || isLocal(u.Hostname()) && (host == "" || isLocal(host))
}

func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost"
	}
	return addr.IsLoopback() || addr.IsUnspecified()
}
