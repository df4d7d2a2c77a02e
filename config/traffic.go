package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tempomat/config/form"
)

// Traffic is where requests come from and go.
type Traffic struct {
	Listen         []Listener // addresses to serve; at least one
	Backend        Backend    // where requests go
	CPUCount       float64    // CPUs that the backend has; 0: as many as this machine (its cgroup) has
	TrustedProxies []Proxies  // peers whose forwarded headers count; empty: nobody's do
	AddressHeader  string     // where they tell the client's address: X-Forwarded-For, Forwarded, X-Real-IP, CF-Connecting-IP, True-Client-IP or none
	Underscores    bool       // header names of more than letters, digits and hyphens reach the backend
	Upgrades       []string   // the protocols that a connection may change to
	Via            string     // what the proxy calls itself in Via; empty: it adds none
}

// defaultTraffic trusts loopback peers, because only what runs on this machine, such as a
// local TLS terminator, can connect from there.
func defaultTraffic() Traffic {
	return Traffic{
		Listen:  []Listener{{Address: ":8888"}},
		Backend: defaultBackend(),
		TrustedProxies: []Proxies{
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("::1/128")}},
		},
		AddressHeader: "X-Forwarded-For",
		Upgrades:      []string{"websocket"},
	}
}

// Backend is the server that the proxy stands before. A plain string in the
// file is its URL.
type Backend struct {
	URL         string        // http://host[:port], https://host[:port] or unix:/path
	DialTimeout time.Duration // longest wait until another machine takes a connection, then 502
	Timeout     time.Duration // longest wait for TLS's handshake, and for the response's header, then 504
	Workers     int           // how many it has; 0: that is found
}

func defaultBackend() Backend {
	return Backend{URL: "http://127.0.0.1:80", DialTimeout: 5 * time.Second, Timeout: 300 * time.Second}
}

// mostWorkers is the highest number of them.
const mostWorkers = 10_000

