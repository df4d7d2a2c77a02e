package config

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
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
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return ParseMaster(data, name)
}

// ParseMaster reads a master's configuration from YAML or JSON: ours, or the one
// of the first master, whose keys mean what they meant. The error is Faults:
// everything that is wrong.
func ParseMaster(data []byte, name string) (*Master, error) {
	r := &reader{given: make(map[string]source)}
	m := DefaultMaster()
	table := masterSettings(m)
	if top := r.document(data, name); top != nil {
		r.mapping(source{file: name}, top, "", table)
	}
	r.refuseTwice(table)
	if len(m.Domains) == 0 && !r.faulty("domains") {
		r.fault(source{file: name}, "", "has no domains; nothing would be limited")
	}
	if len(r.faults) > 0 {
		r.faults.sort()
		return nil, r.faults
	}
	return m, nil
}

// masterSettings are all keys, in the order of the manual.
func masterSettings(m *Master) []setting {
	return []setting{
		{path: "listen", value: masterAddress(&m.Listen), restart: true},
		{path: "server.listen", value: masterAddress(&m.Listen), same: "listen"},
		{path: "store", value: storeURL(&m.Store), restart: true},
		{path: "datastore.host", value: storeURL(&m.Store), same: "store"},
		{path: "maxSkew", value: duration(&m.MaxSkew, 100*time.Millisecond, day)},
		{path: "queue", value: integer(&m.Queue, 128, 10_000_000), restart: true},
		{path: "identifiers", value: integer(&m.Identifiers, 16, 100_000_000)},
		{path: "domains", value: masterDomains{&m.Domains}},
		{path: "statsd.host", value: hostName(&m.Statsd.Host)},
		{path: "statsd.port", value: integer(&m.Statsd.Port, 1, 65535)},
		{path: "statsd.prefix", value: graphitePrefix(&m.Statsd.Prefix)},
		{path: "statsd.suffix", value: graphitePrefix(&m.Statsd.Suffix)},
		{path: "stats.host", value: hostName(&m.Statsd.Host), same: "statsd.host"},
		{path: "stats.port", value: integer(&m.Statsd.Port, 1, 65535), same: "statsd.port"},
		{path: "stats.prefix", value: graphitePrefix(&m.Statsd.Prefix), same: "statsd.prefix"},
		{path: "stats.suffix", value: graphitePrefix(&m.Statsd.Suffix), same: "statsd.suffix"},
		{path: "metrics", value: metricsAddress(&m.Metrics), restart: true},
		{path: "admin.listen", value: adminListen(&m.Admin.Listen), restart: true},
		{path: "log.level", value: choice(&m.Log.Level, "", "debug", "info", "warn", "error")},
		{path: "log.accounting", value: integer(&m.Log.Accounting, 0, 10_000)},
	}
}

// Describe prints the configuration in effect: every key with its value.
func (m *Master) Describe(w io.Writer) {
	copied := *m
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range masterSettings(&copied) {
		text := s.value.text()
		if s.same != "" || s.path == "domains" {
			continue
		}
		if text == "" {
			text = "none"
		}
		fmt.Fprintf(out, "%s\t%s\n", s.path, shownURL(text))
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
	own := func(m *Master) (table []setting) {
		for _, s := range masterSettings(m) {
			if s.same == "" {
				table = append(table, s)
			}
		}
		return table
	}
	return differences(own(&before), own(&after))
}
