package config

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"tempomat/config/form"
)

// Master is the configuration of tempomat-master. The comment of each field is its
// manual.
type Master struct {
	Listen      MasterAddress  // where gatekeepers connect: accounting, and control on the next port
	Store       string         // what keeps who has to wait over a restart: the URL of a Redis; empty: memory
	MaxSkew     time.Duration  // how far the times in accounting may be off; what differs more is dropped
	Queue       int            // most accounting that waits; beyond it the oldest is dropped
	Identifiers int            // most identifiers that are remembered, of each domain
	Domains     []MasterDomain // in the order of the file
	Statsd      Statsd         // where statistics go
	Metrics     string         // "host:port" where Prometheus asks; empty: nowhere
	Admin       Admin          // where the doctor connects
	Log         MasterLog      // what is logged
}

// MasterDomain is a domain and its rules: who breaks one of them has to wait.
type MasterDomain struct {
	Name  string
	Rules []MasterRule
}

// MasterRule is one limit for each identifier of a domain.
type MasterRule struct {
	Rule     string        // bucket, history or credit
	Interval time.Duration // between two requests at the rate, in whole milliseconds; not of credit
	Burst    time.Duration // requests at once, as the time that they take at the rate; of credit, CPU time
	CPUs     float64       // of credit: CPU-seconds that each identifier may use per second
	Memory   time.Duration // of credit: longest time that any debt takes to be paid
}

// Statsd is where statistics go.
type Statsd struct {
	Host           string // empty: nowhere
	Port           int
	Prefix, Suffix string // around each name
}

// MasterLog is what a master logs.
type MasterLog struct {
	Level      string // debug, info, warn or error
	Accounting int    // most lines of accounting in a second; 0: none
}

// DefaultMaster is the configuration of an empty file.
func DefaultMaster() *Master {
	return &Master{
		Listen:  MasterAddress{Accounting: "tcp://*:10004", Control: "tcp://*:10005"},
		MaxSkew: 10 * time.Second, Queue: 16_384, Identifiers: 1_000_000,
		Statsd: Statsd{Port: 8125},
		Admin:  Admin{Listen: "unix:/run/tempomat-master/admin.sock"},
		Log:    MasterLog{Level: "info"},
	}
}

// LoadMaster reads the file of that name, and opens nothing else. The error is
// Faults, or wraps what the system said of the file.
func LoadMaster(name string) (*Master, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, form.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return parseMaster(data, name)
}

// parseMaster reads a master's configuration from YAML or JSON: ours, or the one
// of the first master, whose keys mean what they meant. The error is Faults:
// everything that is wrong.
func parseMaster(data []byte, name string) (*Master, error) {
	r := form.NewReader()
	m := DefaultMaster()
	table := masterSettings(m)
	if top := r.Document(data, name); top != nil {
		r.Mapping(form.Source{File: name}, top, "", table)
	}
	r.RefuseTwice(table)
	if len(m.Domains) == 0 && !r.Faulty("domains") {
		r.Fault(form.Source{File: name}, "", "has no domains; nothing would be limited")
	}
	if err := r.Sorted(); err != nil {
		return nil, err
	}
	return m, nil
}

// masterSettings are all keys, in the order of the manual.
func masterSettings(m *Master) []form.Setting {
	s := &m.Statsd
	return []form.Setting{
		{Path: "listen", Value: masterAddress().In(&m.Listen), Restart: true},
		{Path: "server.listen", Value: masterAddress().In(&m.Listen), AliasOf: "listen"},
		{Path: "store", Value: storeURL().In(&m.Store), Restart: true},
		{Path: "datastore.host", Value: storeURL().In(&m.Store), AliasOf: "store"},
		{Path: "maxSkew", Value: form.Duration(100*time.Millisecond, day).In(&m.MaxSkew)},
		{Path: "queue", Value: form.Integer(128, 10_000_000).In(&m.Queue), Restart: true},
		{Path: "identifiers", Value: form.Integer(16, 100_000_000).In(&m.Identifiers)},
		{Path: "domains", Value: masterDomains{&m.Domains}},
		{Path: "statsd.host", Value: statsdHost().In(&s.Host)},
		{Path: "statsd.port", Value: form.Integer(1, 65535).In(&s.Port)},
		{Path: "statsd.prefix", Value: graphitePrefix().In(&s.Prefix)},
		{Path: "statsd.suffix", Value: graphitePrefix().In(&s.Suffix)},
		{Path: "stats.host", Value: statsdHost().In(&s.Host), AliasOf: "statsd.host"},
		{Path: "stats.port", Value: form.Integer(1, 65535).In(&s.Port), AliasOf: "statsd.port"},
		{Path: "stats.prefix", Value: graphitePrefix().In(&s.Prefix), AliasOf: "statsd.prefix"},
		{Path: "stats.suffix", Value: graphitePrefix().In(&s.Suffix), AliasOf: "statsd.suffix"},
		{Path: "metrics", Value: metricsAddress().In(&m.Metrics), Restart: true},
		{Path: "admin.listen", Value: adminSocket().In(&m.Admin.Listen), Restart: true},
		{Path: "log.level", Value: logLevel().In(&m.Log.Level)},
		{Path: "log.accounting", Value: form.Integer(0, 10_000).In(&m.Log.Accounting)},
	}
}

// Describe prints the configuration in effect: every key with its value.
func (m *Master) Describe(w io.Writer) {
	copied := *m
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range form.Own(masterSettings(&copied)) {
		text := s.Value.Text()
		if s.Path == "domains" {
			continue
		}
		if text == "" {
			text = "none"
		}
		fmt.Fprintf(out, "%s\t%s\n", s.Path, shownURL(text))
	}
	_ = out.Flush() // whoever needs w's errors keeps them in w
	fmt.Fprintln(w, "\ndomains")
	for _, d := range m.Domains {
		for _, r := range d.Rules {
			fmt.Fprintf(out, "  %s\t%s\n", d.Name, r)
		}
		if len(d.Rules) == 0 {
			fmt.Fprintf(out, "  %s\tno rules: only counted\n", d.Name)
		}
	}
	_ = out.Flush()
}

// ChangedMaster lists the keys that differ, in the order of the manual.
func ChangedMaster(old, new *Master) []Change {
	before, after := *old, *new
	before.Store, after.Store = shownURL(before.Store), shownURL(after.Store)
	return differences(form.Own(masterSettings(&before)), form.Own(masterSettings(&after)))
}
