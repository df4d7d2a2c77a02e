package setup

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"tempomat/proxy/host"
)

// inForce reports whether Apache reads a directive, by the <IfModule> sections around
// it. It is not known within any other section that depends on something.
func inForce(d host.Directive, modules []string) (active, known bool) {
	active, known = true, true
	for _, s := range d.Within {
		switch s.Name {
		case "ifmodule":
			if len(s.Args) != 1 {
				return false, false
			}
			name, not := strings.CutPrefix(s.Args[0], "!")
			if slices.Contains(modules, host.ModuleName(name)) == not {
				active = false
			}
		case "virtualhost", "directory", "directorymatch", "location", "locationmatch", "files", "filesmatch", "limit", "limitexcept", "proxy", "proxymatch":
		default: // IfDefine, IfVersion, IfFile, If, Macro
			known = false
		}
	}
	return active, known || !active
}

// apacheHost is a <VirtualHost> with what is in it.
type apacheHost struct {
	start host.Directive
	all   []host.Directive
}

// hostAt finds the section that begins at a line of a file; nil: there is none.
func hostAt(directives []host.Directive, at Position) *apacheHost {
	var h *apacheHost
	for _, d := range directives {
		if d.File.Path != at.Path {
			continue
		}
		if h == nil {
			if d.Line == at.Line && d.Name == "<virtualhost" {
				h = &apacheHost{start: d}
			}
			continue
		}
		if slices.ContainsFunc(d.Within, func(s host.Section) bool { return s.Name == "virtualhost" && s.Line == at.Line }) {
			h.all = append(h.all, d)
		}
	}
	return h
}

// first returns the arguments of the first directive of that name.
func (h *apacheHost) first(name string) []string {
	for _, d := range h.all {
		if d.Name == name {
			return d.Args
		}
	}
	return nil
}

// names are ServerName and ServerAlias, without scheme and port.
func (h *apacheHost) names() (names []string) {
	for _, d := range h.all {
		if d.Name == "servername" || d.Name == "serveralias" {
			for _, n := range d.Args {
				if _, after, ok := strings.Cut(n, "://"); ok {
					n = after
				}
				n, _, _ = strings.Cut(n, ":")
				names = append(names, n)
			}
		}
	}
	return names
}

// listen is a Listen of Apache.
type listen struct {
	host.Directive
	port int
	any  bool // on every address
}

// apache plans the changes of Apache: the sites of one port move to a port of the
// loopback. With TLS these are the sites on 443, and what is on port 80 stays.
func (d *decider) apache() {
	a := d.m.Apache
	d.plan.Server, d.plan.Check = "apache2", []string{"apache2ctl", "configtest"}
	if a.Fault != "" {
		d.block("Apache's configuration cannot be read", a.Fault, "put that right; apache2ctl configtest shows more")
		return
	}
	all := parseAllApache(a)
	d.apacheForeign(all)
	hosts := d.apacheHosts(all)
	listens := d.apacheListens(all)
	if len(d.plan.Obstacles) > 0 {
		return
	}
	plain, secured := hosts[d.m.Place.HTTP], hosts[d.m.Place.HTTPS]
	d.secure = len(secured) > 0
	switch {
	case len(plain)+len(secured) == 0:
		d.block("Apache has no site: no <VirtualHost> is in force", "setup moves sites, and leaves the main server alone", "put the site into a <VirtualHost *:80>")
	case d.secure:
		d.apacheRedirects(plain)
		d.apacheSecured(secured)
		d.apacheMove(listens, secured, d.m.Place.HTTPS, d.m.Place.InnerHTTPS)
	default:
		d.apacheMove(listens, plain, d.m.Place.HTTP, d.m.Place.InnerHTTP)
	}
	d.apacheOthers(listens, hosts)
	d.apacheAddresses()
}

func parseAllApache(a *Apache) (all []host.Directive) {
	for i := range a.Files {
		all = append(all, host.ParseApache(&a.Files[i])...)
	}
	return all
}

