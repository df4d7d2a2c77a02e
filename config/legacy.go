package config

import (
	"strconv"
	"time"

	"tempomat/config/form"
)

// legacySettings returns the keys of the original's /etc/tempomat.json that now have a different name or form. The
// keys backend, cpuCount, graphite and trustedProxies are unchanged.
func legacySettings(d *draft) []form.Setting {
	table := []form.Setting{
		{Path: "debug", Value: debug().In(&d.Log.Level), AliasOf: "log.level"},
		{Path: "delayThresholdSec", Value: seconds(time.Hour).In(&d.Log.DelayThreshold), AliasOf: "log.delayThreshold"},
		{Path: "listenPort", Value: listenPort().In(&d.Listen), AliasOf: "listen"},
		{Path: "graphitePrefix", Value: graphitePrefix().In(&d.Graphite.Prefix), AliasOf: "graphite.prefix"},
		{Path: "hashMaxLen", Value: form.Integer(1, maxTable/maxClasses).In(&d.hashMaxLen), AliasOf: "table.size"},
	}
	for _, name := range usual() {
		value := share().In(&d.class(name).Share)
		table = append(table, form.Setting{Path: name + "Share", Value: value, AliasOf: classPath(name) + ".share"})
	}
	for i := range table {
		table[i].Legacy = true
	}
	return table
}

// tableSize converts the original's hashMaxLen, which is a number of keys per class, to a number of keys in
// all classes.
func (d *draft) tableSize() int {
	on := 0
	for _, c := range d.classes {
		if !c.off {
			on++
		}
	}
	return min(max(d.hashMaxLen*on, minTable), maxTable)
}

// debug reads the original's switch for debug messages as a log level.
func debug() form.Scalar[string] {
	on := form.Boolean()
	return form.Scalar[string]{
		Parse: func(text string) (string, error) {
			debug, err := on.Parse(text)
			if debug {
				return "debug", err
			}
			return Default().Log.Level, err
		},
		Format: func(level string) string { return strconv.FormatBool(level == "debug") },
	}
}

// seconds reads a duration as the original writes it: a number of seconds without a unit.
func seconds(most time.Duration) form.Scalar[time.Duration] {
	allowed := "a number of seconds from 0 to " + form.FormatNumber(most.Seconds())
	number := form.Number(allowed, 0, most.Seconds())
	return form.Scalar[time.Duration]{
		Parse: func(text string) (time.Duration, error) {
			x, err := number.Parse(text)
			return time.Duration(x * float64(time.Second)), err
		},
		Format: func(d time.Duration) string { return form.FormatNumber(d.Seconds()) },
	}
}

// listenPort reads a port, and returns a listener on that port for all addresses.
func listenPort() form.Scalar[[]Listener] {
	port := form.Integer(1, 65535)
	return form.Scalar[[]Listener]{
		Parse: func(text string) ([]Listener, error) {
			n, err := port.Parse(text)
			return []Listener{{Address: ":" + strconv.Itoa(n)}}, err
		},
		Format: func(all []Listener) string { return listeners().In(&all).Text() },
	}
}

// goneSettings returns the keys of earlier releases that no longer have an effect. It omits keys of list members, and
// keys that still have an effect in this release, because these are in the table of their list or section.
func goneSettings() (table []form.Setting) {
	const (
		constant = "remove it: it is always "
		learnt   = "remove it: tempomat learns the value"
		gossip   = "coordination.gossip."
	)
	for _, key := range []struct{ path, instead string }{
		{"backend.dialTimeout", constant + "5s, for a backend on another machine"},
		{"errorPages.languages", "remove it: pages are in English and German; put text of your own into the templates"},
		{"robotsTxt", "put the file into the site's directory: the backend serves /robots.txt"},
		{"upgrades", constant + "websocket"},
		{"via", "remove it: tempomat adds no Via header"},
		{"tls.acme.email", "remove it: monitor certificates with their metric, or with tempomat-doctor status"},
		{"tls.acme.storage", "move the directory next to the state file, and name it acme"},
		{"tls.acme.ca", "add the authority to the system's authorities (update-ca-certificates), or name the file in SSL_CERT_FILE"},
		{"throttle.maxHeld", constant + "1024, or 64 for each CPU if that is more; a client may use free room in the queue until other clients need it"},
		{"throttle.maxHeldPerClient", "remove it: a client may use free room in the queue until other clients need it"},
		{"gate.light", learnt},
		{"gate.strangers", constant + "0.5; strangers together get at least a third of the machine"},
		{"cost.database", "remove it: tempomat finds this machine's databases by their names"},
		{"standing.enabled", "remove it: standing is judged in every mode with a queue"},
		{"standing.attested", constant + "4"},
		{"robots.only", "remove it: each robot has an account of its own"},
		{"robots.verify", "remove it: no request waits for verification; robots.enabled: false switches it off"},
		{"log.format", "remove it: requests are logged as JSON; the web server's own log has Apache's format"},
		{"timeouts.header", constant + "10s"},
		{"timeouts.write", "remove it: timeouts.body applies to both directions"},
		{"buffer.requestMemory", constant + "64KB"},
		{"buffer.responseMemory", constant + "64KB"},
		{"buffer.disk", constant + "half of the free space; to limit it, set buffer.directory to a file system of its own"},
		{"buffer.perAddress", constant + "a quarter"},
		{"coordination.smockron.rejected", "remove it: rejected requests are never reported"},
		{"coordination.smockron.queue", constant + "16384 messages"},
		{"coordination.redis.scripts", "remove it: the server must run scripts; its ACL must allow EVALSHA and EVAL"},
		{gossip + "name", "set advertise if two instances have the same host name and port"},
		{gossip + "joinFile", "list the file's addresses in join, or a DNS name that resolves to all of them"},
		{gossip + "epoch", constant + "100ms"},
		{gossip + "history", "remove it: the next total corrects lost messages"},
		{gossip + "maxSkew", "remove it: clocks aren't compared"},
		{gossip + "bytesPerSecond", constant + "1 MiB; the largest changes are sent first"},
	} {
		table = append(table, form.Setting{Path: key.path, Gone: key.instead})
	}
	return table
}
