package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"tempomat/config/form"
)

// Exemption matches requests that are never charged or delayed. All that is
// given must match.
type Exemption struct {
	CIDR    netip.Prefix // the client's address lies in it; the zero Prefix: any
	Path    string       // the path is this, or begins so if it ends in *; empty: any
	Methods []string     // the method is one of these; none: any
	Host    string       // the Host is this, or lies below it if it begins with *.; empty: any
	Header  string       // the request has it, with what is in the file Secret; empty: any
	Secret  string
}

// maxExempt is the most exemptions: every request is held against each.
const maxExempt = 256

// exemptions is the list of what is never charged.
func exemptions() form.Members[Exemption] {
	return form.Members[Exemption]{
		Most: maxExempt, Least: 1, Example: "[{cidr: 10.0.0.0/8}, {path: /healthz}]", Needs: "at least one of " + exemptKeys,
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

// exemptKeys are the keys; an exemption needs one of them.
const exemptKeys = "cidr, path, method, host and header"

func exemptSettings(e *Exemption) []form.Setting {
	return []form.Setting{
		{Path: "cidr", Value: prefix().In(&e.CIDR), Default: "any", Doc: "Network of the client's address."},
		{Path: "path", Value: pathPattern().In(&e.Path), Default: "any", Doc: "Path, or its beginning if it ends in `*`, without the query. A path that a backend could resolve to another one, such as `/static/../x`, never matches."},
		{Path: "method", Value: form.List[string]{Of: methodName(), Most: 16, Distinct: true}.In(&e.Methods), Default: "any",
			Doc: "Methods. A request with a header such as `X-HTTP-Method-Override` never matches."},
		{Path: "host", Value: hostPattern().In(&e.Host), Default: "any",
			Doc: "Host name of the site. `Host` and any `X-Forwarded-Host` must agree. `*.example.com` matches everything below `example.com`."},
		{Path: "header", Value: headerName().In(&e.Header), Default: "any",
			Doc: "Header that a request must have exactly once, with the value in the file `secret`."},
		{Path: "secret", Value: file().In(&e.Secret), Default: "none; `header` needs it",
			Doc: "File with the header's value: 16 to 4096 printable characters, and an optional line break. Each reload reads it again."},
	}
}

// methodName is the name of a method, which is in capitals.
func methodName() form.Scalar[string] {
	const problem = "must be a method, such as OPTIONS, or a list of them"
	return form.Simple("a method, such as `OPTIONS`", problem, func(text string) (string, bool) {
		text = strings.ToUpper(text)
		return text, text != "" && len(text) <= 32 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
	})
}

// hostPattern is the name of a site, or of all below it.
func hostPattern() form.Scalar[string] {
	const problem = "must be a host such as www.example.com, without a port, or *.example.com for all below it"
	return form.Simple("a name or address, or `*.example.com` for all below it", problem, func(text string) (string, bool) {
		text = strings.TrimSuffix(strings.ToLower(text), ".")
		name := strings.TrimPrefix(text, "*.")
		if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil && name == text && ip.Zone() == "" {
			return inURL(ip), true
		}
		return text, len(text) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !slices.Contains(strings.Split(name, "."), "")
	})
}

// inURL is an address as a URL has it, and so Host.
func inURL(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	return "[" + ip.String() + "]"
}

// pathPattern is a path, or the beginning of paths.
func pathPattern() form.Scalar[string] {
	odd := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == '?' || c == '#' }
	const problem = "must be a path such as /healthz, or /static/* for all that begins so, of at most 1024 characters"
	return form.Simple("begins with `/`; `*` only at the end", problem, func(text string) (string, bool) {
		return text, strings.HasPrefix(text, "/") && len(text) <= 1024 && !strings.ContainsFunc(text, odd) && !strings.Contains(strings.TrimSuffix(text, "*"), "*")
	})
}

// Sites are the sites behind the backend that are told apart.
type Sites struct {
	Named  []Site
	Others float64 // the share of all requests together that are for none of them
}

// Site is one of several behind the backend.
type Site struct {
	Name   string
	Hosts  []string // in lower case; *.example.com is all below example.com
	Share  float64  // against those of the other sites
	Exempt []Exemption
}

func newSite(name string) *Site { return &Site{Name: name, Share: 1} }

const (
	// otherSites is the key of what is no named site.
	otherSites = "others"
	// mostSites bounds the sites, and mostHosts the names of one: each site has memory of its
	// own, and a line in the statistics.
	mostSites, mostHosts = 256, 64
)

// siteKey is what a site is called, in statistics too.
var siteKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

func sitesSettings(x *Sites) []form.Setting {
	return []form.Setting{
		{Path: "sites", Value: siteMap{x},
			Doc: "[Sites of a shared host](sites.md), each with a share of the machine. `others` stands for all unnamed sites together and has only a `share`."},
	}
}

func siteSettings(x *Site) []form.Setting {
	return []form.Setting{
		{Path: "hosts", Value: form.List[string]{Of: hostPattern(), Most: mostHosts, Distinct: true}.In(&x.Hosts), Default: "none; required",
			Doc: "Host names of the site. A full name wins over patterns, a longer pattern over a shorter one."},
		siteShare(&x.Share),
		{Path: "mode", Gone: "throttle.mode is for all sites; use exempt for a site whose requests must never wait"},
		{Path: "shadow", Gone: "throttle.shadow is for all sites; use exempt for a site whose requests must never wait"},
		{Path: "exempt", Value: exemptions().In(&x.Exempt), Default: "none",
			Doc: "Requests for this site that are never charged or delayed. Conditions are those of [`exempt`](#exempt)."},
	}
}

func siteShare(p *float64) form.Setting {
	return form.Setting{
		Path: "share", Default: "`1`",
		Value: form.Number("a number from 0.01 to 1000", 0.01, 1000).In(p),
		Doc:   "Weight of the site. Of three busy sites with 1, 2 and 5, the last gets five eighths of the machine. Unused shares go to the other sites.",
	}
}

// siteMap reads the mapping of sites by their names.
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

func (v siteMap) Spec() form.Spec {
	members := siteSettings(&Site{})
	site := form.MappingSchema(members)
	site["required"] = []string{"hosts"}
	return form.Spec{
		Type: "mapping", Allowed: fmt.Sprintf("names of sites, at most %d", mostSites),
		Nested: true, Members: members, MemberPath: ".NAME.",
		Schema: form.Schema{
			"type":          []string{"object", "null"},
			"properties":    form.Schema{otherSites: form.MappingSchema([]form.Setting{siteShare(new(float64))})},
			"maxProperties": mostSites + 1,
			"propertyNames": form.Schema{"pattern": siteKey.String()}, "additionalProperties": site,
		},
	}
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
	if named := len(n.Content) / 2; named > mostSites+1 { // and the others
		r.Fault(at, "", fmt.Sprintf("names %d sites; at most %d are allowed", named, mostSites))
		return
	}
	hosts := make(map[string]string)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		v.readSite(r, at.Under(key.Value).On(key), key.Value, value, hosts)
	}
}

