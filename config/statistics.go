package config

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"tempomat/config/form"
)

// Statistics sets which data the proxy reports about itself, and where.
type Statistics struct {
	Graphite Graphite
	Metrics  string // "host:port" where Prometheus reads metrics; empty: none
	Log      Log
}

func defaultStatistics() Statistics {
	return Statistics{
		Graphite: Graphite{Prefix: "sites.{hostname}", Interval: 60 * time.Second},
		Log:      Log{Level: "info", Access: "sampled", DelayThreshold: 100 * time.Millisecond},
	}
}

// Graphite sets where statistics are sent.
type Graphite struct {
	Address  string        // "host:port"; empty: none
	Prefix   string        // prefix of each series; {hostname} becomes the machine's name
	Interval time.Duration // interval between samples
}

// Log sets what is logged.
type Log struct {
	Level          string        // debug, info, warn or error
	Access         string        // off, sampled or all
	DelayThreshold time.Duration // the average wait above which a key counts as delayed in Graphite
}

// statisticsSettings returns the keys of statistics and logs.
func statisticsSettings(c *Statistics) []form.Setting {
	g, l := &c.Graphite, &c.Log
	return []form.Setting{
		{Path: "graphite", Value: graphiteAddress().In(&g.Address), AliasOf: "graphite.address"},
		{Path: "graphite.address", Value: graphiteAddress().In(&g.Address), Restart: true},
		{Path: "graphite.prefix", Value: graphitePrefix().In(&g.Prefix), Restart: true},
		{Path: "graphite.interval", Value: form.Duration(time.Second, time.Hour).In(&g.Interval), Restart: true},
		{Path: "metrics", Value: form.OrEmpty(tcpAddress()).In(&c.Metrics), Restart: true},
		{Path: "log.level", Value: logLevel().In(&l.Level)},
		{Path: "log.access", Value: form.Choice("off", "sampled", "all").In(&l.Access)},
		{Path: "log.delayThreshold", Value: form.Duration(0, time.Hour).In(&l.DelayThreshold), Restart: true},
	}
}

func logLevel() form.Scalar[string] { return form.Choice("debug", "info", "warn", "error") }

// Admin sets where tempomat-doctor and the dashboard connect.
type Admin struct {
	Listen string   // "unix:/path"; empty: none
	Web    string   // "host:port" or ":port" for browsers; empty: none
	Token  string   // file with the token that Web requires; empty: none
	Hosts  []string // allowed host names of Web, in addition to IP addresses and localhost
}

func defaultAdmin() Admin { return Admin{Listen: "unix:/run/tempomat/admin.sock"} }

func adminSettings(a *Admin) []form.Setting {
	return []form.Setting{
		{Path: "admin.listen", Value: form.OrOff(socketAddress(), "off", "").In(&a.Listen), Restart: true},
		{Path: "admin.web", Value: form.OrOff(tcpAddress(), "off", "").In(&a.Web), Restart: true},
		{Path: "admin.token", Value: file().In(&a.Token)},
		{Path: "admin.hosts", Value: form.List[string]{Of: hostName(), Most: 32, Distinct: true}.In(&a.Hosts)},
	}
}

// hostName reads a host name without a port. It rejects IP addresses, because these are always allowed.
func hostName() form.Scalar[string] {
	const problem = "must be a host name such as www.example.org, without a port or *, and not an address"
	return form.Simple(problem, func(text string) (string, bool) {
		_, err := netip.ParseAddr(text)
		return strings.ToLower(text), text != "" && err != nil && validHost(text) && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".")
	})
}

// validateAdminWeb checks that the admin API over TCP needs a token, and that its address isn't also in listen.
func validateAdminWeb(r *form.Reader, d *draft) {
	if d.Admin.Web == "" {
		return
	}
	at := r.Given["admin.web"]
	if d.Admin.Token == "" && !r.Faulty("admin.token") {
		r.Fault(at, form.Quoted(d.Admin.Web), "needs admin.token, a file with the token that clients must send")
	}
	_, port, _ := net.SplitHostPort(d.Admin.Web)
	for _, l := range d.Listen {
		if _, other, err := net.SplitHostPort(l.Address); err == nil && other == port && sameHost(l.Address, d.Admin.Web) {
			r.Fault(at, form.Quoted(d.Admin.Web), "is already one of the addresses of listen")
		}
	}
}

// sameHost reports whether two addresses with the same port would conflict.
func sameHost(a, b string) bool {
	hostOf := func(address string) string {
		host, _, _ := net.SplitHostPort(address)
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			return ""
		}
		return host
	}
	return hostOf(a) == "" || hostOf(b) == "" || hostOf(a) == hostOf(b)
}
