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
			Doc: "Most keys per class: times the number of classes, at least 1024."},
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
	number := form.Number(allowed, 0, most.Seconds(), func(x float64) bool { return x >= 0 && x <= most.Seconds() })
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
