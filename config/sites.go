package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"tempomat/classify"
	"tempomat/config/form"
)

// Exemption matches requests that are never charged or delayed. A request must match all given conditions.
type Exemption struct {
	CIDR    netip.Prefix // network of the client's address; the zero Prefix: any address
	Path    string       // the path, or its beginning if it ends in *; empty: any path
	Methods []string     // allowed methods; none: any method
	Host    string       // the host, or *. and a domain for all hosts below it; empty: any host
	Header  string       // a header that must have the value in the file Secret; empty: no header is needed
	Secret  string
}

// maxExempt is the largest number of exemptions. Every request is compared with each of them.
const maxExempt = 256

// exemptions reads the list of exemptions.
func exemptions() form.Members[Exemption] {
	return form.Members[Exemption]{
		Most: maxExempt, Example: "[{cidr: 10.0.0.0/8}, {path: /healthz}]", Needs: "at least one of " + exemptKeys,
		New: func() Exemption { return Exemption{} }, Keys: exemptSettings,
		Check: func(e *Exemption, _ []Exemption) string {
			switch {
			case (e.Header == "") != (e.Secret == ""):
				return "must have both header and secret, or neither: any client can send a header, but not the secret value"
			case !e.CIDR.IsValid() && e.Path == "" && len(e.Methods) == 0 && e.Host == "" && e.Header == "":
				return "must have at least one of " + exemptKeys
			}
			return ""
		},
	}
}

// exemptKeys lists the keys of which an exemption needs at least one.
const exemptKeys = "cidr, path, method, host and header"

func exemptSettings(e *Exemption) []form.Setting {
	return []form.Setting{
		{Path: "cidr", Value: prefix().In(&e.CIDR)},
		{Path: "path", Value: exemptPath().In(&e.Path)},
		{Path: "method", Value: form.List[string]{Of: methodName(), Most: 16, Distinct: true}.In(&e.Methods)},
		{Path: "host", Value: hostPattern().In(&e.Host)},
		{Path: "header", Value: headerName().In(&e.Header)},
		{Path: "secret", Value: file().In(&e.Secret)},
	}
}

// methodName reads the name of a method, and converts it to capitals.
func methodName() form.Scalar[string] {
	const problem = "must be a method, such as OPTIONS, or a list of them"
	return form.Simple(problem, func(text string) (string, bool) {
		text = strings.ToUpper(text)
		return text, text != "" && len(text) <= 32 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
	})
}

// hostPattern reads the name of a host, or a pattern for all hosts below it.
func hostPattern() form.Scalar[string] {
	const problem = "must be a host such as www.example.com, without a port, or *.example.com for all names below it"
	return form.Simple(problem, func(text string) (string, bool) {
		text = strings.TrimSuffix(strings.ToLower(text), ".")
		name := strings.TrimPrefix(text, "*.")
		if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil && name == text && ip.Zone() == "" {
			return inURL(ip), true
		}
		return text, len(text) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !slices.Contains(strings.Split(name, "."), "")
	})
}

// inURL formats an address as it appears in a URL and in the Host header.
func inURL(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	return "[" + ip.String() + "]"
}

// pathPattern reads a path, or a path followed by * for all paths that begin with it.
func pathPattern() form.Scalar[string] {
	odd := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == '?' || c == '#' }
	const problem = "must be a path of at most 1024 characters, such as /healthz, or /static/* for all paths below it"
	return form.Simple(problem, func(text string) (string, bool) {
		return text, strings.HasPrefix(text, "/") && len(text) <= 1024 && !strings.ContainsFunc(text, odd) && !strings.Contains(strings.TrimSuffix(text, "*"), "*")
	})
}

// exemptPath reads a pattern for paths that all backends interpret in the same way.
func exemptPath() form.Scalar[string] {
	return form.Text(func(text string) (string, error) {
		text, err := pathPattern().Parse(text)
		if err == nil && !classify.IsPlainPath(text) {
			err = errors.New("never matches: write the path decoded, without \".\" and \"..\" segments, %, \\ and control characters")
		}
		return text, err
	})
}

