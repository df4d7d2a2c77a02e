package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"tempomat/config/form"
)

// Traffic sets the addresses at which requests arrive, and where they go.
type Traffic struct {
	Listen         []Listener // addresses to serve; at least one
	Backend        Backend    // where requests go
	CPUCount       float64    // the number of CPUs of the backend; 0: those of this machine or of its cgroup
	TrustedProxies []Proxies  // peers whose forwarded headers are trusted; empty: none
	AddressHeader  string     // header with the client's address: X-Forwarded-For, Forwarded, X-Real-IP, CF-Connecting-IP, True-Client-IP or none
	Underscores    bool       // pass headers whose names have characters other than letters, digits and hyphens
}

// defaultTraffic trusts loopback addresses, because only programs on this machine, such as a local TLS terminator,
// can connect from these.
func defaultTraffic() Traffic {
	return Traffic{
		Listen:  []Listener{{Address: ":8888"}},
		Backend: defaultBackend(),
		TrustedProxies: []Proxies{
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("::1/128")}},
		},
		AddressHeader: "X-Forwarded-For",
	}
}

// Backend is the server behind the proxy. In the file, a string instead of a mapping is its URL.
type Backend struct {
	URL     string        // http://host[:port], https://host[:port] or unix:/path
	Timeout time.Duration // the longest wait for the TLS handshake and for the response's headers, after which the client gets 504
	Workers int           // number of workers; 0: determined automatically
}

func defaultBackend() Backend {
	return Backend{URL: "http://127.0.0.1:80", Timeout: 300 * time.Second}
}

// mostWorkers is the highest number of workers.
const mostWorkers = 10_000

// trafficSettings returns the keys for the addresses of the proxy and the backend.
func trafficSettings(c *Traffic) []form.Setting {
	return []form.Setting{
		{Path: "listen", Value: listeners().In(&c.Listen), Restart: true},
		{Path: "backend", Value: backendURL().In(&c.Backend.URL), AliasOf: "backend.url"},
		{Path: "backend.url", Value: backendURL().In(&c.Backend.URL)},
		{Path: "backend.timeout", Value: form.Duration(100*time.Millisecond, day).In(&c.Backend.Timeout)},
		{Path: "backend.workers", Value: form.Integer(0, mostWorkers).In(&c.Backend.Workers), Zero: "found"},
		{Path: "cpuCount", Value: cpuCount().In(&c.CPUCount), Zero: "this machine's"},
		{Path: "trustedProxies", Value: form.List[Proxies]{Of: proxies(), Most: 1024}.In(&c.TrustedProxies)},
		{Path: "addressHeader", Value: form.Choice("X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "none").In(&c.AddressHeader)},
		{Path: "underscores", Value: form.Boolean().In(&c.Underscores)},
	}
}

// cpuCount reads a number of CPUs, or 0 for those of this machine.
func cpuCount() form.Scalar[float64] {
	const allowed = "0 (as many as this machine has) or a number from 0.01 to 4096"
	return form.Number(allowed, 0, 4096).But("must be "+allowed, func(x float64) bool { return x == 0 || x >= 0.01 })
}

// validateListen checks that listen contains at least one address and none twice, and that the backend isn't the
// proxy itself.
func validateListen(r *form.Reader, d *draft) {
	if len(d.Listen) == 0 && !r.Faulty("listen") {
		r.Fault(r.Given["listen"], "", `has no address; give at least one, such as ":8888"`)
	}
	seen := make(map[string]bool)
	for _, l := range d.Listen {
		address := l.Address
		if seen[address] {
			r.Fault(r.Given["listen"], form.Quoted(address), "is given twice")
		}
		seen[address] = true
		if address == d.Admin.Listen {
			r.Fault(cmp.Or(r.Given["admin.listen"], r.Given["listen"]), form.Quoted(address), "is the address of both listen and admin.listen")
		}
		if d.Backend.IsServedAt(address) {
			r.Fault(backendSource(r), form.Quoted(d.Backend.URL), "is the proxy's own address (listen "+address+"): requests would loop")
		}
	}
	if d.Backend.IsServedAt(d.Admin.Listen) {
		r.Fault(backendSource(r), form.Quoted(d.Backend.URL), "is the address of the admin API (admin.listen "+d.Admin.Listen+"), not a site")
	}
}

// backendSource returns where the backend was set, or otherwise where the listen address was set.
func backendSource(r *form.Reader) form.Source {
	paths := []string{"backend.url", "backend", "listen", "listenPort"}
	i := slices.IndexFunc(paths, func(path string) bool { _, given := r.Given[path]; return given })
	if i < 0 {
		return form.Source{}
	}
	return r.Given[paths[i]]
}

// validate checks combinations of keys, and sets values that depend on several keys.
func validate(r *form.Reader, d *draft) {
	if _, given := r.Given["table.size"]; d.hashMaxLen > 0 && !given {
		d.Table.Size = d.tableSize()
	}
	validateClasses(r, d)
	validateListen(r, d)
	validateTLS(r, d)
	validateAdminWeb(r, d)
	validateCoordination(r, d)
	validateLimits(r, d)
}

// addressesOf returns the addresses of a host without a DNS lookup, or none if they are unknown.
func addressesOf(host string) []netip.Addr {
	if host == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	return []netip.Addr{addr.Unmap().WithZone("")}
}

// Parsed returns the URL, which has been checked.
func (b Backend) Parsed() *url.URL {
	u, _ := url.Parse(b.URL)
	return u
}

// IsLocal reports whether the backend runs on this machine.
func (b Backend) IsLocal() bool {
	u := b.Parsed()
	if u.Scheme == "unix" || u.Hostname() == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && a.IsLoopback()
}

// IsServedAt reports whether a request to the backend would arrive at a listener. listen is an address as in
// the key listen. The check recognises only localhost and loopback addresses. For other names and addresses of
// this machine, tempomat detects the loop when the first request comes back.
func (b Backend) IsServedAt(listen string) bool {
	if listen == b.URL {
		return true // a Unix socket
	}
	u := b.Parsed()
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
	at := addressesOf(host) // none, or an unspecified address, if the listener is on all addresses
	return slices.ContainsFunc(addressesOf(u.Hostname()), func(to netip.Addr) bool {
		if to.IsUnspecified() { // connections to this address reach this machine
			to = netip.IPv6Loopback()
			if !slices.Contains(at, to) {
				to = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
		}
		return slices.ContainsFunc(at, func(a netip.Addr) bool {
			return a == to || to.IsLoopback() && a.IsUnspecified() && (a.Is6() || to.Is4())
		}) || host == "" && to.IsLoopback()
	})
}

// ErrorPages are the pages that visitors see if the proxy itself answers.
type ErrorPages struct {
	Directory string // directory of templates; empty: the shipped page
}

func errorPageSettings(p *ErrorPages) []form.Setting {
	return []form.Setting{{Path: "errorPages.directory", Value: form.OrEmpty(absolutePath("a directory")).In(&p.Directory)}}
}
