package setup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"tempomat/proxy/host"
)

// nginxServer is a server block of nginx.
type nginxServer struct {
	*host.Statement
	listens []nginxListen
}

// nginxListen is a listen of nginx.
type nginxListen struct {
	*host.Statement
	port    int
	any     bool
	secure  bool
	chosen  bool // default_server
	unknown string
}

// parseNginx reads the main file and what it includes, of the files that nginx says it reads.
func parseNginx(n *Nginx) (*host.Statement, error) {
	if len(n.Files) == 0 {
		return nil, errors.New("nginx names no file")
	}
	return host.ParseNginx(&n.Files[0], func(pattern string) (files []*host.ConfigFile) {
		if !path.IsAbs(pattern) {
			pattern = path.Join(n.Dir, pattern)
		}
		for i := range n.Files {
			if ok, err := path.Match(pattern, n.Files[i].Path); err == nil && ok {
				files = append(files, &n.Files[i])
			}
		}
		slices.SortFunc(files, func(a, b *host.ConfigFile) int { return strings.Compare(a.Path, b.Path) })
		return files
	})
}

// nginx plans the changes of nginx, in the way of those of Apache.
func (d *decider) nginx() {
	n := d.m.Nginx
	d.plan.Server, d.plan.Check = "nginx", []string{"nginx", "-t"}
	if n.Fault != "" {
		d.block("nginx's configuration cannot be read", n.Fault, "put that right; nginx -t shows more")
		return
	}
	if !n.RealIP {
		d.block("this nginx cannot take clients' addresses from a header", "it was built without the realip module", "apt install nginx")
	}
	root, err := parseNginx(n)
	if err != nil {
		d.block("nginx's files hold what setup does not understand", err.Error(), byHand)
		return
	}
	servers := d.nginxServers(root)
	if len(d.plan.Obstacles) > 0 {
		return
	}
	d.secure = slices.ContainsFunc(servers, func(s nginxServer) bool { return s.on(d.m.Place.HTTPS) })
	from, to := d.m.Place.HTTP, d.m.Place.InnerHTTP
	if d.secure {
		from, to = d.m.Place.HTTPS, d.m.Place.InnerHTTPS
	}
	var taken []int
	moving := 0
	for _, s := range servers {
		for _, l := range s.listens {
			taken = append(taken, l.port)
		}
		if s.on(from) {
			moving++
		}
	}
	if moving == 0 {
		d.block(fmt.Sprintf("nginx has no site on port %d", from), "setup moves such sites", "see nginx -T: is your site enabled?")
		return
	}
	d.inner = d.freePort(to, taken)
	for _, s := range servers {
		d.nginxServer(s, from)
	}
	d.create(path.Join(n.Dir, "conf.d/tempomat.conf"),
		"# Written by tempomat-proxy setup: the client is whom tempomat-proxy names, in logs,\n# in allow and deny, and in PHP's REMOTE_ADDR.\n"+
			"set_real_ip_from 127.0.0.1;\nset_real_ip_from ::1;\nreal_ip_header X-Forwarded-For;\nreal_ip_recursive on;\n")
	if !slices.ContainsFunc(root.Walk(), func(s *host.Statement) bool {
		return s.Name() == "include" && len(s.Words) == 2 && strings.HasSuffix(s.Words[1], "conf.d/*.conf")
	}) {
		d.block("nginx.conf does not include conf.d/*.conf", "setup puts a file there", "add to the http block: include /etc/nginx/conf.d/*.conf;")
	}
}

// nginxAdopt gives sites that listen on the inner address the public port, and tells whether
// nginx listens there.
func (d *decider) nginxAdopt(port int, inner string) (served bool) {
	root, err := parseNginx(d.m.Nginx)
	if err != nil || d.m.Nginx.Fault != "" {
		return true // nginx's own check tells more
	}
	for _, s := range d.nginxServers(root) {
		served = served || s.on(port)
		for _, l := range s.listens {
			if l.Statement == nil || len(l.Words) < 2 || l.Words[1] != inner {
				continue
			}
			line := strings.Split(l.File.Text, "\n")[l.Line()-1]
			d.edit(l.File, l.Line(), strings.Replace(strings.Replace(line, inner, strconv.Itoa(port), 1), " port_in_redirect off;", "", 1))
			served = true
		}
	}
	return served
}

