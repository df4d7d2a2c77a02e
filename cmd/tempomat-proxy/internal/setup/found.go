package setup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tempomat/proxy/host"
)

// found says in plain words what there is.
func (d *decider) found() {
	m := d.m
	say := func(format string, args ...any) { d.plan.Found = append(d.plan.Found, fmt.Sprintf(format, args...)) }
	for _, port := range []int{m.Place.HTTP, m.Place.HTTPS} {
		say("Port %d: %s.", port, holder(m.Sockets, port))
	}
	if a := m.Apache; a != nil {
		say("Apache in %s: %s, %d sites%s%s.", a.Dir, a.mpm(), len(a.Hosts), a.workers(), a.php())
	}
	if n := m.Nginx; n != nil {
		say("nginx in %s: %d files.", n.Dir, len(n.Files))
	}
	for _, p := range m.Pools {
		say("php-fpm: pool %s at %s, pm.max_children = %d.", p.Name, p.Listen, p.Children)
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
		return "nobody listens"
	}
	return strings.Join(names, " and ")
}

func (a *Apache) mpm() string {
	for _, m := range a.Modules {
		if name, ok := strings.CutPrefix(m, "mpm_"); ok {
			return "MPM " + strings.TrimSuffix(name, "_module")
		}
	}
	return "MPM unknown"
}

func (a *Apache) php() string {
	for _, m := range a.Modules {
		if m == "php_module" || m == "php7_module" {
			return ", with mod_php"
		}
	}
	if slices.Contains(a.Modules, "proxy_fcgi_module") {
		return ", with mod_proxy_fcgi"
	}
	return ""
}

// workers tells MaxRequestWorkers, the last one that is in force.
func (a *Apache) workers() string {
	text := ""
	for i := range a.Files {
		for _, x := range host.ParseApache(&a.Files[i]) {
			if active, known := inForce(x, a.Modules); x.Name == "maxrequestworkers" && active && known && len(x.Args) > 0 {
				text = ", MaxRequestWorkers " + x.Args[0]
			}
		}
	}
	return text
}
