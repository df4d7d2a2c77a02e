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

// unitName is the systemd unit of the proxy.
const unitName = "tempomat-proxy"

// proxyGroup is the group of the package's user. keyGroup is Debian's group for reading private keys
// (package ssl-cert).
const (
	proxyGroup = "tempomat"
	keyGroup   = "ssl-cert"
)

// manuals is the directory into which the packages install the documentation. byHand is the advice if setup can't help.
const (
	manuals = "/usr/share/doc/tempomat/docs"
	byHand  = "do it by hand, with a recipe in " + manuals + "/recipes"
)

// Decide makes the plan for a machine. It uses only the information in m.
func Decide(m Machine) Plan {
	d := newDecider(m)
	d.plan.Before = m.Service
	d.found()
	if m.JournalFault != nil {
		d.block("setup's journal can't be read", m.JournalFault.Error(), "restore the previous files by hand: their names end in "+backupEnd)
		return d.plan
	}
	if m.Journal != nil {
		d.plan.Done = true
		return d.plan
	}
	d.ports()
	if len(d.plan.Obstacles) == 0 {
		d.apache()
	}
	if len(d.plan.Obstacles) == 0 {
		d.finish()
	}
	return d.plan
}

func newDecider(m Machine) *decider {
	d := &decider{m: m, edits: map[string][]Edit{}, texts: map[string]string{}}
	d.plan.Server, d.plan.Check = "apache2", []string{"apache2ctl", "configtest"}
	d.plan.Systemd = m.Systemd
	d.plan.Config = m.Place.Root + "/etc/tempomat/tempomat.yaml"
	return d
}

// decider collects a plan.
type decider struct {
	m      Machine
	plan   Plan
	edits  map[string][]Edit // by the file's real path
	texts  map[string]string
	inner  int // the port that Apache moves to
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

// ports checks that there is an Apache server, and that no other program listens on the public ports.
func (d *decider) ports() {
	holders := map[string]int{}
	for _, s := range d.m.Sockets {
		if port := int(s.Address.Port()); port == d.m.Place.HTTP || port == d.m.Place.HTTPS {
			holders[s.Program] = port
		}
	}
	for name, port := range holders {
		switch name {
		case "apache2":
		case "":
			d.block(fmt.Sprintf("an unknown program listens on port %d", port), "only root can see which program", "run setup as root")
		case unitName:
			d.block(fmt.Sprintf("tempomat-proxy already listens on port %d", port), "it was set up by hand", "leave it as it is, or undo that setup first")
		default:
			d.block(fmt.Sprintf("%s listens on port %d", name, port), "setup can only put the proxy in front of Apache",
				"stop "+name+" if it should not run; otherwise "+byHand)
		}
	}
	if d.m.Apache == nil && len(d.plan.Obstacles) == 0 {
		d.block("there is no Apache", "setup can only put the proxy in front of an Apache whose files are laid out as on Debian and Ubuntu", byHand)
	}
}

// edit plans to replace a line of a file.
func (d *decider) edit(f *host.ConfigFile, line int, now ...string) {
	old := strings.Split(f.Text, "\n")[line-1]
	e := Edit{Line: line, Old: old, New: now}
	if !slices.ContainsFunc(d.edits[f.Real], func(o Edit) bool { return o.Line == line }) {
		d.edits[f.Real] = append(d.edits[f.Real], e)
	}
	d.texts[f.Real] = f.Text
}

// freePort returns the first free port among the twenty that begin with the given one.
func (d *decider) freePort(from int, taken []int) int {
	for p := from; p < from+20; p++ {
		used := slices.ContainsFunc(d.m.Sockets, func(s host.Listening) bool { return int(s.Address.Port()) == p })
		if !used && !slices.Contains(taken, p) {
			return p
		}
	}
	d.block(fmt.Sprintf("no port from %d to %d is free", from, from+19), "the web server must move to one of these ports", "stop a program that listens on one of them")
	return from
}

// create plans a file that must not exist yet.
func (d *decider) create(name, text string) {
	d.plan.Changes = append(d.plan.Changes, Change{Path: name, New: true, After: text})
}

func (d *decider) link(name, target, command string) {
	d.plan.Changes = append(d.plan.Changes, Change{Path: name, New: true, Target: target, Command: command})
}

// editFiles converts the edits to changes.
func (d *decider) editFiles() {
	var edited []Change
	for _, real := range slices.Sorted(maps.Keys(d.edits)) {
		edits, before := d.edits[real], d.texts[real]
		slices.SortFunc(edits, func(a, b Edit) int { return a.Line - b.Line })
		edited = append(edited, Change{Path: real, Before: before, After: applyEdits(before, edits), Edits: edits, Backup: backupOf(real)})
	}
	d.plan.Changes = append(edited, d.plan.Changes...)
}

// finish adds the changes of tempomat's own files to the plan.
func (d *decider) finish() {
	d.editFiles()
	d.config()
	d.keys()
	if !d.m.Systemd {
		d.note("systemd is not running: -write changes and checks the files, and prints the commands that switch over.")
	} else if !d.m.Service.Installed {
		d.block("the unit "+unitName+".service is not installed", "setup needs it to start the proxy",
			"install the package, or copy deploy/systemd/tempomat-proxy.service to /etc/systemd/system")
	}
}

// backupOf returns the path at which the previous text of a file is kept. It is next to the file, unless the server
// would then also read the previous text.
func backupOf(real string) string {
	if path.Base(path.Dir(real)) == "sites-enabled" {
		return path.Join(path.Dir(path.Dir(real)), path.Base(real)+backupEnd)
	}
	return real + backupEnd
}

// config plans tempomat's own configuration file.
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
		d.block(d.plan.Config+" already has settings", "setup can't tell which of them are still needed",
			"move it away, run setup again, and add your settings to the new file; or add these settings to it yourself:\n"+indent(settings(text)))
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
	return "# Written by tempomat-proxy setup. All other keys have their defaults and are described in\n" +
		"# " + manuals + "/configuration.md. After a change, run: systemctl reload tempomat-proxy\n" +
		listen +
		fmt.Sprintf("backend: %s://127.0.0.1:%d\n", scheme, d.inner) +
		"\n# tempomat only measures and delays no one. After a day, if tempomat-doctor shows what\n" +
		"# you expect, set mode: fair and remove the log line.\n" +
		"throttle: {mode: observe}\n" +
		"log: {access: all}\n"
}

