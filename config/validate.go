package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"

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

// System is what is asked of the machine to tell whether a backend is the proxy itself.
type System struct {
	Find func(host string) []netip.Addr // the addresses that a host has; none: that is not known
	Own  func(netip.Addr) bool          // one is this machine's
}

// unasked is what can be told of addresses without asking the system.
func unasked() System {
	return System{
		Find: func(host string) []netip.Addr {
			if host == "localhost" {
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
			}
			addr, err := netip.ParseAddr(host)
			if err != nil {
				return nil
			}
			return []netip.Addr{addr.Unmap().WithZone("")}
		},
		Own: netip.Addr.IsLoopback,
	}
}

// IsServedAt tells whether a request to the backend would arrive at a listener, at an address as listen has them.
func (b Backend) IsServedAt(listen string, of System) bool {
	if listen == b.URL {
		return true // a unix socket
	}
	u, err := url.Parse(b.URL)
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
	if host == u.Hostname() {
		return true
	}
	at := of.Find(host) // of all addresses none, or an unspecified one
	return slices.ContainsFunc(of.Find(u.Hostname()), func(to netip.Addr) bool {
		if to.IsUnspecified() { // dialling it leads to this machine
			to = netip.IPv6Loopback()
			if !slices.Contains(at, to) {
				to = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
		}
		return slices.ContainsFunc(at, func(a netip.Addr) bool {
			return a == to || of.Own(to) && a.IsUnspecified() && (a.Is6() || to.Is4())
		}) || host == "" && of.Own(to)
	})
}
