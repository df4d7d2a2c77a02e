package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"tempomat/config/form"
)

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
			Doc: "[Sites of a shared host](sites.md), each with a share of the machine: a crawl of one of them does not slow the others. The key `others` is all that is for no named site, together; it has a `share` only."},
	}
}

func siteSettings(x *Site) []form.Setting {
	return []form.Setting{
		{Path: "hosts", Value: form.List[string]{Of: hostPattern(), Most: mostHosts, Distinct: true}.In(&x.Hosts), Default: "none; a site needs one",
			Doc: "Its names, as `Host` tells them, without a port; case does not matter. `*.example.com` is all below `example.com`; of several that fit, the longest counts, and a whole name before all."},
		siteShare(&x.Share),
		{Path: "mode", Value: form.Choice("fair", "observe").In(new(string)), Gone: "throttle.mode is that of all sites; a site whose requests are never to wait can be exempt"},
		{Path: "shadow", Value: form.Boolean().In(new(bool)), Gone: "throttle.shadow is that of all sites; a site whose requests are never to wait can be exempt"},
		{Path: "exempt", Value: exemptions{&x.Exempt}, Default: "none",
			Doc: "Requests for this site that are never charged or delayed, as [`exempt`](#exempt) has them for all."},
	}
}

func siteShare(p *float64) form.Setting {
	return form.Setting{
		Path: "share", Default: "`1`",
		Value: form.Number("a number from 0.01 to 1000", 0.01, 1000, func(x float64) bool { return x >= 0.01 && x <= 1000 }).In(p),
		Doc:   "What it has against the others: of three sites with 1, 2 and 5 the last one has five eighths of the machine while all want it. What a site does not want, the others have.",
	}
}

// siteMap reads the mapping of sites by their names.
type siteMap struct{ p *Sites }

func (v siteMap) Text() string {
	var texts []string
	for _, s := range v.p.Named {
		texts = append(texts, s.Name+": "+s.text())
	}
	if v.p.Others != 1 {
		texts = append(texts, otherSites+": share "+form.FormatNumber(v.p.Others))
	}
	return strings.Join(texts, "; ")
}

// text says all that is set for a site: a reload logs what differs between two of them.
func (s *Site) text() string {
	text := strings.Join(s.Hosts, " ") + ", share " + form.FormatNumber(s.Share)
	if len(s.Exempt) > 0 {
		text += ", exempt (" + exemptions{&s.Exempt}.Text() + ")"
	}
	return text
}

func (v siteMap) Spec() form.Spec {
	members := siteSettings(&Site{})
	site := form.MappingSchema(members)
	site["required"] = []string{"hosts"}
	return form.Spec{
		Type: "mapping", Allowed: fmt.Sprintf("names of sites, at most %d", mostSites),
		Nested: true, FileOnly: true, Members: members, MemberPath: ".NAME.",
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
	if named := slices.DeleteFunc(keysOf(n), func(key string) bool { return key == otherSites }); len(named) > mostSites {
		r.Fault(at, "", fmt.Sprintf("names %d sites; at most %d are allowed", len(named), mostSites))
		return
	}
	hosts := make(map[string]string)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		v.readSite(r, at.Under(key.Value).On(key), key.Value, value, hosts)
	}
}

// keysOf are the keys of a mapping.
func keysOf(n *yaml.Node) (all []string) {
	for i := 0; i < len(n.Content); i += 2 {
		all = append(all, n.Content[i].Value)
	}
	return all
}

// readSite reads one of them. The hosts are those that others have.
func (v siteMap) readSite(r *form.Reader, at form.Source, name string, n *yaml.Node, hosts map[string]string) {
	switch {
	case !siteKey.MatchString(name):
		r.Fault(at, "", "a site's name has 1 to 32 letters, digits, _ and -, and begins with a letter")
		return
	case n.Kind != yaml.MappingNode:
		r.Fault(at, form.QuotedNode(n), "must be a mapping with hosts, and what is to be different there, such as {hosts: [shop.example], share: 2}")
		return
	case name == otherSites:
		r.Mapping(at, n, "", []form.Setting{siteShare(&v.p.Others)})
		return
	case slices.ContainsFunc(v.p.Named, func(s Site) bool { return strings.EqualFold(s.Name, name) }) || strings.EqualFold(name, otherSites):
		r.Fault(at, "", "too much like the name of another site: names must differ in more than case")
		return
	}
	s := Site{Name: name, Share: 1}
	before := len(r.Faults)
	members := siteSettings(&s)
	r.Mapping(at, n, "", members)
	for _, m := range members {
		if of, given := r.Given[m.Path]; given && m.Gone != "" {
			r.Gone(of, m.Gone)
		}
		delete(r.Given, m.Path) // the next site has keys of its own
	}
	if len(r.Faults) == before && len(s.Hosts) == 0 {
		r.Fault(at, "", "has no hosts")
	}
	for _, host := range s.Hosts {
		if other, taken := hosts[host]; taken {
			r.Fault(at, form.Quoted(host), "is a host of the site "+other+" already")
		}
		hosts[host] = name
	}
	v.p.Named = append(v.p.Named, s)
}