// yamlText quotes a path for YAML.
func yamlText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// settings returns the lines of a text, without empty lines and comments.
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

// found adds to the plan, in plain words, what setup found on the machine.
func (d *decider) found() {
	m := d.m
	say := func(format string, args ...any) { d.plan.Found = append(d.plan.Found, fmt.Sprintf(format, args...)) }
	for _, port := range []int{m.Place.HTTP, m.Place.HTTPS} {
		say("Port %d: %s.", port, holder(m.Sockets, port))
	}
	if a := m.Apache; a != nil {
		say("Apache in %s; active sites: %d.", a.Dir, len(a.Hosts))
	}
	switch {
	case !m.Systemd:
		say("systemd is not running.")
	case m.Service.Active:
		say("%s.service runs.", unitName)
	case m.Service.Installed:
		say("%s.service is installed, but not running.", unitName)
	default:
		say("%s.service is not installed.", unitName)
	}
	switch {
	case !m.Config.Exists:
		say("%s does not exist yet.", d.plan.Config)
	case m.Config.Defaults:
		say("%s exists, but has only default values.", d.plan.Config)
	default:
		say("%s exists and changes some defaults.", d.plan.Config)
	}
}

// holder returns the names of the programs that listen on a port.
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

// certificate names the files of a site's certificate.
type certificate struct {
	chain, key string // the certificate with its chain, and its key
}

// groupReads and groupPasses are the permissions that the proxy's group needs: to read a file, and to enter
// a directory.
const (
	groupReads  = 0o040
	groupPasses = 0o010
)

// certify adds the certificate of a site to the plan. where is the site's position in the configuration, for
// messages.
func (d *decider) certify(chain, key, where string) {
	for _, f := range []string{chain, key} {
		if !path.IsAbs(f) || strings.ContainsAny(f, "$\n") {
			d.block(fmt.Sprintf("%s: the path of the certificate's file, %q, is not absolute and literal", where, f), "tempomat-proxy must find the same file", "write its full path there")
			return
		}
	}
	if c := (certificate{chain, key}); !slices.Contains(d.certs, c) {
		d.certs = append(d.certs, c)
	}
}

// keys plans to let the proxy read the private keys. Keys that only root may read get the proxy's group. A key that
// already belongs to another group keeps that group, and the proxy joins the group. When certbot renews a
// certificate, it keeps the group and mode.
func (d *decider) keys() {
	if !d.secure {
		return
	}
	var needs []Access
	var groups []string
	for _, name := range d.certificateFiles() {
		k, known := d.m.Keys[name]
		if !known || k.Fault != "" {
			d.block("the proxy can't get permission to read "+name, k.Fault, "make sure that the file exists, and run setup as root")
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
		d.block("there is neither a group "+proxyGroup+" nor "+keyGroup, "the proxy does not run as root, and needs such a group to read private keys", "install the package, or apt install ssl-cert")
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

// join plans to add the proxy to groups.
func (d *decider) join(groups []string) {
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if len(groups) == 0 {
		return
	}
	if !d.m.Systemd {
		d.note("Private keys belong to other groups, and the user %s must be a member of them: usermod -aG %s %[1]s", proxyGroup, strings.Join(groups, ","))
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

// adopt adds the public port to sites without a port, which were added after setup as the manual recommends. Call it
// after the files have been restored.
func (w *worker) adopt(ctx context.Context, j *journal) error {
	d := newDecider(Machine{Place: w.place, Journal: j})
	port := j.public()
	if d.m.Apache = gatherApache(ctx, w.place, w.run); d.m.Apache == nil || j.Server != d.plan.Server {
		return nil
	}
	served := d.apacheAdopt(port)
	for _, real := range slices.Sorted(maps.Keys(d.edits)) {
		if err := rewrite(real, applyEdits(d.texts[real], d.edits[real]), real); err != nil {
			return err
		}
		for _, e := range d.edits[real] {
			fmt.Fprintf(w.out, "  %s:%d: %q was added after setup; it is now %q\n", real, e.Line, strings.TrimSpace(e.Old), strings.TrimSpace(e.New[0]))
		}
	}
	if !served {
		return fmt.Errorf("%s would not listen on port %d: no Listen line has that port. Restore this line in ports.conf or a site's file", j.Server, port)
	}
	return nil
}
