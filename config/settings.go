package config

import "time"

// setting is one key of the configuration: its path and what it sets.
type setting struct {
	path    string // dotted: throttle.maxHold
	value   value
	restart bool   // cannot change while the proxy runs
	same    string // this is another form of the setting with that path
	seed    bool   // this is a key of the original's file, and has no variable
	gone    string // why this has no effect any more; empty: it has one
}

// draft is a configuration under construction. Its settings point into it.
type draft struct {
	Config
	classes    []*draftClass // pointers, as settings point at them while the list grows
	hashMaxLen int           // the original's key; 0: not given

	limitSources []source // of each of Limits, where the file gives it
	light        time.Duration
}

func newDraft(c *Config) *draft {
	d := &draft{Config: *c}
	for _, name := range builtIn() {
		d.classes = append(d.classes, &draftClass{Class: Class{Name: name}, off: true})
	}
	for _, class := range c.Classes {
		if known := d.class(class.Name); known != nil {
			*known = draftClass{Class: class}
		} else {
			d.classes = append(d.classes, &draftClass{Class: class, own: true})
		}
	}
	return d
}

// config is the finished configuration: its classes are those that are on.
func (d *draft) config() *Config {
	c := d.Config
	c.Classes = nil
	for _, class := range d.classes {
		if !class.off {
			c.Classes = append(c.Classes, class.Class)
		}
	}
	return &c
}

// settings are all keys at fixed paths, in the order of the manual.
func settings(d *draft) []setting {
	table := []setting{
		{path: "listen", value: listenList(&d.Listen), restart: true},
		{path: "backend", value: backendURL(&d.Backend.URL), same: "backend.url"},
		{path: "backend.url", value: backendURL(&d.Backend.URL)},
		{path: "backend.dialTimeout", value: duration(&d.Backend.DialTimeout, time.Millisecond, 5*time.Minute)},
		{path: "backend.timeout", value: duration(&d.Backend.Timeout, 100*time.Millisecond, day)},
		{path: "backend.workers", value: workers(&d.Backend.Workers)},
		{path: "cpuCount", value: cpuCount(&d.CPUCount)},
		{path: "trustedProxies", value: trustedProxies(&d.TrustedProxies)},
		{path: "addressHeader", value: choice(&d.AddressHeader, "", "X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "none")},
		{path: "underscores", value: boolean(&d.Underscores)},
		{path: "upgrades", value: protocols(&d.Upgrades)},
		{path: "via", value: pseudonym(&d.Via)},
		{path: "throttle.mode", value: choice(&d.Throttle.Mode, "", "fair", "observe", "cap", "cooperative")},
		{path: "throttle.shadow", value: boolean(&d.Throttle.Shadow)},
		{path: "throttle.maxHold", value: duration(&d.Throttle.MaxHold, 0, time.Hour)},
		{path: "throttle.maxHeld", value: integer(&d.Throttle.MaxHeld, 0, 1_000_000)},
		{path: "throttle.maxHeldPerClient", value: integer(&d.Throttle.MaxHeldPerClient, 0, 1_000_000)},
		{path: "throttle.memory", value: duration(&d.Throttle.Memory, time.Second, 24*time.Hour)},
		{path: "gate.heavy", value: integer(&d.Gate.Heavy, 0, 10_000)},
		{path: "gate.light", value: duration(&d.light, time.Millisecond, 10*time.Second), gone: "sizes are learnt"},
		{path: "gate.strangers", value: share(&d.Gate.Strangers)},
		{path: "gate.usage", value: usage(&d.Gate.Usage), restart: true},
		{path: "standing.enabled", value: boolean(&d.Standing.Enabled)},
		{path: "standing.attested", value: factor(&d.Standing.Attested)},
		{path: "standing.trusted", value: prefixes(&d.Standing.Trusted)},
		{path: "newcomers.redirect", value: boolean(&d.Newcomers.Redirect)},
		{path: "state", value: stateFile(&d.State), restart: true},
		{path: "history.hours", value: integer(&d.History.Hours, 0, mostHistory), restart: true},
		{path: "classes", value: classes{d}},
		{path: "exempt", value: exemptions{&d.Exempt}},
		{path: "limits", value: limitList{d}},
		{path: "headers", value: choice(&d.Headers, "", "none", "ratelimit", "draft", "draft-credit")},
		{path: "cost.source", value: choice(&d.Cost.Source, "cgroup", "corrected", "wall", "header")},
		{path: "table.size", value: integer(&d.Table.Size, minTable, maxTable), restart: true},
		{path: "timeouts.header", value: duration(&d.Timeouts.Header, 100*time.Millisecond, 10*time.Minute), restart: true},
		{path: "timeouts.body", value: duration(&d.Timeouts.Body, time.Second, time.Hour)},
		{path: "timeouts.write", value: duration(&d.Timeouts.Write, time.Second, time.Hour)},
		{path: "timeouts.idle", value: duration(&d.Timeouts.Idle, time.Second, time.Hour), restart: true},
		{path: "timeouts.upgrade", value: duration(&d.Timeouts.Upgrade, time.Second, day)},
		{path: "timeouts.drain", value: duration(&d.Timeouts.Drain, 0, time.Hour)},
		{path: "admin.listen", value: adminListen(&d.Admin.Listen), restart: true},
		{path: "admin.web", value: adminWeb(&d.Admin.Web), restart: true},
		{path: "admin.token", value: secretFile(&d.Admin.Token)},
		{path: "admin.hosts", value: hostNames(&d.Admin.Hosts)},
		{path: "graphite", value: graphiteAddress(&d.Graphite.Address), same: "graphite.address"},
		{path: "graphite.address", value: graphiteAddress(&d.Graphite.Address)},
		{path: "graphite.prefix", value: graphitePrefix(&d.Graphite.Prefix)},
		{path: "graphite.interval", value: duration(&d.Graphite.Interval, time.Second, time.Hour)},
		{path: "metrics", value: metricsAddress(&d.Metrics), restart: true},
		{path: "log.level", value: choice(&d.Log.Level, "", "debug", "info", "warn", "error")},
		{path: "log.access", value: choice(&d.Log.Access, "", "off", "sampled", "all")},
		{path: "log.format", value: choice(&d.Log.Format, "", "json", "combined")},
		{path: "log.delayThreshold", value: duration(&d.Log.DelayThreshold, 0, time.Hour)},
	}
	table = append(table, bufferSettings(&d.Buffer)...)
	table = append(table, coordinationSettings(&d.Coordination)...)
	return append(table, seedSettings(d)...)
}

const (
	day      = 24 * time.Hour
	minTable = 1024
	maxTable = 4 << 20
)

// canonical are the settings that each say something of their own: no second
// forms, none without effect, and not the classes, which are a list.
func canonical(d *draft) []setting {
	var table []setting
	for _, s := range settings(d) {
		if s.same == "" && s.gone == "" && s.path != "classes" {
			table = append(table, s)
		}
	}
	return table
}
