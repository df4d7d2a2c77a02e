package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"time"

	"tempomat/config/form"
)

// Traffic is where requests come from and go.
type Traffic struct {
	Listen         []Listener // addresses to serve; at least one
	Backend        Backend    // where requests go
	CPUCount       float64    // CPUs that the backend has; 0: as many as this machine (its cgroup) has
	TrustedProxies []Proxies  // peers whose forwarded headers count; empty: none
	AddressHeader  string     // where they tell the client's address: X-Forwarded-For, Forwarded, X-Real-IP, CF-Connecting-IP, True-Client-IP or none
	Underscores    bool       // header names of more than letters, digits and hyphens reach the backend
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
	}
}

// Backend is the server that the proxy is before. A plain string in the
// file is its URL.
type Backend struct {
	URL     string        // http://host[:port], https://host[:port] or unix:/path
	Timeout time.Duration // longest wait for TLS's handshake, and for the response's header, then 504
	Workers int           // how many it has; 0: that is found
}

func defaultBackend() Backend {
	return Backend{URL: "http://127.0.0.1:80", Timeout: 300 * time.Second}
}

// mostWorkers is the highest number of them.
const mostWorkers = 10_000

// trafficSettings are the keys of where requests come from and go.
func trafficSettings(c *Traffic) []form.Setting {
	return []form.Setting{
		{Path: "listen", Value: listeners().In(&c.Listen), Restart: true,
			Doc: "Addresses to listen on, at least one. Each is a text or a mapping with the keys below."},
		{Path: "backend", Value: backendURL().In(&c.Backend.URL), AliasOf: "backend.url"},
		{Path: "backend.url", Value: backendURL().In(&c.Backend.URL),
			Doc: "URL of the web server; `backend: URL` is short for it. It can't be one of tempomat's own addresses. An https certificate is checked, except on loopback."},
		{Path: "backend.timeout", Value: form.Duration(100*time.Millisecond, day).In(&c.Backend.Timeout),
			Doc: "Longest wait for the beginning of a response; then 504. A backend on another machine must accept the connection within 5 s; otherwise 502."},
		{Path: "backend.workers", Value: form.Integer(0, mostWorkers).In(&c.Backend.Workers), Zero: "found", Unit: "requests",
			Doc: "The backend's workers, and so the most requests there at the same time. 0: tempomat [finds the number](tasks.md#set-the-number-of-workers). Set it for a backend on another machine or in a container."},
		{Path: "cpuCount", Value: cpuCount().In(&c.CPUCount), Zero: "this machine's", Unit: "CPUs",
			Doc: "CPUs of the backend. Shares are parts of it. 0: as many as this machine or its cgroup has."},
		{Path: "trustedProxies", Value: form.List[Proxies]{Of: proxies(), Most: 1024}.In(&c.TrustedProxies),
			Doc: "Proxies whose forwarded headers tempomat trusts. The client is the rightmost address that isn't one of them. The list replaces the default. A file has one prefix per line, and is read again at each reload ([Cloudflare](recipes/cloudflare.md))."},
		{Path: "addressHeader", Value: form.Choice("X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "none").In(&c.AddressHeader),
			Doc: "Header with the client's address in requests of trusted proxies."},
		{Path: "underscores", Value: form.Boolean().In(&c.Underscores),
			Doc: "Pass headers whose names have characters other than letters, digits and hyphens. Imitations of a proxy's header, such as `X_Real_IP`, are always removed."},
	}
}

// cpuCount is a number of CPUs, or 0 for those of the machine.
func cpuCount() form.Scalar[float64] {
	const allowed = "0 (as many as this machine has) or a number from 0.01 to 4096"
	return form.Number(allowed, 0, 4096).But("must be "+allowed, func(x float64) bool { return x == 0 || x >= 0.01 })
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

// IsServedAt reports whether a request to the backend would arrive at a listener, at an address as listen has them.
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

// Answers are what the proxy itself answers with.
type Answers struct {
	ErrorPages ErrorPages
	RobotsTxt  string // the file that /robots.txt is answered with; empty: the backend answers
}

func defaultAnswers() Answers {
	return Answers{ErrorPages: ErrorPages{Languages: []string{"en", "de"}}}
}

// ErrorPages are what people see where the proxy itself answers.
type ErrorPages struct {
	Directory string   // of templates; empty: the page that is shipped
	Languages []string // tags such as en or pt-BR, the first for clients that ask for none of them; at least one
}

// answerSettings are their keys.
func answerSettings(c *Answers) []form.Setting {
	return []form.Setting{
		{Path: "errorPages.directory", Value: form.OrEmpty(absolutePath("a directory"), "none").In(&c.ErrorPages.Directory),
			Doc: "Directory with templates of [your own error pages](error-pages.md). Empty: the shipped page."},
		{Path: "errorPages.languages", Value: form.List[string]{Of: languageTag(), Most: 16, Distinct: true}.In(&c.ErrorPages.Languages),
			Doc: "Languages of the error pages. The first is the default. Others than English and German need a template."},
		{Path: "robotsTxt", Value: file().In(&c.RobotsTxt),
			Doc: "File that tempomat serves as [`/robots.txt`](error-pages.md#robotstxt). Empty: the backend answers."},
	}
}

// languageTag checks the form of a BCP 47 tag: whether there is such a language, and a page in
// it, shows when the pages are made.
func languageTag() form.Scalar[string] {
	tag := regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$`)
	return form.Simple("a tag such as `de` or `pt-BR`", "must be the tag of a language, such as en, de or pt-BR",
		func(text string) (string, bool) { return text, tag.MatchString(text) })
}

func validateErrorPages(r *form.Reader, d *draft) {
	if len(d.ErrorPages.Languages) == 0 && !r.Faulty("errorPages.languages") {
		r.Fault(r.Given["errorPages.languages"], "", "names no language; give at least one, such as en")
	}
}
