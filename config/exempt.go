package config

import (
	"errors"
	"net/netip"
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

// exemptions reads the list of what is never charged.
type exemptions struct{ p *[]Exemption }

func (v exemptions) Text() string {
	var texts []string
	for _, e := range *v.p {
		texts = append(texts, e.text())
	}
	return strings.Join(texts, ", ")
}

func (e *Exemption) text() string {
	if !e.CIDR.IsValid() && e.Path == "" && len(e.Methods) == 0 && e.Host == "" {
		return "with " + e.Header
	}
	parts := append([]string(nil), e.Methods...)
	for _, x := range []struct{ before, text string }{{"at ", e.Host}, {"", e.Path}, {"with ", e.Header}} {
		if x.text != "" {
			parts = append(parts, x.before+x.text)
		}
	}
	switch {
	case !e.CIDR.IsValid():
	case len(parts) == 0:
		parts = append(parts, e.CIDR.String())
	default:
		parts = append(parts, "from "+e.CIDR.String())
	}
	return strings.Join(parts, " ")
}

func (v exemptions) Spec() form.Spec {
	return form.ListOfMappings(exemptSettings(&Exemption{}), maxExempt, 1)
}

func (v exemptions) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	*v.p = nil
	for here, item := range r.Mappings(at, n, maxExempt, "[{cidr: 10.0.0.0/8}, {path: /healthz}]", "at least one of "+exemptKeys) {
		if len(item.Content) == 0 {
			r.Fault(here, form.QuotedNode(item), "must be a mapping with at least one of "+exemptKeys)
			continue
		}
		var e Exemption
		before := len(r.Faults)
		r.Mapping(here, item, "", exemptSettings(&e))
		switch {
		case len(r.Faults) > before:
		case (e.Header == "") != (e.Secret == ""):
			r.Fault(here, "", "must have both header and secret, or neither: anybody can send a header, but not with a value that nobody else knows")
		case !e.CIDR.IsValid() && e.Path == "" && len(e.Methods) == 0 && e.Host == "" && e.Header == "":
			r.Fault(here, "", "must have at least one of "+exemptKeys)
		}
		*v.p = append(*v.p, e)
	}
}

// exemptKeys are the keys of which an exemption needs one.
const exemptKeys = "cidr, path, method, host and header"

func exemptSettings(e *Exemption) []form.Setting {
	return []form.Setting{
		{Path: "cidr", Value: prefix().In(&e.CIDR), Default: "any", Doc: "The client's address lies in it."},
		{Path: "path", Value: pathPattern().In(&e.Path), Default: "any", Doc: "The path is this, or begins so if it ends in `*`: both as it is decoded and as it was sent. A path that a backend might resolve to another one, such as `/static/../x`, never matches. The query is not looked at."},
		{Path: "method", Value: form.List[string]{Of: methodName(), Most: 16, Distinct: true}.In(&e.Methods), Default: "any",
			Doc: "The method is one of these. Not where a header asks the backend to take it for another one (`X-HTTP-Method-Override`)."},
		{Path: "host", Value: hostPattern().In(&e.Host), Default: "any",
			Doc: "The site that is asked for, as `Host` and any `X-Forwarded-Host` tell it; `*.example.com` is all below `example.com`."},
		{Path: "header", Value: headerName().In(&e.Header), Default: "any",
			Doc: "The request has this header, once, with the value that is in the file `secret`. Any client can send any header, and what proxies set they may also let through: so the value must be one that nobody else knows."},
		{Path: "secret", Value: secretFile().In(&e.Secret), Default: "none; `header` needs it",
			Doc: "The file of that value: 16 to 4096 printable characters; its last line break does not count. It is read again at each reload."},
	}
}

// methodName is the name of a method, which is in capitals.
func methodName() form.Scalar[string] {
	s := form.Text("method", "a method, such as `OPTIONS`", nil)
	s.Parse = func(text string) (string, error) {
		text = strings.ToUpper(text)
		if text == "" || len(text) > 32 || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
			return "", errors.New("must be a method, such as OPTIONS, or a list of them")
		}
		return text, nil
	}
	return s
}

// hostPattern is the name of a site, or of all below it.
func hostPattern() form.Scalar[string] {
	s := form.Text("host", "a name or an address without a port; `*` only as in `*.example.com`", nil)
	s.Parse = func(text string) (string, error) {
		text = strings.TrimSuffix(strings.ToLower(text), ".")
		name := strings.TrimPrefix(text, "*.")
		if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil && name == text && ip.Zone() == "" {
			return inURL(ip), nil
		}
		if name == "" || len(text) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" || slices.Contains(strings.Split(name, "."), "") {
			return "", errors.New("must be a host such as www.example.com, without a port, or *.example.com for all below it")
		}
		return text, nil
	}
	return s
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
	return form.Text("path", "begins with `/`; `*` only at the end; at most 1024 characters", func(text string) error {
		star := strings.IndexByte(text, '*')
		if !strings.HasPrefix(text, "/") || len(text) > 1024 || strings.ContainsFunc(text, odd) ||
			star >= 0 && star != len(text)-1 {
			return errors.New("must be a path such as /healthz, or /static/* for all that begins so, of at most 1024 characters")
		}
		return nil
	}).Matching(`^/[^*?#\s]*\*?$`)
}
