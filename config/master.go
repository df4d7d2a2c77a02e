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

// Master is the configuration of tempomat-master. docs/master.md explains each key.
type Master struct {
	Listen      MasterAddress  // where gatekeepers connect; the file gives the address for accounting, and control is on the next port
	Store       string         // URL of the Redis server that keeps the state across restarts; empty: only in memory
	MaxSkew     time.Duration  // the largest difference between a message's time and the master's clock
	Identifiers int            // the most identifiers that are kept in memory for each domain
	Domains     []MasterDomain // in the order of the file
	Metrics     string         // "host:port" where Prometheus reads metrics; empty: none
	Admin       Admin          // where tempomat-doctor connects
	LogLevel    string         // debug, info, warn or error
	Warnings    []string       // keys of the file that no longer have an effect; one line for each
}

// MasterDomain is a domain with its rules. A client that exceeds one of the rules must wait.
type MasterDomain struct {
	Name  string
	Rules []MasterRule
}

// MasterRule is a limit for each identifier of a domain.
type MasterRule struct {
	Rule     string        // bucket, history or credit
	Interval time.Duration // time between two requests at the rate, in whole milliseconds; not for credit
	Burst    time.Duration // requests allowed at once, as the time that these take at the rate; for credit, CPU time
	CPUs     float64       // for credit: CPU-seconds that each identifier may use per second
	Memory   time.Duration // for credit: the longest time to pay a debt
}

// DefaultMaster returns the configuration of an empty file.
func DefaultMaster() *Master {
	return &Master{
		Listen:  MasterAddress{Accounting: "tcp://*:10004", Control: "tcp://*:10005"},
		MaxSkew: 10 * time.Second, Identifiers: 1_000_000,
		Admin:    Admin{Listen: "unix:/run/tempomat-master/admin.sock"},
		LogLevel: "info",
	}
}

// LoadMaster reads a file. It opens no other files. The error is of type Faults, or wraps a system error.
func LoadMaster(name string) (*Master, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	return parseMaster(data, name)
}

// parseMaster reads a configuration of tempomat-master or of the first Smockron master, from YAML or JSON. The
// first master's keys have the same meaning here. The error is of type Faults.
func parseMaster(data []byte, name string) (*Master, error) {
	r := form.NewReader()
	m := DefaultMaster()
	table := masterSettings(m)
	if top := r.Document(data, name); top != nil {
		r.Mapping(form.Source{File: name}, top, "", table)
	}
	r.RefuseTwice(table)
	if len(m.Domains) == 0 && !r.Faulty("domains") {
		r.Fault(form.Source{File: name}, "", "has no domains, so no client would be limited")
	}
	if err := r.Sorted(); err != nil {
		return nil, err
	}
	m.Warnings = r.Warnings
	return m, nil
}

// masterSettings returns all keys, in the order of the manual.
func masterSettings(m *Master) []form.Setting {
	table := []form.Setting{
		{Path: "listen", Value: masterAddress().In(&m.Listen), Restart: true},
		{Path: "server.listen", Value: masterAddress().In(&m.Listen), AliasOf: "listen"},
		{Path: "store", Value: storeURL().In(&m.Store), Restart: true},
		{Path: "datastore.host", Value: storeURL().In(&m.Store), AliasOf: "store"},
		{Path: "maxSkew", Value: form.Duration(100*time.Millisecond, day).In(&m.MaxSkew)},
		{Path: "queue", Gone: "remove it: it is always 16384 messages"},
		{Path: "identifiers", Value: form.Integer(16, 100_000_000).In(&m.Identifiers)},
		{Path: "domains", Value: masterDomains{&m.Domains}, Nested: true},
		{Path: "metrics", Value: form.OrEmpty(tcpAddress()).In(&m.Metrics), Restart: true},
		{Path: "admin.listen", Value: form.OrOff(socketAddress(), "off", "").In(&m.Admin.Listen), Restart: true},
		{Path: "log.level", Value: logLevel().In(&m.LogLevel)},
		{Path: "log.accounting", Gone: "remove it: tempomat-doctor master shows the master's state"},
	}
	for _, section := range []string{"statsd.", "stats."} {
		for _, key := range []string{"host", "port", "prefix", "suffix"} {
			table = append(table, form.Setting{Path: section + key, Gone: "statsd is no longer supported: let Prometheus read the address in metrics"})
		}
	}
	return table
}