// readSite reads one of them. hosts are those of the other sites.
func (v siteMap) readSite(r *form.Reader, at form.Source, name string, n *yaml.Node, hosts map[string]string) {
	switch {
	case !siteKey.MatchString(name):
		r.Fault(at, "", "a site's name has 1 to 32 letters, digits, _ and -, and begins with a letter")
		return
	case n.Kind != yaml.MappingNode:
		r.Fault(at, form.QuotedNode(n), "must be a mapping with hosts, and the keys that differ there, such as {hosts: [shop.example], share: 2}")
		return
	case name == otherSites:
		r.Member(at, n, []form.Setting{siteShare(&v.p.Others)})
		return
	case slices.ContainsFunc(v.p.Named, func(s Site) bool { return strings.EqualFold(s.Name, name) }) || strings.EqualFold(name, otherSites):
		r.Fault(at, "", "too much like the name of another site: names must differ in more than case")
		return
	}
	s := newSite(name)
	if r.Member(at, n, siteSettings(s)) && len(s.Hosts) == 0 {
		r.Fault(at, "", "has no hosts")
	}
	for _, host := range s.Hosts {
		if other, taken := hosts[host]; taken {
			r.Fault(at, form.Quoted(host), "is a host of the site "+other+" already")
		}
		hosts[host] = name
	}
	v.p.Named = append(v.p.Named, *s)
}