// on reports whether the server listens on a port.
func (s nginxServer) on(port int) bool {
	return slices.ContainsFunc(s.listens, func(l nginxListen) bool { return l.port == port })
}

// nginxServers reads the server blocks, and finds what setup must not judge.
func (d *decider) nginxServers(root *host.Statement) (servers []nginxServer) {
	for _, s := range root.Walk() {
		if d.own(s.File) {
			continue
		}
		switch s.Name() {
		case "real_ip_header", "set_real_ip_from":
			d.block(s.Place()+": "+s.Name()+" is in use", "another proxy is in front of nginx already, and tempomat-proxy must trust its addresses",
				"name it in trustedProxies, and "+byHand)
		case "ssl_verify_client":
			d.block(s.Place()+": ssl_verify_client", "only the server that ends TLS can ask clients for their certificates, and tempomat-proxy does not ask",
				"leave TLS with nginx and use recipes/nginx-tls.md of "+manuals)
		case "stream":
			if s.Open {
				d.block(s.Place()+": a stream block", "it may hand on connections of the ports that move", byHand)
			}
		}
	}
	for _, web := range root.Find("http") {
		for _, s := range web.Find("server") {
			server := nginxServer{Statement: s}
			for _, l := range s.Find("listen") {
				server.listens = append(server.listens, readListen(l))
			}
			if len(server.listens) == 0 { // as nginx has it, started by root
				server.listens = []nginxListen{{Statement: nil, port: 80, any: true}}
			}
			servers = append(servers, server)
		}
	}
	return servers
}

// readListen takes a listen apart.
func readListen(s *host.Statement) nginxListen {
	l := nginxListen{Statement: s}
	if len(s.Words) < 2 {
		l.unknown = "nothing"
		return l
	}
	port, all, ok := listenPort(s.Words[1])
	l.port, l.any = port, all
	if !ok {
		l.unknown = s.Words[1]
	}
	for _, w := range s.Words[2:] {
		switch {
		case w == "ssl":
			l.secure = true
		case w == "default_server" || w == "default":
			l.chosen = true
		case w == "http2", strings.HasPrefix(w, "ipv6only="), strings.HasPrefix(w, "backlog="), w == "deferred":
		default:
			l.unknown = w
		}
	}
	return l
}

// nginxServer moves a server block, or looks whether it may stay.
func (d *decider) nginxServer(s nginxServer, from int) {
	if !s.on(from) {
		for _, l := range s.listens {
			d.nginxStays(s, l)
		}
		return
	}
	for _, l := range s.listens {
		switch {
		case l.port == from && (l.unknown != "" || !l.any):
			d.block(s.where(l)+": "+strings.Join(l.Words, " "), "setup moves a listen for all addresses without special options", byHand)
			return
		case l.port == from && d.secure && !l.secure:
			d.block(l.Place()+": port 443 without ssl", "setup takes it for the port of TLS", byHand)
			return
		case l.port != from:
			d.nginxStays(s, l)
		}
	}
	if d.secure {
		d.nginxCertificates(s)
	}
	if p := s.Find("port_in_redirect"); len(p) > 0 && !slices.Equal(p[0].Words[1:], []string{"off"}) {
		d.block(p[0].Place()+": port_in_redirect", "nginx would send visitors to the port of the loopback", "remove it")
	}
	d.nginxMove(s, from)
	d.plan.Probes = append(d.plan.Probes, Probe{Port: from, TLS: d.secure, Host: s.hostName()})
}

// where names a listen for people.
func (s nginxServer) where(l nginxListen) string {
	if l.Statement == nil {
		return s.Place()
	}
	return l.Place()
}

// nginxMove exchanges the listens of a server for one on the loopback.
func (d *decider) nginxMove(s nginxServer, from int) {
	text := fmt.Sprintf("listen 127.0.0.1:%d", d.inner)
	if d.secure {
		text += " ssl"
	}
	if s.chosen(from) {
		text += " default_server"
	}
	text += ";"
	if len(s.Find("port_in_redirect")) == 0 {
		text += " port_in_redirect off;"
	}
	moved := false
	for _, l := range s.listens {
		if l.port != from {
			continue
		}
		if l.Statement == nil {
			d.nginxAdd(s, text)
			return
		}
		line, ok := ownLine(l.Statement)
		switch {
		case !ok:
			d.block(l.Place()+": listen shares its line", "setup exchanges whole lines", "give it a line of its own")
			return
		case moved:
			d.edit(l.File, l.Line(), leading(line)+"# tempomat: "+strings.TrimSpace(line))
		default:
			moved = true
			d.edit(l.File, l.Line(), leading(line)+text)
		}
	}
}

