package setup

import (
	"fmt"
	"slices"
	"strings"
)

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

// apacheRedirects looks at the plain port, which stays with Apache. certbot's own redirect
// leaves out names that it does not know; those are redirected as well.
func (d *decider) apacheRedirects(hosts []*apacheHost) {
	pages := false
	for _, h := range hosts {
		all, some := redirects(h)
		switch {
		case all:
		case some:
			indent := leading(h.start.Raw()) + "\t"
			end := strings.Split(h.start.File.Text, "\n")[h.end-1]
			d.edit(h.start.File, h.end, indent+"# Names that the rules above leave out.", indent+"RewriteEngine on",
				indent+"RewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]", end)
		default:
			pages = true
			d.plainPages(fmt.Sprintf("%s:%d", h.start.File.Path, h.start.Line), "a2dissite it if nobody needs it, or let it redirect: Redirect permanent / https://YOUR-NAME/")
		}
	}
	if len(hosts) > 0 && !pages {
		d.note("Port %d stays with Apache, as it only redirects to https there: what renews certificates through it goes on.", d.m.Place.HTTP)
	}
}

// plainPages notes a site that serves pages without TLS, beside sites with it.
func (d *decider) plainPages(where, do string) {
	d.note("%s serves pages on port %d, beside TLS sites on %d. Port %[2]d stays with %[4]s, so requests there go past tempomat-proxy. To close that: %s",
		where, d.m.Place.HTTP, d.m.Place.HTTPS, d.plan.Server, do)
}

// redirects tells whether a site redirects every request to https, or some.
func redirects(h *apacheHost) (all, some bool) {
	engine, limited := false, false // limited: a condition stands before the next rule
	for _, x := range h.all {
		if len(x.Within) != len(h.start.Within)+1 {
			continue // in a <Location> or the like
		}
		switch x.Name {
		case "redirect", "redirectpermanent":
			n := len(x.Args)
			if n >= 2 && x.Args[n-2] == "/" && strings.HasPrefix(x.Args[n-1], "https://") {
				all = true
			}
		case "rewriteengine":
			engine = len(x.Args) > 0 && strings.EqualFold(x.Args[0], "on")
		case "rewritecond":
			limited = limited || !harmless(x.Args)
		case "rewriterule":
			if toHTTPS(x.Args) && engine {
				all, some = all || !limited, true
			}
			limited = false
		}
	}
	return all, some
}

// harmless conditions hold for every request on a port without TLS, but for those of a
// certificate's renewal.
func harmless(args []string) bool {
	if len(args) < 2 {
		return false
	}
	switch strings.ToUpper(args[0]) {
	case "%{HTTPS}":
		return slices.Contains([]string{"off", "=off", "!=on", "!on", "!^on$"}, strings.ToLower(args[1]))
	case "%{SERVER_PORT}":
		return args[1] == "80" || args[1] == "^80$" || args[1] == "!443" || args[1] == "!^443$"
	}
	return false
}

// toHTTPS tells whether a rule redirects whatever is asked for.
func toHTTPS(args []string) bool {
	every := []string{"^", ".*", "^.*$", "(.*)", "^(.*)", "^(.*)$", "^/?(.*)", "^/?(.*)$", "^/(.*)", "^/(.*)$"}
	if len(args) < 3 || !slices.Contains(every, args[0]) || !strings.HasPrefix(args[1], "https://") {
		return false
	}
	flags := strings.Split(strings.Trim(args[2], "[]"), ",")
	return slices.ContainsFunc(flags, func(f string) bool {
		f, _, _ = strings.Cut(strings.TrimSpace(f), "=")
		return strings.EqualFold(f, "R") || strings.EqualFold(f, "redirect")
	})
}