// Sites are the sites that the backend serves, each with a share of the machine.
type Sites struct {
	Named  []Site
	Others float64 // share of all other sites together
}

// Site is one of the sites that the backend serves.
type Site struct {
	Name  string
	Hosts []string // in lower case; *.example.com stands for all names below example.com
	Share float64  // relative to the shares of the other sites
}

func newSite(name string) *Site { return &Site{Name: name, Share: 1} }

const (
	// otherSites is the key for requests to all sites without a name in the configuration.
	otherSites = "others"
	// mostSites limits the number of sites, because each has its own memory and its own line in the
	// statistics. mostHosts limits the host names of one site.
	mostSites, mostHosts = 256, 64
)

func sitesSettings(x *Sites) []form.Setting {
	return []form.Setting{
		{Path: "sites", Value: siteMap{x}, Nested: true},
	}
}

func siteSettings(x *Site) []form.Setting {
	return []form.Setting{
		{Path: "hosts", Value: form.List[string]{Of: hostPattern(), Most: mostHosts, Distinct: true}.In(&x.Hosts)},
		siteShare(&x.Share),
		{Path: "mode", Gone: "throttle.mode applies to all sites; use exempt for a site whose requests must never wait"},
		{Path: "shadow", Gone: "throttle.shadow applies to all sites; use exempt for a site whose requests must never wait"},
		{Path: "exempt", Gone: "list the requests in exempt, each with the site's host"},
	}
}

func siteShare(p *float64) form.Setting {
	return form.Setting{Path: "share", Value: form.Number("a number from 0.01 to 1000", 0.01, 1000).In(p)}
}

// siteMap reads the mapping from names to sites.
type siteMap struct{ p *Sites }

func (v siteMap) Text() string {
	var texts []string
	for _, s := range v.p.Named {
		texts = append(texts, s.Name+" ("+form.Said(siteSettings(&s), siteSettings(newSite(s.Name)))+")")
	}
	if v.p.Others != 1 {
		texts = append(texts, otherSites+": share "+form.FormatNumber(v.p.Others))
	}
	return strings.Join(texts, "; ")
}

func (v siteMap) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	*v.p = Sites{Others: 1}
	switch {
	case form.IsNull(n):
		return
	case n.Kind != yaml.MappingNode:
		r.Fault(at, form.QuotedNode(n), "must be a mapping such as {shop: {hosts: [shop.example, www.shop.example], share: 2}}")
		return
	}
	if named := len(n.Content) / 2; named > mostSites+1 { // one more for the key others
		r.Fault(at, "", fmt.Sprintf("names %d sites; at most %d are allowed", named, mostSites))
		return
	}
	hosts := make(map[string]string)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		v.readSite(r, at.Under(key.Value).On(key), key.Value, value, hosts)
	}
}

// readSite reads one site. hosts maps the hosts of all sites so far to their sites.
func (v siteMap) readSite(r *form.Reader, at form.Source, name string, n *yaml.Node, hosts map[string]string) {
	switch {
	case !className.MatchString(name):
		r.Fault(at, "", "a site's name has 1 to 32 letters, digits, _ and -, and begins with a letter")
		return
	case n.Kind != yaml.MappingNode:
		r.Fault(at, form.QuotedNode(n), "must be a mapping with the site's hosts and settings, such as {hosts: [shop.example], share: 2}")
		return
	case name == otherSites:
		r.Member(at, n, []form.Setting{siteShare(&v.p.Others)})
		return
	case slices.ContainsFunc(v.p.Named, func(s Site) bool { return strings.EqualFold(s.Name, name) }) || strings.EqualFold(name, otherSites):
		r.Fault(at, "", "too similar to the name of another site: names must differ in more than case")
		return
	}
	s := newSite(name)
	if r.Member(at, n, siteSettings(s)) && len(s.Hosts) == 0 {
		r.Fault(at, "", "has no hosts")
	}
	for _, host := range s.Hosts {
		if other, taken := hosts[host]; taken {
			r.Fault(at, form.Quoted(host), "already belongs to the site "+other)
		}
		hosts[host] = name
	}
	v.p.Named = append(v.p.Named, *s)
}