// apacheForeign finds what setup must not judge.
func (d *decider) apacheForeign(all []host.Directive) {
	for _, x := range all {
		at := fmt.Sprintf("%s:%d", x.File.Path, x.Line)
		switch x.Name {
		case "remoteipheader":
			d.block(at+": mod_remoteip is in use", "another proxy is in front of Apache already, and tempomat-proxy must trust its addresses",
				"name it in trustedProxies, and "+byHand)
		case "sslverifyclient":
			if !slices.ContainsFunc(x.Args, func(s string) bool { return strings.EqualFold(s, "none") }) {
				d.block(at+": SSLVerifyClient", "only the server that ends TLS can ask clients for their certificates, and tempomat-proxy does not ask",
					"leave TLS with Apache and use recipes/apache-tls.md of "+manuals)
			}
		case "mdomain", "<mdomainset", "mdcertificatefile":
			d.block(at+": Apache gets its certificates itself (mod_md)", "it keeps them where only Apache reads them",
				"get them by certbot, or let tempomat-proxy get them (tls: {acme: …})")
		case "use":
			d.block(at+": a macro is used", "setup cannot see which lines the sites come from", "write them out, or "+byHand)
		}
	}
}

// apacheHosts sorts the sites by their port.
func (d *decider) apacheHosts(all []host.Directive) map[int][]*apacheHost {
	hosts := map[int][]*apacheHost{}
	for _, at := range d.m.Apache.Hosts {
		where := fmt.Sprintf("%s:%d", at.Path, at.Line)
		h := hostAt(all, at)
		if h == nil || h.start.Joined {
			d.block(where+": the site is not written there as a plain <VirtualHost>", "a macro or a generated file may have made it",
				byHand)
			continue
		}
		port, ok := hostPort(h.start.Args)
		if !ok {
			d.block(fmt.Sprintf("%s: <VirtualHost %s>", where, strings.Join(h.start.Args, " ")), "setup moves sites that are for all addresses and one port, such as *:80",
				"write it so, or "+byHand)
			continue
		}
		hosts[port] = append(hosts[port], h)
	}
	return hosts
}

// hostPort returns the port of a <VirtualHost> that is for all addresses.
func hostPort(args []string) (int, bool) {
	if len(args) != 1 {
		return 0, false
	}
	for _, any := range []string{"*:", "_default_:", "0.0.0.0:", "[::]:"} {
		if p, ok := strings.CutPrefix(args[0], any); ok {
			n, err := strconv.Atoi(p)
			return n, err == nil
		}
	}
	return 0, false
}

// apacheListens reads what Apache listens to.
func (d *decider) apacheListens(all []host.Directive) (listens []listen) {
	for _, x := range all {
		if x.Name != "listen" {
			continue
		}
		where := fmt.Sprintf("%s:%d", x.File.Path, x.Line)
		active, known := inForce(x, d.m.Apache.Modules)
		if !known {
			d.block(where+": Listen within <"+x.Within[len(x.Within)-1].Name+">", "setup cannot tell whether it is in force", "write it outside")
			continue
		}
		if !active {
			continue
		}
		l := listen{Directive: x}
		var ok bool
		if len(x.Args) > 0 {
			l.port, l.any, ok = listenPort(x.Args[0])
		}
		if !ok || x.Joined {
			d.block(where+": Listen "+strings.Join(x.Args, " "), "that is no port and no address with a port", "write the number itself there")
			continue
		}
		listens = append(listens, l)
	}
	return listens
}

// listenPort reads "80", "*:80", "[::]:80" or "192.0.2.1:80".
func listenPort(arg string) (port int, any, ok bool) {
	address, text := "", arg
	if i := strings.LastIndexByte(arg, ':'); i >= 0 {
		address, text = arg[:i], arg[i+1:]
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, false, false
	}
	if address == "" || address == "*" {
		return port, true, true
	}
	ip, err := netip.ParseAddr(strings.Trim(address, "[]"))
	return port, err == nil && ip.IsUnspecified(), err == nil
}

