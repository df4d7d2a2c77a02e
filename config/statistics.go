package config

import (
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

// Log says what is logged.
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
		{Path: "graphite", Value: graphiteAddress().In(&g.Address), AliasOf: "graphite.address",
			Doc: "Graphite's address alone, short for `graphite.address`."},
		{Path: "graphite.address", Value: graphiteAddress().In(&g.Address),
			Doc: "Where statistics go."},
		{Path: "graphite.prefix", Value: graphitePrefix().In(&g.Prefix),
			Doc: "Stands before each series; `{hostname}` is replaced by the machine's name."},
		{Path: "graphite.interval", Value: form.Duration(time.Second, time.Hour).In(&g.Interval),
			Doc: "How often statistics are sent."},
		{Path: "metrics", Value: metricsAddress().In(&c.Metrics), Restart: true,
			Doc: "Where Prometheus asks for `/metrics`: [all metrics](metrics.md). It is HTTP for whoever reaches the port, and names no client."},
		{Path: "log.level", Value: logLevel().In(&l.Level),
			Doc: "The least severity that is logged."},
		{Path: "log.access", Value: form.Choice("off", "sampled", "all").In(&l.Access),
			Doc: "Which requests are logged."},
		{Path: "log.format", Value: form.Choice("json", "combined").In(&l.Format),
			Doc: "How requests are logged: a line of JSON with [all that is known](access-log.md), or Apache's combined format with microseconds at its end, for programs that read such logs."},
		{Path: "log.delayThreshold", Value: form.Duration(0, time.Hour).In(&l.DelayThreshold),
			Doc: "Keys whose average wait is longer are logged and counted."},
	}
}

func logLevel() form.Scalar[string] { return form.Choice("debug", "info", "warn", "error") }
