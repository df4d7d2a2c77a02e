package config

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"tempomat/config/form"
)

// Statistics is what is told of the proxy, and where.
type Statistics struct {
	Graphite Graphite
	Metrics  string // "host:port" where Prometheus asks; empty: nowhere
	Log      Log
}

func defaultStatistics() Statistics {
	return Statistics{
		Graphite: Graphite{Prefix: "sites.{hostname}", Interval: 60 * time.Second},
		Log:      Log{Level: "info", Access: "sampled", Format: "json", DelayThreshold: 100 * time.Millisecond},
	}
}

// Graphite is where statistics go.
type Graphite struct {
	Address  string        // "host:port"; empty: nowhere
	Prefix   string        // before each series; {hostname} is replaced
	Interval time.Duration // how often
}

// Log sets what is logged.
type Log struct {
	Level          string        // debug, info, warn or error
	Access         string        // off, sampled or all
	Format         string        // of the requests: json or combined
	DelayThreshold time.Duration // keys whose average wait is over it are logged and counted
}

// statisticsSettings are the keys of statistics and logs.
func statisticsSettings(c *Statistics) []form.Setting {
	g, l := &c.Graphite, &c.Log
	return []form.Setting{
		{Path: "graphite", Value: graphiteAddress().In(&g.Address), AliasOf: "graphite.address"},
		{Path: "graphite.address", Value: graphiteAddress().In(&g.Address),
			Doc: "Graphite server, which gets statistics over TCP. `graphite: ADDRESS` is short for it."},
		{Path: "graphite.prefix", Value: graphitePrefix().In(&g.Prefix),
			Doc: "Prefix of each series. `{hostname}` becomes the machine's name."},
		{Path: "graphite.interval", Value: form.Duration(time.Second, time.Hour).In(&g.Interval),
			Doc: "Interval between samples."},
		{Path: "metrics", Value: form.OrEmpty(tcpAddress(), "nowhere").In(&c.Metrics), Restart: true,
			Doc: "Address where Prometheus reads `/metrics` ([all metrics](metrics.md)), without a password."},
		{Path: "log.level", Value: logLevel().In(&l.Level),
			Doc: "Lowest severity to log."},
		{Path: "log.access", Value: form.Choice("off", "sampled", "all").In(&l.Access),
			Doc: "Requests to log. `sampled`: all that were rejected, redirected, failed or delayed by 100 ms or more, and one in 100 others."},
		{Path: "log.format", Value: form.Choice("json", "combined").In(&l.Format),
			Doc: "Format of logged requests: a line of JSON with [all fields](access-log.md), or Apache's combined format with microseconds appended."},
		{Path: "log.delayThreshold", Value: form.Duration(0, time.Hour).In(&l.DelayThreshold),
			Doc: "Least average wait of a key that is logged and counted."},
	}
}

func logLevel() form.Scalar[string] { return form.Choice("debug", "info", "warn", "error") }

// Admin is where the doctor connects, and the dashboard.
type Admin struct {
	Listen string   // "unix:/path"; empty: no admin API there
	Web    string   // "host:port" or ":port" for browsers; empty: none
	Token  string   // the file of the token that Web asks for; empty: none
	Hosts  []string // names that Web is reached by, in addition to addresses and localhost
}

func defaultAdmin() Admin { return Admin{Listen: "unix:/run/tempomat/admin.sock"} }

func adminSettings(a *Admin) []form.Setting {
	return []form.Setting{
		{Path: "admin.listen", Value: form.OrOff(socketAddress(), "off", "").In(&a.Listen), Restart: true,
			Doc: "Socket of the [admin API](admin-api.md) for `tempomat-doctor`."},
		{Path: "admin.web", Value: form.OrOff(tcpAddress(), "off", "").In(&a.Web), Restart: true,
			Doc: "Address of the [dashboard](dashboard.md) and the admin API over plain HTTP. It requires `admin.token`."},
		{Path: "admin.token", Value: file().In(&a.Token),
			Doc: "File with the token for `admin.web` and changes in the dashboard: 16 to 512 visible ASCII characters. Only its owner and group may read it."},
		{Path: "admin.hosts", Value: form.List[string]{Of: hostName(), Most: 32, Distinct: true}.In(&a.Hosts),
			Doc: "Host names of `admin.web`; others are rejected. Addresses and `localhost` always work."},
	}
}

// hostName is the name of a machine, without a port. Addresses need not be named.
func hostName() form.Scalar[string] {
	const problem = "must be the name of a host and no address, such as www.example.org, without a port and without *"
	return form.Simple("a name without a port", problem, func(text string) (string, bool) {
		_, err := netip.ParseAddr(text)
		return strings.ToLower(text), text != "" && err != nil && validHost(text) && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".")
	})
}

// validateAdminWeb sees to it that nothing listens over TCP without a token.
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

// sameHost reports whether two addresses with one port get in each other's way.
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
