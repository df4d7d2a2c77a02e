package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tempomat/proxy/host"
)

// unitName is the unit of systemd that runs the proxy.
const unitName = "tempomat-proxy"

// proxyGroup is the group of the package's user, keyGroup Debian's of those who may read
// private keys (package ssl-cert).
const (
	proxyGroup = "tempomat"
	keyGroup   = "ssl-cert"
)

// manuals is where the packages put the documentation. byHand is what to do where setup
// does not.
const (
	manuals = "/usr/share/doc/tempomat/docs"
	byHand  = "do it by hand, as a recipe in " + manuals + "/recipes has it"
)

// Decide makes the plan for a machine. It reads nothing else.
func Decide(m Machine) Plan {
	d := newDecider(m)
	d.plan.Before = m.Service
	d.found()
	if m.JournalFault != nil {
		d.block("what setup did here cannot be read", m.JournalFault.Error(), "put the former files back by hand: their names end in "+backupEnd)
		return d.plan
	}
	if m.Journal != nil {
		d.plan.Done = true
		return d.plan
	}
	switch server := d.server(); server {
	case "apache2":
		d.apache()
	case "nginx":
		d.nginx()
	}
	if len(d.plan.Obstacles) == 0 {
		d.finish()
	}
	return d.plan
}

func newDecider(m Machine) *decider {
	d := &decider{m: m, edits: map[string][]Edit{}, shown: map[string]string{}, texts: map[string]string{}}
	d.plan.Systemd = m.Systemd
	d.plan.Config = m.Place.Root + "/etc/tempomat/tempomat.yaml"
	return d
}

// decider collects a plan.
type decider struct {
	m      Machine
	plan   Plan
	edits  map[string][]Edit // by the real path
	texts  map[string]string
	shown  map[string]string
	inner  int // the port that the server moves to
	secure bool
	certs  []certificate
}

func (d *decider) block(what, why, do string) {
	o := Obstacle{What: what, Why: why, Do: do}
	if !slices.Contains(d.plan.Obstacles, o) {
		d.plan.Obstacles = append(d.plan.Obstacles, o)
	}
}

func (d *decider) note(format string, args ...any) {
	d.plan.Notes = append(d.plan.Notes, fmt.Sprintf(format, args...))
}

// server chooses which web server is meant: the one that listens where the public asks,
// or the only one that is there. It is empty if that cannot be told.
func (d *decider) server() string {
	holders := map[string]int{}
	for _, s := range d.m.Sockets {
		if port := int(s.Address.Port()); port == d.m.Place.HTTP || port == d.m.Place.HTTPS {
			holders[s.Program] = port
		}
	}
	for name, port := range holders {
		switch name {
		case "apache2", "nginx":
		case "":
			d.block(fmt.Sprintf("an unknown program listens on port %d", port), "only root can see which", "run setup as root")
		case unitName:
			d.block(fmt.Sprintf("tempomat-proxy listens on port %d already", port), "it was set up by hand", "nothing, or undo that first")
		default:
			d.block(fmt.Sprintf("%s listens on port %d", name, port), "setup puts the proxy before Apache and nginx only",
				"end "+name+" if it should not be there; or let it send its requests to 127.0.0.1:8888, where tempomat-proxy listens by default, and name the web server behind it as backend")
		}
	}
	_, apache := holders["apache2"]
	_, nginx := holders["nginx"]
	switch {
	case len(d.plan.Obstacles) > 0:
		return ""
	case apache && nginx:
		d.block("both Apache and nginx serve the public", fmt.Sprintf("one listens on port %d, the other one on %d", holders["apache2"], holders["nginx"]),
			"decide which one is in front, and "+byHand)
	case apache, !nginx && d.m.Apache != nil && d.m.Nginx == nil:
		return "apache2"
	case nginx, d.m.Nginx != nil && d.m.Apache == nil:
		return "nginx"
	case d.m.Apache != nil && d.m.Nginx != nil:
		d.block("Apache and nginx are installed, and neither of them runs", "setup cannot tell which one serves your site", "start the one that does")
	default:
		d.block("there is neither Apache nor nginx", "setup puts the proxy before one of these, where Debian and Ubuntu have its files",
			"for another web server, write "+d.plan.Config+" with its address as backend; for another layout, "+byHand)
	}
	return ""
}

// edit exchanges a line of a file.
func (d *decider) edit(f *host.ConfigFile, line int, now ...string) {
	old := strings.Split(f.Text, "\n")[line-1]
	e := Edit{Line: line, Old: old, New: now}
	if !slices.ContainsFunc(d.edits[f.Real], func(o Edit) bool { return o.Line == line }) {
		d.edits[f.Real] = append(d.edits[f.Real], e)
	}
	d.texts[f.Real], d.shown[f.Real] = f.Text, f.Path
}

