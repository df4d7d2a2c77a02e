// Package config reads the configuration as an administrator writes it. The package contains the structs, the
// defaults, and all rules about allowed values. It opens only the configuration file and the files with prefixes
// that this file names. The commands convert the result to the options of other packages.
//
// Each section has one file with its struct, its defaults and a table of settings. The tables are used to read
// and check a configuration, to print it, and to compare two of them. A new key needs a field, a default and a
// row in the table, a line in deploy/tempomat.yaml and an entry in docs/configuration.md. A new section also
// needs a field in Config, a line in Default and one in settings.
package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"tempomat/classify"
	"tempomat/config/form"
)

// Config is a whole configuration. docs/configuration.md explains each key.
type Config struct {
	Traffic
	Statistics
	ErrorPages   ErrorPages   // the pages that visitors see when the proxy itself answers
	TLS          TLS          // certificates for listen addresses with TLS
	Throttle     Throttle     // how clients in debt are slowed down
	Gate         Gate         // the queue in front of the backend
	Standing     Standing     // networks whose clients count as people
	Newcomers    Newcomers    // how unknown browsers are distinguished from programs
	Robots       Robots       // robots that name themselves
	Sites        Sites        // sites behind the backend, each with a share
	State        string       // the file that keeps known clients across restarts; empty: none
	History      History      // the history for tempomat-doctor report
	Classes      []Class      // the built-in classes in their order, then the others as written
	Databases    Databases    // files in MaxMind's format for the classes asn and country
	Exempt       []Exemption  // requests that are never charged or delayed
	Limits       []Limit      // limits on numbers of requests
	Headers      string       // response headers that show limits: none, ratelimit (X-RateLimit-…) or draft (the IETF's)
	Cost         Cost         // how the cost of requests is determined
	Table        Table        // the number of keys that are kept in memory
	Timeouts     Timeouts     // how long a client may keep connections and requests open
	Buffer       Buffer       // where bodies wait for the backend and for slow clients
	Coordination Coordination // the instances with which this one shares its accounts
	Admin        Admin        // where tempomat-doctor and the dashboard connect
	Warnings     []string     // one line for each key of the file that no longer exists or is deprecated
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Traffic:      defaultTraffic(),
		Statistics:   defaultStatistics(),
		TLS:          TLS{ACME: defaultACME()},
		Throttle:     defaultThrottle(),
		Gate:         defaultGate(),
		Newcomers:    Newcomers{Redirect: true},
		Robots:       defaultRobots(),
		Sites:        Sites{Others: 1},
		State:        "/var/lib/tempomat/state",
		History:      History{Hours: mostHistory},
		Classes:      defaultClasses(),
		Headers:      "none",
		Cost:         defaultCost(),
		Table:        Table{Size: 65536},
		Timeouts:     defaultTimeouts(),
		Buffer:       defaultBuffer(),
		Coordination: defaultCoordination(),
		Admin:        defaultAdmin(),
	}
}

// Faults lists everything that is wrong with a configuration.
type Faults = form.Faults

// Load reads a file and then applies environment variables, which take precedence. Without a name, all keys
// have their defaults. If there is a file, it or the environment must name a backend, because a file without
// one is probably incomplete. Load opens no other files, except the files with prefixes that the configuration
// names. The error is of type Faults, or wraps a system error.
func Load(name string, env []string) (*Config, error) {
	if name == "" {
		return parseWith(nil, "defaults", env, readNetworks)
	}
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	return parseWith(data, name, env, func(r *form.Reader, d *draft) {
		readNetworks(r, d)
		_, given := r.Given["backend"]
		if _, long := r.Given["backend.url"]; !given && !long && len(r.Faults) == 0 {
			r.Fault(form.Source{File: name, Key: "backend"}, "",
				"is given neither in the file nor as TEMPOMAT_BACKEND; set it to the web server's address, such as "+Default().Backend.URL)
		}
	})
}

// readFile reads a configuration file. It reads one byte more than allowed, so Document can detect a file that
// is too large.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, form.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return data, nil
}

// Parse reads a configuration from YAML or JSON. name is the file's name in messages. env holds "NAME=value"
// pairs as os.Environ returns them, and may be nil. Missing keys have their defaults, and no backend is
// required. Parse opens no files, so the result doesn't contain prefixes from files. The error is of type
// Faults.
func Parse(data []byte, name string, env []string) (*Config, error) {
	return parseWith(data, name, env, func(*form.Reader, *draft) {})
}

// parseWith is Parse, except that it calls readFiles to read the files that the configuration names.
func parseWith(data []byte, name string, env []string, readFiles func(*form.Reader, *draft)) (*Config, error) {
	r := form.NewReader()
	d := newDraft(Default())
	if top := r.Document(data, name); top != nil {
		r.Mapping(form.Source{File: name}, top, "", settings(d))
	}
	r.RefuseTwice(settings(d))
	r.Environment(env, variables(d), func(s form.Setting) string { return switchedOff(s, d) })
	validate(r, d)
	readFiles(r, d)
	if err := r.Sorted(); err != nil {
		return nil, err
	}
	c := d.config()
	c.Warnings = r.Warnings
	return c, nil
}

// switchedOff returns the error for a setting of a class that is off, or an empty string.
func switchedOff(s form.Setting, d *draft) string {
	for _, c := range d.classes {
		if c.off && strings.HasPrefix(s.Path, classPath(c.Name)+".") {
			return fmt.Sprintf("the class %s is switched off", c.Name)
		}
	}
	return ""
}

// draft is a configuration that is being read. The settings point into it.
type draft struct {
	Config
	classes    []*draftClass // pointers, because settings point at them while the list grows
	hashMaxLen int           // the value of the original's key; 0: not given

	redis   RedisServer // set by keys from earlier releases
	keyFile string      // set by coordination.gossip.keyFile from earlier releases
}

func newDraft(c *Config) *draft {
	d := &draft{Config: *c}
	for _, k := range classify.Kinds() {
		d.classes = append(d.classes, newBuiltIn(k))
	}
	for _, c := range c.Classes {
		if known := d.class(c.Name); known != nil {
			*known = draftClass{Class: c, kind: known.kind, own: c.Header != "" || c.Path}
		} else {
			d.classes = append(d.classes, &draftClass{Class: c, own: true})
		}
	}
	return d
}

// config returns the finished configuration. It includes only the classes that are on.
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

// settings returns the keys with fixed paths in the order of the manual, followed by the keys that no longer
// exist.
func settings(d *draft) []form.Setting {
	return slices.Concat(
		trafficSettings(&d.Traffic), tlsSettings(&d.TLS), throttleSettings(&d.Throttle), gateSettings(d),
		classesSettings(d), robotsSettings(&d.Robots), sitesSettings(&d.Sites), limitsSettings(d),
		costSettings(&d.Config), bufferSettings(&d.Buffer), coordinationSettings(d),
		adminSettings(&d.Admin), statisticsSettings(&d.Statistics), errorPageSettings(&d.ErrorPages), legacySettings(d), goneSettings())
}

// canonical returns the settings to compare. It omits aliases, keys that no longer exist, and classes, which
// Changed compares one by one.
func canonical(d *draft) []form.Setting {
	return slices.DeleteFunc(form.Own(settings(d)), func(s form.Setting) bool { return s.Path == "classes" })
}

// variables returns the settings that environment variables may name: the keys with fixed paths, and those of
// existing classes. Variables can't set some of them, but these are included to get a clear error.
func variables(d *draft) []form.Setting {
	table := settings(d)
	for _, c := range d.classes {
		if !c.isAbsent() {
			table = append(table, classSettings(c)...)
		}
	}
	return table
}
