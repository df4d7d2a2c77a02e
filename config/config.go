// Package config is the configuration as an administrator writes it: plain
// data, its defaults, and every rule about what is allowed. Nothing here opens
// anything but the files that it is told to read; cmd turns the result into parts.
//
// The keys of one section stand in one file: the struct that they fill, its default,
// and a table of settings, each with what it means. From that table a file is read and
// checked, and printed, compared and documented. A new key is a field, a default and a
// row there, a line in deploy/tempomat.yaml, and "make docs-config". A new section is
// also a field of Config, a line of Default and one of chapters.
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

// Config is one whole configuration. The comment of each field is its manual.
type Config struct {
	Traffic
	Statistics
	Answers
	TLS          TLS          // where certificates come from
	Throttle     Throttle     // how debt is acted on
	Gate         Gate         // the queue before the backend
	Standing     Standing     // what evidence that a client is a person counts
	Newcomers    Newcomers    // how browsers that have never been here are told from programs
	Robots       Robots       // robots that say who they are
	Sites        Sites        // what is told apart behind the backend
	State        string       // the file that keeps who is known over a restart; empty: none
	History      History      // what is kept of the last week
	Classes      []Class      // in the order of the table of built-in ones, then as written
	Databases    Databases    // of addresses
	Exempt       []Exemption  // requests that are never charged or delayed
	Limits       []Limit      // how many requests clients may make, in addition to what these cost
	Headers      string       // what tells clients of limits: none, ratelimit (X-RateLimit-…) or draft (the IETF's)
	Cost         Cost         // how a request's cost is found
	Table        Table        // the memory for keys
	Timeouts     Timeouts     // how long a client may hold things open
	Buffer       Buffer       // where bodies wait for the backend and for slow clients
	Coordination Coordination // whom the sidecar shares its accounts with
	Admin        Admin        // where the doctor and the dashboard connect
	Warnings     []string     // what was given and has no effect any more, each in a line
}

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		Traffic:      defaultTraffic(),
		Statistics:   defaultStatistics(),
		Answers:      defaultAnswers(),
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

// Faults is everything that is wrong with a configuration.
type Faults = form.Faults

// Load reads the file of that name and lays the environment over it; without a name
// all has its default. A file has to have a backend, or the environment: one that is empty,
// or was cut off, is none that was meant. Load opens nothing else but the files of prefixes
// that it names. The error is Faults, or wraps what the system said of the file.
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
				"is not given, in the file or as TEMPOMAT_BACKEND; set where requests go, such as "+Default().Backend.URL)
		}
	})
}

// readFile reads a configuration, and of one that is too large enough to tell.
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

// Parse reads one configuration from YAML or JSON. name is the file's name for messages; env
// holds "NAME=value" as os.Environ does and may be nil. Missing keys have their defaults. The
// error is Faults: everything that is wrong. It opens no files, so prefixes in files are not in
// the configuration. No backend need be given.
func Parse(data []byte, name string, env []string) (*Config, error) {
	return parseWith(data, name, env, func(*form.Reader, *draft) {})
}

// parseWith is Parse; readFiles reads the files that the configuration names.
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

// switchedOff says so of a key of a class that is off.
func switchedOff(s form.Setting, d *draft) string {
	for _, c := range d.classes {
		if c.off && strings.HasPrefix(s.Path, classPath(c.Name)+".") {
			return fmt.Sprintf("the class %s is switched off", c.Name)
		}
	}
	return ""
}

// draft is a configuration under construction. Its settings point into it.
type draft struct {
	Config
	classes    []*draftClass // pointers, because settings point at them while the list grows
	hashMaxLen int           // the original's key; 0: not given

	redis   RedisServer // what keys of earlier releases say of it
	keyFile string      // of gossip's encryption, an earlier release's key
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

// chapter is one of the reference: keys that belong together.
type chapter struct {
	title string
	keys  []form.Setting
}

// chapters are all keys at fixed paths, in the order of the reference. A new group of
// keys is one more line.
func chapters(d *draft) []chapter {
	all := []chapter{
		{"Where requests come from and go", trafficSettings(&d.Traffic)},
		{"TLS", tlsSettings(&d.TLS)},
		{"How debt is acted on", throttleSettings(&d.Throttle)},
		{"The gate", gateSettings(d)},
		{"Classes and exemptions", classesSettings(d)},
		{"Robots", robotsSettings(&d.Robots)},
		{"Sites", sitesSettings(&d.Sites)},
		{"Limits in requests", limitsSettings(d)},
		{"Cost, memory, timeouts", costSettings(&d.Config)},
		{"Buffers", bufferSettings(&d.Buffer)},
		{"Sharing with other sidecars", coordinationSettings(d)},
	}
	for _, w := range ways(d) {
		all = append(all, chapter{w.title, w.keys})
	}
	return append(all, []chapter{
		{"Admin interface", adminSettings(&d.Admin)},
		{"Statistics and logs", statisticsSettings(&d.Statistics)},
		{"What the proxy itself answers", answerSettings(&d.Answers)},
		{"Keys of the original", legacySettings(d)},
	}...)
}

// settings are the keys of all chapters, and those that went.
func settings(d *draft) (table []form.Setting) {
	for _, c := range chapters(d) {
		table = append(table, c.keys...)
	}
	return append(table, goneSettings()...)
}

// canonical are the settings that each say something of their own: no second
// forms, none without effect, and not the classes, which are a list.
func canonical(d *draft) []form.Setting {
	return slices.DeleteFunc(form.Own(settings(d)), func(s form.Setting) bool { return s.Path == "classes" })
}

// variables are the settings for which there are environment variables, or errors that explain
// why not: the keys at fixed paths, and those of the existing classes.
func variables(d *draft) []form.Setting {
	table := settings(d)
	for _, c := range d.classes {
		if !c.isAbsent() {
			table = append(table, classSettings(c)...)
		}
	}
	return table
}
