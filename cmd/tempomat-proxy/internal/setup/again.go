package setup

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tempomat/proxy/host"
)

// again plans for the sites that were added since setup was here, for the port that the proxy
// has taken over: another site would answer for them, or the web server would not start.
func (d *decider) again() {
	j := d.m.Journal
	d.plan.Server, d.plan.Check, d.plan.Earlier = j.Server, j.Check, j
	port, secure := j.public()
	d.secure = secure
	_, inner, _ := strings.Cut(j.inner(), ":")
	_, _ = fmt.Sscan(inner, &d.inner) // 0 shows below
	switch {
	case port == 0 || d.inner == 0:
		d.plan.Done = true
		return
	case j.Server == "apache2" && d.m.Apache != nil:
		d.apacheAgain(port)
	case j.Server == "nginx" && d.m.Nginx != nil:
		d.nginxAgain(port)
	}
	if d.secure && len(d.edits) > 0 {
		d.certificatesKnown()
	}
	if len(d.plan.Obstacles) > 0 {
		return
	}
	if d.plan.Done = len(d.edits) == 0; d.plan.Done {
		return
	}
	if d.editFiles() {
		d.keys()
	}
}

func (d *decider) apacheAgain(port int) {
	a := d.m.Apache
	if a.Fault != "" {
		d.block("Apache's configuration cannot be read", a.Fault, "put that right; apache2ctl configtest tells more")
		return
	}
	all := parseAllApache(a)
	hosts := d.apacheHosts(all)
	for _, l := range d.apacheListens(all) {
		switch {
		case l.port == port && l.any:
			d.edit(l.File, l.Line, leading(l.Raw())+"# tempomat: "+strings.TrimSpace(l.Raw()))
		case l.port == port || l.port == d.inner || l.port == d.m.Place.HTTP:
		default:
			d.pastProxy(l.port, "Apache")
		}
	}
	if d.secure {
		d.apacheSecured(hosts[port])
	}
	d.apacheLoosen(hosts[port])
	d.plan.Probes = probesOf(hosts[port], port, d.secure)
}

func (d *decider) nginxAgain(port int) {
	if d.m.Nginx.Fault != "" {
		d.block("nginx's configuration cannot be read", d.m.Nginx.Fault, "put that right; nginx -t tells more")
		return
	}
	root, err := parseNginx(d.m.Nginx)
	if err != nil {
		d.block("nginx's files hold what setup does not understand", err.Error(), byHand)
		return
	}
	for _, s := range d.nginxServers(root) {
		if s.on(port) {
			d.nginxServer(s, port)
		}
	}
}

// pastProxy notes a port that the web server serves by itself.
func (d *decider) pastProxy(port int, server string) {
	text := fmt.Sprintf("Port %d stays with %s: its requests go past tempomat-proxy.", port, server)
	if d.m.Journal != nil && port == d.m.Place.HTTPS && !d.secure {
		text += " tempomat-proxy takes it over, with its certificates, by setup -undo and then setup -write."
	}
	if !slices.Contains(d.plan.Notes, text) {
		d.plan.Notes = append(d.plan.Notes, text)
	}
}

// certificatesKnown sees that tempomat's configuration, which is a person's by now, names the
// certificates of sites that move.
func (d *decider) certificatesKnown() {
	words := strings.FieldsFunc(d.m.Config.Text, func(r rune) bool { return strings.ContainsRune("[]{},\"' \t\n", r) })
	for _, c := range d.certs {
		if !slices.ContainsFunc(words, func(w string) bool { return w == c.chain || path.IsAbs(w) && strings.HasPrefix(c.chain, w+"/") }) {
			d.block(d.plan.Config+" does not name the certificate "+c.chain, "tempomat-proxy serves the site with it",
				fmt.Sprintf("add to tls.certificates, and run setup again:\n- {certificate: %s, key: %s}", yamlText(c.chain), yamlText(c.key)))
		}
	}
}

// own tells whether a file is one that setup made.
func (d *decider) own(f *host.ConfigFile) bool {
	return d.m.Journal != nil && slices.ContainsFunc(d.m.Journal.Changes, func(c Change) bool { return c.New && c.Path == f.Real })
}

// adopt has the sites that were added for the web server's inner address, as the manual says,
// serve the public's port again. It needs the files as they are after the way back.
func (w *worker) adopt(ctx context.Context, j *journal) error {
	d := newDecider(Machine{Place: w.place, Journal: j})
	var served bool
	port, _ := j.public()
	if j.Server == "apache2" {
		if d.m.Apache = gatherApache(ctx, w.place, w.run); d.m.Apache == nil {
			return nil
		}
		served = d.apacheAdopt(port)
	} else {
		if d.m.Nginx = gatherNginx(ctx, w.place, w.run); d.m.Nginx == nil {
			return nil
		}
		served = d.nginxAdopt(port, j.inner())
	}
	for _, real := range slices.Sorted(maps.Keys(d.edits)) {
		text, err := applyEdits(d.texts[real], d.edits[real])
		if err == nil {
			err = rewrite(real, text, real)
		}
		if err != nil {
			return err
		}
		for _, e := range d.edits[real] {
			fmt.Fprintf(w.out, "  %s:%d: %q came since; it is %q now\n", real, e.Line, strings.TrimSpace(e.Old), strings.TrimSpace(e.New[0]))
		}
	}
	if !served {
		return fmt.Errorf("%s would not listen on port %d: no line says so. Add it, as ports.conf or a site's file had it", j.Server, port)
	}
	return nil
}