// apacheMove moves a port, and its sites, to the loopback.
func (d *decider) apacheMove(listens []listen, hosts []*apacheHost, from, to int) {
	var taken []int
	for _, l := range listens {
		taken = append(taken, l.port)
	}
	d.inner = d.freePort(to, taken)
	moved := false
	for _, l := range listens {
		switch {
		case l.port != from:
		case !l.any:
			d.block(fmt.Sprintf("%s:%d: Listen %s", l.File.Path, l.Line, l.Args[0]), "setup moves a Listen that is for all addresses; it cannot judge which of several are meant",
				byHand)
		case moved:
			d.edit(l.File, l.Line, leading(l.Raw())+"# tempomat: "+strings.TrimSpace(l.Raw()))
		default:
			moved = true
			d.edit(l.File, l.Line, fmt.Sprintf("%sListen 127.0.0.1:%d%s", leading(l.Raw()), d.inner, map[bool]string{true: " https"}[d.secure]))
		}
	}
	if !moved {
		d.block(fmt.Sprintf("no Listen %d is in force", from), "there are sites for that port", "add it to ports.conf, or disable these sites")
	}
	d.apacheLoosen(hosts)
	d.plan.Probes = append(d.plan.Probes, probesOf(hosts, from, d.secure)...)
}

// apacheLoosen takes sites' port away. Apache names none in its own redirects then: the
// visitor's is another one than Apache's.
func (d *decider) apacheLoosen(hosts []*apacheHost) {
	for _, h := range hosts {
		d.edit(h.start.File, h.start.Line, leading(h.start.Raw())+"<VirtualHost *>")
	}
}

// apacheAdopt gives sites without a port the public one, and tells whether Apache listens there.
func (d *decider) apacheAdopt(port int) (served bool) {
	if d.m.Apache.Fault != "" {
		return true // Apache's own check tells more
	}
	all := parseAllApache(d.m.Apache)
	for _, at := range d.m.Apache.Hosts {
		h := hostAt(all, at)
		if h == nil || h.start.Joined || !slices.Equal(h.start.Args, []string{"*"}) {
			continue
		}
		to := d.m.Place.HTTP
		if on := h.first("sslengine"); len(on) == 1 && strings.EqualFold(on[0], "on") {
			to = d.m.Place.HTTPS
		}
		d.edit(h.start.File, h.start.Line, fmt.Sprintf("%s<VirtualHost *:%d>", leading(h.start.Raw()), to))
	}
	return slices.ContainsFunc(all, func(x host.Directive) bool {
		active, known := inForce(x, d.m.Apache.Modules)
		if x.Name != "listen" || !active && known || len(x.Args) == 0 {
			return false
		}
		at, any, ok := listenPort(x.Args[0])
		return !ok || any && at == port // another address may be what is meant
	})
}

// probesOf asks each site for its first page.
func probesOf(hosts []*apacheHost, port int, secure bool) (probes []Probe) {
	for _, h := range hosts {
		name := "localhost"
		if names := h.names(); len(names) > 0 && !strings.ContainsAny(names[0], "*?$") {
			name = names[0]
		}
		if p := (Probe{Port: port, TLS: secure, Host: name}); !slices.Contains(probes, p) && len(probes) < 16 {
			probes = append(probes, p)
		}
	}
	return probes
}

// apacheOthers looks at the ports that stay.
func (d *decider) apacheOthers(listens []listen, hosts map[int][]*apacheHost) {
	for _, l := range listens {
		moved := d.m.Place.HTTP
		if d.secure {
			moved = d.m.Place.HTTPS
		}
		switch {
		case l.port == moved:
		case len(hosts[l.port]) == 0:
			d.block(fmt.Sprintf("%s:%d: Listen %s has no site", l.File.Path, l.Line, l.Args[0]), "the sites that move are for any port, so they would be served there, past tempomat-proxy",
				"remove the line (for 443 without a TLS site: a2dismod ssl), or give it a <VirtualHost>")
		case l.port != d.m.Place.HTTP:
			d.pastProxy(l.port, "Apache")
		}
	}
}