// nginxAdd adds a listen to a server that has none.
func (d *decider) nginxAdd(s nginxServer, text string) {
	at := strings.Count(s.File.Text[:s.End], "\n") + 1 // of its brace
	line := strings.Split(s.File.Text, "\n")[at-1]
	if rest := strings.TrimSpace(line[s.End-lineStart(s.File.Text, s.End-1):]); rest != "" && !strings.HasPrefix(rest, "#") {
		d.block(s.Place()+": a server without listen, in one line", "setup exchanges whole lines", "write listen 80; into it, on a line of its own")
		return
	}
	d.edit(s.File, at, line, leading(line)+"\t"+text)
}

// ownLine returns the line of a statement, if nothing but a comment shares it.
func ownLine(s *host.Statement) (line string, ok bool) {
	text := s.File.Text
	from, to := lineStart(text, s.Begin), len(text)
	if n := strings.IndexByte(text[s.Begin:], '\n'); n >= 0 {
		to = s.Begin + n
	}
	if s.End > to {
		return "", false
	}
	rest := strings.TrimSpace(text[s.End:to])
	return text[from:to], strings.TrimSpace(text[from:s.Begin]) == "" && (rest == "" || strings.HasPrefix(rest, "#"))
}

// chosen reports whether the server is the default one of a port.
func (s nginxServer) chosen(port int) bool {
	return slices.ContainsFunc(s.listens, func(l nginxListen) bool { return l.port == port && l.chosen })
}

func lineStart(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

// nginxStays looks at a listen on another port.
func (d *decider) nginxStays(s nginxServer, l nginxListen) {
	switch {
	case l.unknown != "" && l.port == 0 && !strings.HasPrefix(l.unknown, "unix:"):
		d.block(l.Place()+": "+strings.Join(l.Words, " "), "setup cannot tell which port it is", "write the number there")
	case l.port == d.m.Place.HTTP && !s.redirects():
		d.plainPages(s.where(l), "remove it, or give port 80 a server block of its own that redirects: return 301 https://$host$request_uri;")
	case l.port == d.m.Place.HTTP:
		d.note("Port %d stays with nginx, as %s only redirects there: what renews certificates through it goes on.", l.port, s.Place())
	default:
		d.note("Port %d of %s stays with nginx: its requests go past tempomat-proxy.", l.port, s.where(l))
	}
}

// redirects reports whether the server only redirects: it has a return outside of locations, or
// each of its locations has one, except those for renewing certificates.
func (s nginxServer) redirects() bool {
	if len(s.Find("return")) > 0 {
		return true
	}
	root := false
	for _, l := range s.Find("location") {
		where := l.Words[len(l.Words)-1]
		if strings.HasPrefix(where, "/.well-known/") {
			continue
		}
		if len(l.Find("return")) == 0 {
			return false
		}
		root = root || where == "/"
	}
	return root
}

// nginxCertificates takes in the certificates of a server.
func (d *decider) nginxCertificates(s nginxServer) {
	certs, keys := s.Find("ssl_certificate"), s.Find("ssl_certificate_key")
	if len(certs) == 0 || len(certs) != len(keys) {
		d.block(s.Place()+": the site does not name its certificate by ssl_certificate and ssl_certificate_key itself", "tempomat-proxy ends TLS with the same files",
			"write both into the server block")
		return
	}
	for i := range certs {
		if len(certs[i].Words) == 2 && len(keys[i].Words) == 2 {
			d.certify(certs[i].Words[1], keys[i].Words[1], certs[i].Place())
		}
	}
}

// hostName is a name that the server serves.
func (s nginxServer) hostName() string {
	for _, names := range s.Find("server_name") {
		for _, n := range names.Words[1:] {
			if n != "_" && !strings.ContainsAny(n, "*~$\"") && !strings.HasPrefix(n, ".") {
				return n
			}
		}
	}
	return "localhost"
}
