package config

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// adminWeb takes an address of TCP, or off.
func adminWeb(p *string) scalar {
	return orOff(p, func(text string) error {
		return checkHostPort(text, 1, `must be "host:port", such as 127.0.0.1:8880, or off`)
	})
}

// hostNames takes names of machines, without a port. Addresses need not be named.
func hostNames(p *[]string) listOf {
	return listOf{
		max:   32,
		clear: func() { *p = nil },
		add: func(text string) error {
			_, err := netip.ParseAddr(text)
			if text == "" || err == nil || !validHost(text) || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") {
				return errors.New("must be a name without a port, such as status.example.org; addresses are always taken")
			}
			name := strings.ToLower(text)
			if slices.Contains(*p, name) {
				return errors.New("is given twice")
			}
			*p = append(*p, name)
			return nil
		},
		get: func() string { return strings.Join(*p, ", ") },
	}
}

// validateAdminWeb sees to it that nothing listens over TCP without a token.
func (r *reader) validateAdminWeb(d *draft) {
	if d.Admin.Web == "" {
		return
	}
	at := r.given["admin.web"]
	if d.Admin.Token == "" && !r.faulty("admin.token") {
		r.fault(at, shown(d.Admin.Web), "needs admin.token, a file with the token that everybody has to give there")
	}
	_, port, _ := net.SplitHostPort(d.Admin.Web)
	for _, address := range d.Listen {
		if _, other, err := net.SplitHostPort(address); err == nil && other == port && sameHost(address, d.Admin.Web) {
			r.fault(at, shown(d.Admin.Web), "is already one of the addresses of listen")
		}
	}
}

// sameHost tells whether two addresses with one port get in each other's way.
func sameHost(a, b string) bool {
	hostOf := func(address string) string {
		host, _, _ := net.SplitHostPort(address)
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			return ""
		}
		return host
	}
	return hostOf(a) == "" || hostOf(b) == "" || hostOf(a) == hostOf(b)
}
