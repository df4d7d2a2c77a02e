package config

import (
	"strconv"
	"time"

	"tempomat/config/form"
)

// legacySettings are the keys of the original's /etc/tempomat.json that have a
// newer form here. backend, cpuCount, graphite and trustedProxies are the same
// in both.
func legacySettings(d *draft) []form.Setting {
	table := []form.Setting{
		{Path: "debug", Value: debug().In(&d.Log.Level), AliasOf: "log.level"},
		{Path: "delayThresholdSec", Value: seconds(time.Hour).In(&d.Log.DelayThreshold), AliasOf: "log.delayThreshold"},
		{Path: "listenPort", Value: listenPort().In(&d.Listen), AliasOf: "listen"},
		{Path: "graphitePrefix", Value: graphitePrefix().In(&d.Graphite.Prefix), AliasOf: "graphite.prefix"},
		{Path: "hashMaxLen", Value: form.Integer(1, maxTable/maxClasses).In(&d.hashMaxLen), AliasOf: "table.size",
			Doc: "Most keys per class; tempomat multiplies it by the number of classes, at least 1024."},
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

// tableSize is the table for the original's most keys per class.
func (d *draft) tableSize() int {
	on := 0
	for _, c := range d.classes {
		if !c.off {
			on++
		}
	}
	return min(max(d.hashMaxLen*on, minTable), maxTable)
}

// debug is the original's switch for the log's level.
func debug() form.Scalar[string] {
	on := form.Boolean()
	return form.Scalar[string]{
		Type: on.Type, Schema: on.Schema,
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

// seconds is a duration as the original writes it: a bare number.
func seconds(most time.Duration) form.Scalar[time.Duration] {
	allowed := "a number of seconds from 0 to " + form.FormatNumber(most.Seconds())
	number := form.Number(allowed, 0, most.Seconds())
	return form.Scalar[time.Duration]{
		Type: number.Type, Allowed: allowed, Schema: number.Schema,
		Parse: func(text string) (time.Duration, error) {
			x, err := number.Parse(text)
			return time.Duration(x * float64(time.Second)), err
		},
		Format: func(d time.Duration) string { return form.FormatNumber(d.Seconds()) },
	}
}

// listenPort is a port of all addresses.
func listenPort() form.Scalar[[]Listener] {
	port := form.Integer(1, 65535)
	return form.Scalar[[]Listener]{
		Type: port.Type, Allowed: port.Allowed, Schema: port.Schema,
		Parse: func(text string) ([]Listener, error) {
			n, err := port.Parse(text)
			return []Listener{{Address: ":" + strconv.Itoa(n)}}, err
		},
		Format: func(all []Listener) string { return listeners().In(&all).Text() },
	}
}

// goneSettings are the keys of earlier releases that have no effect any more. Those of a list's
// members, and those that have one for this release, stand in the table of their list or section.
func goneSettings() (table []form.Setting) {
	const (
		constant = "remove it: it is "
		learnt   = "remove it: tempomat learns it"
		gossip   = "coordination.gossip."
	)
	for _, key := range []struct{ path, instead string }{
		{"backend.dialTimeout", constant + "5s, for a backend on another machine"},
		{"upgrades", constant + "websocket"},
		{"via", "remove it: no Via is added"},
		{"tls.acme.email", "remove it: watch certificates by their metric, or by tempomat-doctor status"},
		{"tls.acme.storage", "move the directory to acme next to the state file"},
		{"tls.acme.ca", "add the authority to the system's (update-ca-certificates), or name the file in SSL_CERT_FILE"},
		{"throttle.maxHeld", constant + "1024, which any client may have until others want some"},
		{"throttle.maxHeldPerClient", "remove it: a client may use free room in the queue until other clients need it"},
		{"gate.light", learnt},
		{"gate.strangers", constant + "0.5: together they have a third of the machine while all others want it"},
		{"standing.enabled", "remove it: it is judged in every mode with a queue"},
		{"standing.attested", constant + "4"},
		{"robots.only", "remove it: each robot has an account of its own"},
		{"robots.verify", "remove it: no request waits for it; robots.enabled: false switches all of it off"},
		{"timeouts.header", constant + "10s"},
		{"timeouts.write", "remove it: timeouts.body is for both directions"},
		{"buffer.requestMemory", constant + "64KB"},
		{"buffer.responseMemory", constant + "64KB"},
		{"buffer.disk", constant + "half of what is free; name a directory on a file system of its own to bound it"},
		{"buffer.perAddress", constant + "a quarter"},
		{"coordination.smockron.rejected", constant + "none of them"},
		{"coordination.smockron.queue", constant + "16384 messages"},
		{"coordination.redis.scripts", "remove it: the server must run scripts; its ACL must allow EVALSHA and EVAL"},
		{gossip + "name", "set advertise if two instances have the same host name and port"},
		{gossip + "joinFile", "list its addresses in join, or one DNS name with all of them"},
		{gossip + "epoch", constant + "100ms"},
		{gossip + "history", "remove it: the next total corrects lost messages"},
		{gossip + "maxSkew", "remove it: clocks are not compared"},
		{gossip + "bytesPerSecond", constant + "1 MiB, and the heaviest keys go first"},
	} {
		table = append(table, form.Setting{Path: key.path, Gone: key.instead})
	}
	return table
}