// apacheAddresses lets Apache see the clients' addresses.
func (d *decider) apacheAddresses() {
	dir := d.m.Apache.Dir
	text := "# Written by tempomat-proxy setup: the client is whom tempomat-proxy names, in logs,\n# in Require ip and in PHP's REMOTE_ADDR.\n" +
		"RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1 ::1\n"
	if d.secure { // otherwise Apache from 2.4.66 on answers 421, because these sites have several certificates
		text += "# Over one connection tempomat-proxy asks for all sites.\n<IfDirective SSLVHostSNIPolicy>\n\tSSLVHostSNIPolicy authonly\n</IfDirective>\n"
	}
	d.create(path.Join(dir, "conf-available/tempomat.conf"), text)
	d.link(path.Join(dir, "conf-enabled/tempomat.conf"), "../conf-available/tempomat.conf", "a2enconf tempomat")
	if !slices.Contains(d.m.Apache.Modules, "remoteip_module") {
		d.link(path.Join(dir, "mods-enabled/remoteip.load"), "../mods-available/remoteip.load", "a2enmod remoteip")
	}
}

func leading(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// apacheSecured looks at the sites that have TLS.
func (d *decider) apacheSecured(hosts []*apacheHost) {
	for _, h := range hosts {
		where := fmt.Sprintf("%s:%d", h.start.File.Path, h.start.Line)
		cert, key := h.first("sslcertificatefile"), h.first("sslcertificatekeyfile")
		if len(cert) != 1 || len(key) != 1 || h.first("sslcertificatechainfile") != nil {
			d.block(where+": the site does not name its certificate by SSLCertificateFile and SSLCertificateKeyFile alone",
				"tempomat-proxy ends TLS with the same files", "name both there, the authorities' certificates in the first file (as certbot's fullchain.pem has them)")
			continue
		}
		d.certify(cert[0], key[0], where)
	}
}

// apacheRedirects looks at the plain port, which stays with Apache.
func (d *decider) apacheRedirects(hosts []*apacheHost) {
	pages := false
	for _, h := range hosts {
		if !h.redirects() {
			pages = true
			d.plainPages(fmt.Sprintf("%s:%d", h.start.File.Path, h.start.Line), "disable it with a2dissite, or let it redirect: Redirect permanent / https://YOUR-NAME/")
		}
	}
	if len(hosts) > 0 && !pages {
		d.note("Port %d stays with Apache, which redirects to https there. Certificates are still renewed through it. Requests that its rules leave out bypass tempomat-proxy.", d.m.Place.HTTP)
	}
}

// plainPages notes a site that serves pages without TLS, in addition to sites with it.
func (d *decider) plainPages(where, do string) {
	d.note("%s serves pages on port %d, next to TLS sites on %d. Port %[2]d stays with %[4]s, so requests there bypass tempomat-proxy. To close that: %s",
		where, d.m.Place.HTTP, d.m.Place.HTTPS, d.plan.Server, do)
}

// redirects reports whether a site redirects requests to https, as certbot or a person sets it
// up. Names that conditions leave out, and renewals of certificates, don't count.
func (h *apacheHost) redirects() bool {
	return slices.ContainsFunc(h.all, func(x host.Directive) bool {
		n := len(x.Args)
		if n < 2 || len(x.Within) != len(h.start.Within)+1 { // in a <Location> or the like
			return false
		}
		switch x.Name {
		case "redirect", "redirectpermanent":
			return x.Args[n-2] == "/" && strings.HasPrefix(x.Args[n-1], "https://")
		case "rewriterule":
			everything := strings.Trim(x.Args[0], "^$().*/?") == ""
			return everything && strings.HasPrefix(x.Args[1], "https://")
		}
		return false
	})
}
