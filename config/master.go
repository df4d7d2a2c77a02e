package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"

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

// MasterDomain is a domain and its rules: a client that breaks one of them must wait.
type MasterDomain struct {
	Name  string
	Rules []MasterRule
}

// MasterRule is one limit for each identifier of a domain.
type MasterRule struct {
	Rule     string        // bucket, history or credit
	Interval time.Duration // between two requests at the rate, in whole milliseconds; not of credit
	Burst    time.Duration // requests at once, as the time that they take at the rate; for credit, CPU time
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
	data, err := readFile(name)
	if err != nil {
		return nil, err
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
		{Path: "metrics", Value: form.OrEmpty(tcpAddress(), "nowhere").In(&m.Metrics), Restart: true},
		{Path: "admin.listen", Value: form.OrOff(socketAddress(), "off", "").In(&m.Admin.Listen), Restart: true},
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
	_ = out.Flush() // callers that need w's errors keep them in w
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

// String is the rule in words.
func (r MasterRule) String() string {
	if r.Rule == "credit" {
		return fmt.Sprintf("credit: %s CPU-s/s, burst %s, memory %s", form.FormatNumber(r.CPUs), form.FormatDuration(r.Burst), form.FormatDuration(r.Memory))
	}
	return fmt.Sprintf("%s: one request per %s, burst %s (%s)", r.Rule, form.FormatDuration(r.Interval), form.FormatNumber(float64(r.Burst)/float64(r.Interval)), form.FormatDuration(r.Burst))
}

const (
	maxDomains     = 10_000
	maxDomainRules = 16
	// maxHistory is the most requests that rule history remembers of an identifier.
	maxHistory = 10_000
)

// masterDomains reads the mapping of domain names to rules.
type masterDomains struct{ p *[]MasterDomain }

func (v masterDomains) Text() string {
	var all []string
	for _, d := range *v.p {
		for _, r := range d.Rules {
			all = append(all, d.Name+" "+r.String())
		}
		if len(d.Rules) == 0 {
			all = append(all, d.Name)
		}
	}
	return strings.Join(all, "; ")
}

func (v masterDomains) Spec() form.Spec { return form.Spec{Type: "mapping", Nested: true} }

func (v masterDomains) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	if form.IsNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode || len(n.Content)/2 > maxDomains {
		r.Fault(at, "", fmt.Sprintf("must be a mapping of at most %d domain names to rules such as {rate: 5/sec, burst: 10}", maxDomains))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := at.Under(key.Value).On(key)
		if !domainName.MatchString(key.Value) {
			r.Fault(here, "", "a domain's name has 1 to 200 printable characters without spaces")
			continue
		}
		d := MasterDomain{Name: key.Value}
		d.Rules = readRules(r, here, value)
		*v.p = append(*v.p, d)
	}
}

// readRules reads one rule, as for the first master, or a list of them under the key rules.
func readRules(r *form.Reader, at form.Source, n *yaml.Node) (rules []MasterRule) {
	if form.IsNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.Fault(at, form.QuotedNode(n), "must be a rule such as {rate: 5/sec, burst: 10}, or {rules: [...]} with several")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, list := n.Content[i], n.Content[i+1]
		if key.Value != "rules" {
			continue
		}
		here := at.Under("rules").On(key)
		switch {
		case len(n.Content) > 2:
			r.Fault(here, "", "stands for all rules of the domain; the other keys belong into it")
		case list.Kind != yaml.SequenceNode || len(list.Content) > maxDomainRules:
			r.Fault(here, "", fmt.Sprintf("must be a list of at most %d rules", maxDomainRules))
		default:
			for j, item := range list.Content {
				if rule, ok := readRule(r, here.Item(j).On(item), item); ok {
					rules = append(rules, rule)
				}
			}
		}
		return rules
	}
	if rule, ok := readRule(r, at, n); ok {
		rules = append(rules, rule)
	}
	return rules
}

// draftRule is a rule as it is written.
type draftRule struct {
	rule, burst      string
	rate             Rate
	interval, memory time.Duration
	cpus             float64
}