// Describe prints every key of the current configuration.
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
	_ = out.Flush() // callers that need write errors use a writer that stores them
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
	for _, warning := range m.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// ChangedMaster returns the keys whose values differ, in the order of the manual.
func ChangedMaster(old, new *Master) []Change {
	before, after := *old, *new
	before.Store, after.Store = shownURL(before.Store), shownURL(after.Store)
	return differences(form.Own(masterSettings(&before)), form.Own(masterSettings(&after)))
}

// String describes the rule in words.
func (r MasterRule) String() string {
	if r.Rule == "credit" {
		return fmt.Sprintf("credit: %s CPU-s/s, burst %s, memory %s", form.FormatNumber(r.CPUs), form.FormatDuration(r.Burst), form.FormatDuration(r.Memory))
	}
	return fmt.Sprintf("%s: one request per %s, burst %s (%s)", r.Rule, form.FormatDuration(r.Interval), form.FormatNumber(float64(r.Burst)/float64(r.Interval)), form.FormatDuration(r.Burst))
}

const (
	maxDomains     = 10_000
	maxDomainRules = 16
	// maxHistory is the most requests that a rule of type history remembers for an identifier.
	maxHistory = 10_000
)

// masterDomains reads the mapping from domain names to rules.
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

// readRules reads either one rule, which is the first master's form, or a list of rules in the key rules.
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
			r.Fault(here, "", "contains all rules of the domain; move the other keys into it")
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

// draftRule holds the keys of a rule while it is being read.
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
		{Path: "burst", Value: form.Simple("must not be empty", notEmpty).In(&d.burst)},
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

// compile makes a rule from the keys. If it returns an error, key names the wrong key.
func (d *draftRule) compile() (rule MasterRule, key string, err error) {
	rate, interval := d.rate != Rate{}, d.interval != 0
	rule = MasterRule{Rule: d.rule, Interval: d.interval}
	switch {
	case d.rule == "credit" && (rate || interval):
		return rule, "rate", errors.New("doesn't apply to rule credit, which uses cpus")
	case d.rule == "credit" && d.cpus == 0:
		return rule, "cpus", errors.New("is missing; it must be the number of CPU-seconds that each identifier may use per second")
	case d.rule == "credit":
		rule.CPUs, rule.Memory = d.cpus, d.memory
		rule.Burst, err = form.Duration(0, day).Parse(cmp.Or(d.burst, form.FormatDuration(defaultBurst)))
		return rule, "burst", err
	case d.cpus != 0:
		return rule, "cpus", errors.New("applies only to rule credit")
	case rate && interval:
		return rule, "interval", errors.New("sets the same value as rate; keep only one of them")
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
		err = fmt.Errorf("is more than %d requests, the most that rule history can remember", maxHistory)
	}
	return rule, "burst", err
}

func notEmpty(text string) (string, bool) { return text, strings.TrimSpace(text) != "" }

// period reads a time between two requests.
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

// storeURL reads the URL of a Redis server. Like the first master, it also accepts tcp://host:port and a plain
// host name.
func storeURL() form.Scalar[string] {
	const problem = "must be a Redis server such as redis://user:password@host:6379/0, rediss://host, tcp://host:6379 or host" //nolint:gosec // an example
	return form.OrOff(form.Simple(problem, func(text string) (string, bool) {
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

// shownURL returns a URL with its password hidden.
func shownURL(text string) string {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}