// trafficSettings are the keys of where requests come from and go.
func trafficSettings(c *Traffic) []form.Setting {
	return []form.Setting{
		{Path: "listen", Value: listeners().In(&c.Listen), Restart: true,
			Doc: "Addresses to serve, at least one: texts, or mappings with `address` and, if they are `true`, `tls` ([TLS](tls.md)), `redirect` (to HTTPS) and `proxyProtocol`."},
		{Path: "backend", Value: backendURL().In(&c.Backend.URL), AliasOf: "backend.url",
			Doc: "The backend's URL alone, short for `backend.url`."},
		{Path: "backend.url", Value: backendURL().In(&c.Backend.URL),
			Doc: "Where requests go. A file must give it. An address that the proxy itself serves is refused, and the admin API's. With https its certificate has to be valid, but on a loopback address, such as https://127.0.0.1:8443, where it is not looked at."},
		{Path: "backend.dialTimeout", Value: form.Duration(time.Millisecond, 5*time.Minute).In(&c.Backend.DialTimeout),
			Doc: "Longest time that another machine may take to accept a TCP connection, then 502. It doesn't count for a backend on this machine, nor for TLS's handshake: these wait for a free worker, for up to `backend.timeout`."},
		{Path: "backend.timeout", Value: form.Duration(100*time.Millisecond, day).In(&c.Backend.Timeout),
			Doc: "Longest wait for the response's header, and for the TLS handshake before it, then 504."},
		{Path: "backend.workers", Value: workers().In(&c.Backend.Workers), Zero: "found", Unit: "requests",
			Doc: "The number of the backend's workers, used as it is: no more requests are there at a time. 0: it is [found](operations.md#how-many-workers). Set it for a backend on another machine."},
		{Path: "cpuCount", Value: cpuCount().In(&c.CPUCount), Zero: "this machine's", Unit: "CPUs",
			Doc: "CPUs that the backend has; shares are parts of it. 0: as many as this machine, or its cgroup, has."},
		{Path: "trustedProxies", Value: form.List[Proxies]{Of: proxies(), Most: 1024}.In(&c.TrustedProxies),
			Doc: "Peers whose forwarded headers count; the client is the rightmost address that is not one of them. What is given replaces the default, and an empty list trusts nobody. A file has an address or a prefix in each line, and `#` before comments; it is read again at each reload, and one that is wrong is refused as a wrong configuration is ([Cloudflare](recipes/cloudflare.md))."},
		{Path: "addressHeader", Value: form.Choice("X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "none").In(&c.AddressHeader),
			Doc: "The header in which trusted proxies tell the client's address."},
		{Path: "underscores", Value: form.Boolean().In(&c.Underscores),
			Doc: "Header names with an underscore, or with any other character besides letters, digits and hyphens, reach the backend. Scripts take `X_Real_IP` and `X.Real!IP` for `X-Real-IP`, so a client could say of itself what only a proxy may. Names that scripts would take for such a header are dropped in any case."},
		{Path: "upgrades", Value: protocols().In(&c.Upgrades),
			Doc: "Protocols that a connection may change to when backend and client agree on it. What goes over it then passes unseen."},
		{Path: "via", Value: pseudonym().In(&c.Via),
			Doc: "What the proxy calls itself in the `Via` header, to the backend and to clients."},
	}
}

// workers is the number of workers.
func workers() form.Scalar[int] {
	return form.Integer(0, mostWorkers).Saying("must be 0 (found) or a whole number from 1 to 10000")
}

// cpuCount is a number of CPUs, or 0 for those of the machine.
func cpuCount() form.Scalar[float64] {
	return form.Number("0 (as many as this machine has) or a number from 0.01 to 4096", 0, 4096,
		func(x float64) bool { return x == 0 || x >= 0.01 && x <= 4096 })
}

// pseudonym is what a proxy calls itself in Via (RFC 9110, 7.6.3: a token, or a host).
func pseudonym() form.Scalar[string] {
	return form.Text("name", "at most 64 characters without blanks, or empty: no `Via` is added", func(text string) error {
		if len(text) > 64 || strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~:") != "" {
			return errors.New("must be a name of at most 64 letters, digits or signs such as - or _, without blanks; empty: no Via is added")
		}
		return nil
	})
}

// protocols are the names of protocols that a connection may change to.
func protocols() form.List[string] {
	name := form.Text("name", "the name of a protocol, but not `h2c`", nil)
	name.Parse = func(text string) (string, error) {
		name := strings.ToLower(text)
		switch {
		case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "":
			return "", errors.New("must be the name of a protocol, such as websocket, without a version")
		case name == "h2c":
			return "", errors.New("requests in it would pass unseen; clients speak HTTP/2 with the proxy without it")
		}
		return name, nil
	}
	return form.List[string]{Of: name, Most: 16, Distinct: true}
}

// validateListen checks that the proxy does not stand in its own way.
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
			r.Fault(r.Given["admin.listen"], form.Quoted(address), "is already one of the addresses of listen")
		}
		if d.Backend.IsServedAt(address, unasked()) {
			r.Fault(backendSource(r), form.Quoted(d.Backend.URL), "is the proxy's own address (listen "+address+"): requests would go in a circle")
		}
	}
	if d.Backend.IsServedAt(d.Admin.Listen, unasked()) {
		r.Fault(backendSource(r), form.Quoted(d.Backend.URL), "is the address of the admin API (admin.listen "+d.Admin.Listen+"), which is no site")
	}
}

// backendSource is where the backend or, failing that, the address that it
// collides with was given.
func backendSource(r *form.Reader) form.Source {
	paths := []string{"backend.url", "backend", "listen", "listenPort"}
	i := slices.IndexFunc(paths, func(path string) bool { _, given := r.Given[path]; return given })
	if i < 0 {
		return form.Source{}
	}
	return r.Given[paths[i]]
}
