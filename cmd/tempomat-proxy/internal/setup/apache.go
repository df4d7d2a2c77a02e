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

// inForce reports whether Apache applies a directive, given the <IfModule> sections around it. known is
// false if the directive is in a section with a different kind of condition.
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

// apacheHost is a <VirtualHost> with the directives in it.
type apacheHost struct {
	start host.Directive
	all   []host.Directive
}

// hostAt returns the section that begins at a line of a file, or nil.
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

// names returns the arguments of ServerName and ServerAlias, without scheme and port.
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

// listen is a Listen directive of Apache.
type listen struct {
	host.Directive
	port int
	any  bool // it listens on all addresses
}

// apache plans the changes to Apache. The sites of one port move to a port on the loopback interface. If there are
// sites with TLS, those on port 443 move, and those on port 80 stay.
func (d *decider) apache() {
	a := d.m.Apache
	if a.Fault != "" {
		d.block("Apache's configuration can't be read", a.Fault, "correct the error; apache2ctl configtest shows more")
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
		d.block(fmt.Sprintf("Apache has no site on port %d or %d: no active <VirtualHost> has one of these ports", d.m.Place.HTTP, d.m.Place.HTTPS), "setup moves only sites, and does not change the main server", "put the site into a <VirtualHost *:80>")
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

// apacheForeign reports directives that setup can't handle.
func (d *decider) apacheForeign(all []host.Directive) {
	for _, x := range all {
		at := fmt.Sprintf("%s:%d", x.File.Path, x.Line)
		switch x.Name {
		case "remoteipheader":
			d.block(at+": mod_remoteip is in use", "another proxy is already in front of Apache, and tempomat-proxy must trust its addresses",
				"list it in trustedProxies, and "+byHand)
		case "sslverifyclient":
			if !slices.ContainsFunc(x.Args, func(s string) bool { return strings.EqualFold(s, "none") }) {
				d.block(at+": SSLVerifyClient", "only the server that terminates TLS can ask clients for certificates, and tempomat-proxy never asks for them",
					"let Apache terminate TLS: use recipes/apache-tls.md in "+manuals)
			}
		case "mdomain", "<mdomainset", "mdcertificatefile":
			d.block(at+": Apache gets its certificates itself (mod_md)", "mod_md keeps them where only Apache can read them",
				"get them with certbot, or let tempomat-proxy get them (tls: {acme: …})")
		case "use":
			d.block(at+": a macro is used", "setup can't tell which lines define the sites", "write the sites out, or "+byHand)
		}
	}
}

// apacheHosts returns the sites by their port.
func (d *decider) apacheHosts(all []host.Directive) map[int][]*apacheHost {
	hosts := map[int][]*apacheHost{}
	for _, at := range d.m.Apache.Hosts {
		where := fmt.Sprintf("%s:%d", at.Path, at.Line)
		h := hostAt(all, at)
		if h == nil || h.start.Joined {
			d.block(where+": the site is not a plain <VirtualHost> there", "a macro or a generated file may define it",
				byHand)
			continue
		}
		port, ok := hostPort(h.start.Args)
		if !ok {
			d.block(fmt.Sprintf("%s: <VirtualHost %s>", where, strings.Join(h.start.Args, " ")), "setup can move a site only if its <VirtualHost> is for all addresses and one port, such as *:80",
				"write it like that, or "+byHand)
			continue
		}
		hosts[port] = append(hosts[port], h)
	}
	return hosts
}

// hostPort returns the port of a <VirtualHost> for all addresses.
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

// apacheListens returns the Listen directives that Apache applies.
func (d *decider) apacheListens(all []host.Directive) (listens []listen) {
	for _, x := range all {
		if x.Name != "listen" {
			continue
		}
		where := fmt.Sprintf("%s:%d", x.File.Path, x.Line)
		active, known := inForce(x, d.m.Apache.Modules)
		if !known {
			d.block(where+": Listen inside <"+x.Within[len(x.Within)-1].Name+">", "setup can't tell whether Apache applies it", "move it out of that section")
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
			d.block(where+": Listen "+strings.Join(x.Args, " "), "this is neither a port nor an address with a port", "write the port as a number")
			continue
		}
		listens = append(listens, l)
	}
	return listens
}

// listenPort parses "80", "*:80", "[::]:80" or "192.0.2.1:80".
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

// apacheMove moves a port and its sites to the loopback interface.
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
			d.block(fmt.Sprintf("%s:%d: Listen %s", l.File.Path, l.Line, l.Args[0]), "setup moves only a Listen for all addresses; it can't tell which of several addresses should move",
				byHand)
		case moved:
			d.edit(l.File, l.Line, leading(l.Raw())+"# tempomat: "+strings.TrimSpace(l.Raw()))
		default:
			moved = true
			d.edit(l.File, l.Line, fmt.Sprintf("%sListen 127.0.0.1:%d%s", leading(l.Raw()), d.inner, map[bool]string{true: " https"}[d.secure]))
		}
	}
	if !moved {
		d.block(fmt.Sprintf("Apache has no active Listen %d", from), "there are sites for that port", "add Listen to ports.conf, or disable these sites")
	}
	d.apacheLoosen(hosts)
	d.plan.Probes = append(d.plan.Probes, probesOf(hosts, from, d.secure)...)
}

// apacheLoosen removes the port from sites. Otherwise Apache's redirects would contain this port, which visitors
// can't reach.
func (d *decider) apacheLoosen(hosts []*apacheHost) {
	for _, h := range hosts {
		d.edit(h.start.File, h.start.Line, leading(h.start.Raw())+"<VirtualHost *>")
	}
}

