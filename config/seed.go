package config

import (
	"errors"
	"time"
)

// seedSettings are the keys of the original's /etc/tempomat.json that have a
// newer form here. backend, cpuCount, graphite and trustedProxies are the same
// in both.
func seedSettings(d *draft) []setting {
	table := []setting{
		{path: "debug", value: debug(&d.Log.Level), same: "log.level"},
		{path: "delayThresholdSec", value: seconds(&d.Log.DelayThreshold, time.Hour), same: "log.delayThreshold"},
		{path: "listenPort", value: listenPort(&d.Listen), same: "listen"},
		{path: "graphitePrefix", value: graphitePrefix(&d.Graphite.Prefix), same: "graphite.prefix"},
		{path: "hashMaxLen", value: integer(&d.hashMaxLen, 1, maxTable/MaxClasses), same: "table.size"},
	}
	for _, name := range builtIn() {
		value := share(&d.class(name).Share)
		table = append(table, setting{path: name + "Share", value: value, same: classPath(name) + ".share"})
	}
	for i := range table {
		table[i].seed = true
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
func debug(level *string) scalar {
	on := *level == "debug"
	return scalar{
		set: func(text string) error {
			if err := boolean(&on).set(text); err != nil {
				return err
			}
			if on {
				*level = "debug"
			}
			return nil
		},
		get: func() string { return boolean(&on).get() },
	}
}

// seconds is a duration as the original writes it: a bare number.
func seconds(p *time.Duration, most time.Duration) scalar {
	return scalar{
		set: func(text string) error {
			x, err := parseNumber(text)
			if err != nil || x < 0 || x > most.Seconds() {
				return errors.New("must be a number of seconds from 0 to " + number(most.Seconds()))
			}
			*p = time.Duration(x * float64(time.Second))
			return nil
		},
		get: func() string { return number(p.Seconds()) },
	}
}

func listenPort(p *[]string) scalar {
	port := 0
	number := integer(&port, 1, 65535)
	return scalar{
		set: func(text string) error {
			if err := number.set(text); err != nil {
				return err
			}
			*p = []string{":" + number.get()}
			return nil
		},
		get: number.get,
	}
}
