package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// validate checks what no single key can: what keys mean together. It also
// settles what follows from several of them.
func (r *reader) validate(d *draft) {
	if _, given := r.given["table.size"]; d.hashMaxLen > 0 && !given {
		d.Table.Size = d.tableSize()
	}
	r.validateClasses(d)
	r.validateListen(d)
	r.validateAdminWeb(d)
	r.validateCoordination(d)
	r.validateLimits(d)
	r.validateRedis(d)
}

func (r *reader) validateClasses(d *draft) {
	on := 0
	for _, c := range d.classes {
		if c.off {
			continue
		}
		if on++; on == MaxClasses+1 {
			r.fault(c.at, "", fmt.Sprintf("is one class too many; at most %d are allowed", MaxClasses))
		}
		if !c.own {
			continue
		}
		_, hasShare := r.given[classPath(c.Name)+".share"]
		_, hasHeader := r.given[classPath(c.Name)+".header"]
		hasPath := c.Path || r.faulty(classPath(c.Name)+".path")
		if !hasShare {
			r.fault(c.at, "", "has no share; a class of your own needs one")
		}
		if hasHeader == hasPath {
			r.fault(c.at, "", "must have exactly one of header and path: true")
		}
	}
}

func (r *reader) validateListen(d *draft) {
	if len(d.Listen) == 0 && !r.faulty("listen") {
		r.fault(r.given["listen"], "", `has no address; give at least one, such as ":8888"`)
	}
	for _, address := range d.Listen {
		if address == d.Admin.Listen {
			r.fault(r.given["admin.listen"], shown(address), "is already one of the addresses of listen")
		}
		if isItself(address, d.Backend.URL) {
			r.fault(r.backendSource(), shown(d.Backend.URL), fmt.Sprintf("is the proxy's own address (listen %s): requests would go in a circle", address))
		}
	}
}

// backendSource is where the backend or, failing that, the address that it
// collides with was given.
func (r *reader) backendSource() source {
	for _, path := range []string{"backend.url", "backend", "listen", "listenPort"} {
		if at, ok := r.given[path]; ok {
			return at
		}
	}
	return source{}
}

// faulty is true if a fault of that key or of a member of it is known already.
func (r *reader) faulty(path string) bool {
	at, given := r.given[path]
	if !given {
		return false
	}
	for _, f := range r.faults {
		if f.File == at.file && strings.HasPrefix(f.Key, at.key) {
			return true
		}
	}
	return false
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