// apacheAdopt adds the public port to sites that have no port. It reports whether Apache listens on that
// port.
func (d *decider) apacheAdopt(port int) (served bool) {
	if d.m.Apache.Fault != "" {
		return true // Apache's own check reports the error
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
		return !ok || any && at == port // a Listen that can't be parsed is assumed to be the right one
	})
}

// probesOf returns a probe for the home page of each site.
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

// apacheOthers checks the ports that Apache keeps.
func (d *decider) apacheOthers(listens []listen, hosts map[int][]*apacheHost) {
	for _, l := range listens {
		moved := d.m.Place.HTTP
		if d.secure {
			moved = d.m.Place.HTTPS
		}
		switch {
		case l.port == moved:
		case len(hosts[l.port]) == 0:
			d.block(fmt.Sprintf("%s:%d: Listen %s has no site", l.File.Path, l.Line, l.Args[0]), "the moved sites are for any port, so Apache would also serve them on this port, bypassing tempomat-proxy",
				"remove the line (for 443 without a TLS site: a2dismod ssl), or give it a <VirtualHost>")
		case l.port != d.m.Place.HTTP:
			d.note("Port %d stays with Apache, so its requests bypass tempomat-proxy.", l.port)
		}
	}
}

// apacheAddresses makes Apache see the clients' addresses instead of the proxy's.
func (d *decider) apacheAddresses() {
	dir := d.m.Apache.Dir
	text := "# Written by tempomat-proxy setup: logs, Require ip and PHP's REMOTE_ADDR use the client's\n# address as tempomat-proxy reports it.\n" +
		"RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1 ::1\n"
	if d.secure { // without this, Apache 2.4.66 and later respond with 421, because these sites have several certificates
		text += "# tempomat-proxy uses the same connections for all sites.\n<IfDirective SSLVHostSNIPolicy>\n\tSSLVHostSNIPolicy authonly\n</IfDirective>\n"
	}
	d.create(path.Join(dir, "conf-available/tempomat.conf"), text)
	d.link(path.Join(dir, "conf-enabled/tempomat.conf"), "../conf-available/tempomat.conf", "a2enconf tempomat")
	if !slices.Contains(d.m.Apache.Modules, "remoteip_module") {
		d.link(path.Join(dir, "mods-enabled/remoteip.load"), "../mods-available/remoteip.load", "a2enmod remoteip")
	}
}

func leading(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// apacheSecured uses the certificates of the sites with TLS for the proxy.
func (d *decider) apacheSecured(hosts []*apacheHost) {
	for _, h := range hosts {
		where := fmt.Sprintf("%s:%d", h.start.File.Path, h.start.Line)
		cert, key := h.first("sslcertificatefile"), h.first("sslcertificatekeyfile")
		if len(cert) != 1 || len(key) != 1 || h.first("sslcertificatechainfile") != nil {
			d.block(where+": the site does not name its certificate with only one SSLCertificateFile and one SSLCertificateKeyFile",
				"tempomat-proxy terminates TLS with the same files", "name both files in the site; the first one must include the authorities' certificates (like certbot's fullchain.pem)")
			continue
		}
		d.certify(cert[0], key[0], where)
	}
}

// apacheRedirects adds notes about sites on the plain port that serve pages, because Apache keeps that port.
func (d *decider) apacheRedirects(hosts []*apacheHost) {
	pages := false
	for _, h := range hosts {
		if !h.redirects() {
			pages = true
			d.note("%s:%d serves pages on port %d, although there are TLS sites on port %d. Port %[3]d stays with Apache, so requests to it bypass tempomat-proxy. "+
				"To prevent that, disable the site with a2dissite, or make it redirect: Redirect permanent / https://YOUR-NAME/",
				h.start.File.Path, h.start.Line, d.m.Place.HTTP, d.m.Place.HTTPS)
		}
	}
	if len(hosts) > 0 && !pages {
		d.note("Port %d stays with Apache, which redirects its requests to https. Certificates are still renewed through this port. Requests that Apache doesn't redirect bypass tempomat-proxy.", d.m.Place.HTTP)
	}
}

// redirects reports whether a site redirects all requests to https, in the way that certbot or an administrator
// configures. Conditions that exclude some host names, or the renewal of certificates, don't matter.
func (h *apacheHost) redirects() bool {
	rewrites := false // the last RewriteEngine applies
	for _, x := range h.all {
		if x.Name == "rewriteengine" && h.direct(x) {
			rewrites = len(x.Args) == 1 && strings.EqualFold(x.Args[0], "on")
		}
	}
	somePaths := false // a condition limits the next RewriteRule to some paths
	for _, x := range h.all {
		n := len(x.Args)
		if n < 2 || !h.direct(x) {
			continue
		}
		switch x.Name {
		case "redirect", "redirectpermanent":
			if x.Args[n-2] == "/" && strings.HasPrefix(x.Args[n-1], "https://") {
				return true
			}
		case "rewritecond":
			somePaths = somePaths || choosesPaths(x.Args[0]) && !strings.HasPrefix(x.Args[1], "!")
		case "rewriterule":
			everything := strings.Trim(x.Args[0], "^$().*/?") == ""
			if rewrites && everything && !somePaths && strings.HasPrefix(x.Args[1], "https://") {
				return true
			}
			somePaths = false
		}
	}
	return false
}

// direct reports whether a directive is directly in the site, not in a section inside the site.
func (h *apacheHost) direct(x host.Directive) bool { return len(x.Within) == len(h.start.Within)+1 }

// choosesPaths reports whether a RewriteCond tests a part of the URL.
func choosesPaths(tested string) bool {
	return slices.ContainsFunc([]string{"REQUEST_URI", "QUERY_STRING", "REQUEST_FILENAME"}, func(name string) bool {
		return strings.Contains(strings.ToUpper(tested), name)
	})
}