func readRule(r *form.Reader, at form.Source, n *yaml.Node) (rule MasterRule, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.Fault(at, form.QuotedNode(n), "must be a rule such as {rate: 5/sec, burst: 10}")
		return rule, false
	}
	d := draftRule{rule: "bucket", memory: 2 * time.Minute}
	if !r.Member(at, n, []form.Setting{
		{Path: "rule", Value: form.Choice("bucket", "history", "credit").In(&d.rule)},
		{Path: "rate", Value: rate().In(&d.rate)},
		{Path: "interval", Value: period().In(&d.interval)},
		{Path: "burst", Value: form.Simple("", "must not be empty", notEmpty).In(&d.burst)},
		{Path: "cpus", Value: someCPUs().In(&d.cpus)},
		{Path: "memory", Value: form.Duration(time.Second, day).In(&d.memory)},
	}) {
		return rule, false
	}
	rule, key, err := d.compile()
	if err == nil {
		return rule, true
	}
	value := ""
	if key == "burst" && d.burst != "" {
		value = form.Quoted(d.burst)
	}
	r.Fault(at.Under(key), value, err.Error())
	return rule, false
}

// compile makes sense of the keys together. A fault is of the one that it returns.
func (d *draftRule) compile() (rule MasterRule, key string, err error) {
	rate, interval := d.rate != Rate{}, d.interval != 0
	rule = MasterRule{Rule: d.rule, Interval: d.interval}
	switch {
	case d.rule == "credit" && (rate || interval):
		return rule, "rate", errors.New("is not for rule credit, which has cpus")
	case d.rule == "credit" && d.cpus == 0:
		return rule, "cpus", errors.New("is missing; it must be the CPU-seconds that each identifier may use per second")
	case d.rule == "credit":
		rule.CPUs, rule.Memory = d.cpus, d.memory
		rule.Burst, err = form.Duration(0, day).Parse(cmp.Or(d.burst, form.FormatDuration(defaultBurst)))
		return rule, "burst", err
	case d.cpus != 0:
		return rule, "cpus", errors.New("is only for rule credit")
	case rate && interval:
		return rule, "interval", errors.New("says the same as rate; keep one of the two")
	case rate:
		rule.Interval = d.rate.Interval()
	case !interval:
		return rule, "rate", errors.New("is missing; it " + rateHelp)
	}
	if d.burst == "" {
		return rule, "burst", errors.New("is missing; it must be a number of requests, or a duration such as 10s")
	}
	rule.Burst, err = parseBurst(d.burst, rule.Interval)
	if err == nil && d.rule == "history" && rule.Burst/rule.Interval > maxHistory {
		err = fmt.Errorf("is more than %d requests, which rule history would have to remember", maxHistory)
	}
	return rule, "burst", err
}

func notEmpty(text string) (string, bool) { return text, strings.TrimSpace(text) != "" }

// period is a time between requests.
func period() form.Scalar[time.Duration] {
	return form.Scalar[time.Duration]{
		Parse: func(text string) (time.Duration, error) {
			d, err := parsePeriod(text)
			if err == nil && d < time.Millisecond {
				err = errors.New(periodHelp)
			}
			return d, err
		},
		Format: form.FormatDuration,
	}
}

func someCPUs() form.Scalar[float64] {
	return form.Number("a number from 0.000001 to 4096", 0.000001, 4096)
}

// storeURL is the URL of a Redis. The first master takes tcp://host:port, and
// means what it was given by a bare host name as well.
func storeURL() form.Scalar[string] {
	const problem = "must be a Redis such as redis://user:password@host:6379/0, rediss://host, tcp://host:6379 or host" //nolint:gosec // an example
	return form.OrOff(form.Simple("a Redis", problem, func(text string) (string, bool) {
		full := text
		if rest, is := strings.CutPrefix(text, "tcp://"); is {
			full = "redis://" + rest
		} else if !strings.Contains(text, "://") {
			full = "redis://" + text
		}
		u, err := url.Parse(full)
		if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" || u.Host == "" && u.Scheme != "unix" {
			return "", false
		}
		if u.Port() == "" && u.Scheme != "unix" {
			u.Host += ":6379"
		}
		return u.String(), true
	}), "memory")
}

// shownURL is a value without the password of a URL.
func shownURL(text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}

func statsdHost() form.Scalar[string] {
	return form.Simple("a name or an address", "must be the name or the address of a host",
		func(text string) (string, bool) { return text, len(text) <= 253 && !strings.ContainsAny(text, " /:") })
}