// freePort returns the first free one of twenty ports.
func (d *decider) freePort(from int, taken []int) int {
	for p := from; p < from+20; p++ {
		used := slices.ContainsFunc(d.m.Sockets, func(s host.Listening) bool { return int(s.Address.Port()) == p })
		if !used && !slices.Contains(taken, p) {
			return p
		}
	}
	d.block(fmt.Sprintf("no port from %d to %d is free", from, from+19), "the web server has to move to one of them", "stop what listens there")
	return from
}

// create adds a file that must not be there yet.
func (d *decider) create(name, text string) {
	d.plan.Changes = append(d.plan.Changes, Change{Path: name, New: true, After: text})
}

func (d *decider) link(name, target, command string) {
	d.plan.Changes = append(d.plan.Changes, Change{Path: name, New: true, Target: target, Command: command})
}

// editFiles turns the edits into changes.
func (d *decider) editFiles() bool {
	var edited []Change
	for real, edits := range d.edits {
		slices.SortFunc(edits, func(a, b Edit) int { return a.Line - b.Line })
		after, err := applyEdits(d.texts[real], edits)
		if err != nil {
			d.block(d.shown[real]+": "+err.Error(), "setup has read it wrongly", "report this, please")
			return false
		}
		edited = append(edited, Change{Path: real, Shown: d.shown[real], Before: d.texts[real], After: after, Edits: edits, Backup: backupOf(real)})
	}
	slices.SortFunc(edited, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	d.plan.Changes = append(edited, d.plan.Changes...)
	return true
}

// finish adds tempomat's own files to those of the server.
func (d *decider) finish() {
	if !d.editFiles() {
		return
	}
	d.config()
	d.keys()
	if !d.m.Systemd {
		d.note("systemd does not run here: -write changes and checks the files, and prints the commands that switch over.")
	} else if !d.m.Service.Installed {
		d.block("the unit "+unitName+".service is not installed", "setup starts the proxy by it",
			"install the package, or copy deploy/systemd/tempomat-proxy.service to /etc/systemd/system")
	}
}

// backupOf is where the former text of a file is kept: next to it, except where the
// server would read that as well.
func backupOf(real string) string {
	if path.Base(path.Dir(real)) == "sites-enabled" {
		return path.Join(path.Dir(path.Dir(real)), path.Base(real)+backupEnd)
	}
	return real + backupEnd
}

// config plans tempomat's own file.
func (d *decider) config() {
	text := d.configText()
	c := d.m.Config
	switch {
	case !c.Exists:
		d.create(d.plan.Config, text)
	case c.Text == text:
	case c.Defaults:
		d.plan.Changes = append(d.plan.Changes, Change{Path: d.plan.Config, Before: c.Text, After: text, Backup: d.plan.Config + backupEnd})
	default:
		d.block(d.plan.Config+" has settings of its own", "setup does not know which of them are still meant",
			"move it away and run setup again, then add your settings to the new one; or write these into it yourself:\n"+indent(settings(text)))
	}
}

func (d *decider) configText() string {
	scheme, listen := "http", fmt.Sprintf("listen: \":%d\"\n", d.m.Place.HTTP)
	if d.secure {
		scheme = "https"
		listen = fmt.Sprintf("listen: [{address: \":%d\", tls: true}]\ntls:\n  certificates:\n", d.m.Place.HTTPS)
		for _, c := range d.certs {
			listen += fmt.Sprintf("    - {certificate: %s, key: %s}\n", yamlText(c.chain), yamlText(c.key))
		}
	}
	return "# Written by tempomat-proxy setup. Every other key has its default; all are in\n" +
		"# " + manuals + "/configuration.md. After a change: systemctl reload tempomat-proxy\n" +
		listen +
		fmt.Sprintf("backend: %s://127.0.0.1:%d\n", scheme, d.inner) +
		"\n# It measures and delays no one. After a day, when tempomat-doctor shows what you\n" +
		"# expect: mode: fair, and no log line.\n" +
		"throttle: {mode: observe}\n" +
		"log: {access: all}\n"
}

// yamlText quotes a path for YAML if necessary.
func yamlText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// settings are the lines of a text that are no comments.
func settings(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// found describes in plain words what there is.
func (d *decider) found() {
	m := d.m
	say := func(format string, args ...any) { d.plan.Found = append(d.plan.Found, fmt.Sprintf(format, args...)) }
	for _, port := range []int{m.Place.HTTP, m.Place.HTTPS} {
		say("Port %d: %s.", port, holder(m.Sockets, port))
	}
	if a := m.Apache; a != nil {
		say("Apache in %s: %d sites.", a.Dir, len(a.Hosts))
	}
	if n := m.Nginx; n != nil {
		say("nginx in %s: %d files.", n.Dir, len(n.Files))
	}
	switch {
	case !m.Systemd:
		say("systemd does not run here.")
	case m.Service.Active:
		say("%s.service runs.", unitName)
	case m.Service.Installed:
		say("%s.service is installed, and does not run.", unitName)
	default:
		say("%s.service is not installed.", unitName)
	}
	switch {
	case !m.Config.Exists:
		say("%s: none yet.", d.plan.Config)
	case m.Config.Defaults:
		say("%s: there, all defaults.", d.plan.Config)
	default:
		say("%s: there, with settings of its own.", d.plan.Config)
	}
}

// holder names who listens on a port.
func holder(sockets []host.Listening, port int) string {
	var names []string
	for _, s := range sockets {
		if int(s.Address.Port()) == port {
			names = append(names, cmp.Or(s.Program, "an unknown program"))
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "no program listens"
	}
	return strings.Join(names, " and ")
}

// certificate names the files that a TLS site serves with.
type certificate struct {
	chain, key string // the certificate with those of its authorities, and its key
}

// readable bits for the group: a directory is passed, a key is read.
const (
	groupReads  = 0o040
	groupPasses = 0o010
)

// certify takes in the certificate of a site. where is its place, for people.
func (d *decider) certify(chain, key, where string) {
	for _, f := range []string{chain, key} {
		if !path.IsAbs(f) || strings.ContainsAny(f, "$\n") {
			d.block(fmt.Sprintf("%s: the certificate's file %q is no plain path", where, f), "tempomat-proxy has to find the same file", "write its whole path there")
			return
		}
	}
	if c := (certificate{chain, key}); !slices.Contains(d.certs, c) {
		d.certs = append(d.certs, c)
	}
}

// keys lets the proxy read the private keys. Keys that only root may read become the group's; a
// key that already belongs to a group stays there, and the proxy joins that group. certbot
// keeps group and mode when it renews.
func (d *decider) keys() {
	if !d.secure {
		return
	}
	var needs []Access
	var groups []string
	for _, name := range d.certificateFiles() {
		k, known := d.m.Keys[name]
		if !known || k.Fault != "" {
			d.block("the proxy cannot be let to "+name, k.Fault, "see that the file exists, and run setup as root")
			continue
		}
		for _, a := range k.Needs {
			if !slices.ContainsFunc(needs, func(o Access) bool { return o.Path == a.Path }) {
				needs = append(needs, a)
			}
		}
		groups = append(groups, k.Groups...)
	}
	if len(needs) > 0 && d.m.KeyGroup == "" {
		d.block("there is neither a group "+proxyGroup+" nor "+keyGroup, "by it the proxy, which is not root, may read private keys", "install the package, or apt install ssl-cert")
	}
	if len(needs) > 0 && d.m.KeyGroup != proxyGroup {
		groups = append(groups, d.m.KeyGroup)
	}
	for _, a := range needs {
		now := Access{Path: a.Path, Group: d.m.KeyGroup, Mode: a.Mode | groupReads, Dir: a.Dir}
		if a.Dir {
			now.Mode = a.Mode | groupPasses
		}
		d.plan.Changes = append(d.plan.Changes, Change{Path: a.Path, Access: &now, Was: &a,
			Command: now.command()})
	}
	d.join(groups)
}

// join puts the proxy into groups.
func (d *decider) join(groups []string) {
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if len(groups) == 0 {
		return
	}
	if !d.m.Systemd {
		d.note("Private keys belong to other groups, and the user %s must be in them: usermod -aG %s %[1]s", proxyGroup, strings.Join(groups, ","))
		return
	}
	name := d.m.Place.Root + "/etc/systemd/system/" + unitName + ".service.d/setup.conf"
	d.plan.Reread = true
	d.create(name,
		"# Written by tempomat-proxy setup: the proxy reads the certificates' private keys.\n[Service]\nSupplementaryGroups="+strings.Join(groups, " ")+"\n")
}

func (d *decider) certificateFiles() (names []string) {
	for _, c := range d.certs {
		names = append(names, c.chain, c.key)
	}
	return names
}

// pastProxy notes a port that the web server serves directly.
func (d *decider) pastProxy(port int, server string) {
	d.note("Port %d stays with %s: its requests go past tempomat-proxy.", port, server)
}

// own reports whether a file is one that setup made.
func (d *decider) own(f *host.ConfigFile) bool {
	return d.m.Journal != nil && slices.ContainsFunc(d.m.Journal.Changes, func(c Change) bool { return c.New && c.Path == f.Real })
}

// adopt moves sites that were added for the web server's local address, as the manual
// describes, to the public port. It needs the files as they are after undo.
func (w *worker) adopt(ctx context.Context, j *journal) error {
	d := newDecider(Machine{Place: w.place, Journal: j})
	var served bool
	port := j.public()
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
		return fmt.Errorf("%s would not listen on port %d: no line has it. Add the line that ports.conf or a site's file had", j.Server, port)
	}
	return nil
}
