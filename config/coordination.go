package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Smockron is how accounts are shared through tempomat-master.
type Smockron struct {
	Masters  []MasterAddress  // each domain has one of them, by its name
	Site     string           // before the class in the name of a domain that is not given
	Rejected float64          // part of the refused requests that a master is told of, 0 to 1
	Queue    int              // most accounting that waits to be sent, for each master
	Domains  []SmockronDomain // empty: one for each class, charged by CPU time
}

// SmockronDomain is a domain of Smockron.
type SmockronDomain struct {
	Domain   string        // its name
	Class    string        // the class whose keys are its identifiers
	Charge   string        // cpu: accounting when a request is done; requests: when it is decided
	MaxDelay time.Duration // of requests: longest delay; who would wait longer is refused
	Master   MasterAddress // zero: one of Masters
}

// coordinationSettings are the keys of whom accounts are shared with.
func coordinationSettings(c *Coordination) []setting {
	table := []setting{
		{path: "coordination.kind", value: choice(&c.Kind, "", "none", "smockron", "redis", "gossip"), restart: true},
		{path: "coordination.smockron.master", value: masterAddresses(&c.Smockron.Masters), restart: true},
		{path: "coordination.smockron.site", value: siteName(&c.Smockron.Site), restart: true},
		{path: "coordination.smockron.rejected", value: fraction(&c.Smockron.Rejected), restart: true},
		{path: "coordination.smockron.queue", value: integer(&c.Smockron.Queue, 16, 10_000_000), restart: true},
		{path: "coordination.smockron.domains", value: smockronDomains{&c.Smockron.Domains}, restart: true},
	}
	table = append(table, redisSettings(&c.Redis)...)
	return append(table, gossipSettings(&c.Gossip)...)
}

// validateCoordination checks what the kind needs, and that domains are of classes
// that there are.
func (r *reader) validateCoordination(d *draft) {
	c := &d.Coordination
	if c.Kind == "gossip" {
		r.validateGossip(&c.Gossip)
	}
	if c.Kind != "smockron" {
		return
	}
	at := r.given["coordination.smockron.domains"]
	if len(c.Smockron.Masters) == 0 && !r.faulty("coordination.smockron.master") {
		r.fault(r.given["coordination.kind"], "smockron", "needs coordination.smockron.master, such as tcp://127.0.0.1:10004")
	}
	told := 0
	seen := make(map[string]bool)
	for _, x := range c.Smockron.Domains {
		class := d.class(x.Class)
		switch {
		case seen[x.Domain]:
			r.fault(at, shown(x.Domain), "is a domain twice")
		case class == nil || class.off:
			r.fault(at, shown(x.Class), fmt.Sprintf("is no class that is on; domain %s needs one", x.Domain))
		case x.Charge == "cpu" && seen["cpu of "+x.Class]:
			r.fault(at, shown(x.Class), "has two domains that are charged by CPU time; one is all that it can have")
		case x.Charge == "requests" && d.class(x.Domain) != nil:
			r.fault(at, shown(x.Domain), "is the name of a class; a domain that is charged by requests needs a name of its own")
		}
		seen[x.Domain] = true
		if x.Charge == "cpu" {
			seen["cpu of "+x.Class] = true
		} else if told++; x.MaxDelay > d.Throttle.MaxHold {
			r.fault(at, short(x.MaxDelay), fmt.Sprintf("of domain %s is more than throttle.maxHold, %s", x.Domain, short(d.Throttle.MaxHold)))
		}
	}
	on := 0
	for _, class := range d.classes {
		if !class.off {
			on++
		}
	}
	if told > 0 && on+told > MaxClasses-1 {
		r.fault(at, "", fmt.Sprintf("and the classes that are on are %d; domains that are charged by requests and classes are at most %d", on+told, MaxClasses-1))
	}
}

// fraction is a part of something, 0 to 1.
func fraction(p *float64) scalar {
	return scalar{
		set: func(text string) error {
			x, err := parseNumber(text)
			if err != nil || x < 0 || x > 1 {
				return errors.New("must be a number from 0 to 1")
			}
			*p = x
			return nil
		},
		get: func() string { return number(*p) },
	}
}

var domainName = regexp.MustCompile(`^[!-~]{1,200}$`)

func siteName(p *string) scalar {
	return scalar{
		set: func(text string) error {
			if !domainName.MatchString(text) {
				return errors.New("must be a name of 1 to 200 printable characters without blanks")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

func masterAddresses(p *[]MasterAddress) listOf {
	return listOf{
		max:   64,
		clear: func() { *p = nil },
		add: func(text string) error {
			a, err := parseMasterAddress(text)
			*p = append(*p, a)
			return err
		},
		get: func() string {
			var all []string
			for _, a := range *p {
				all = append(all, a.Accounting)
			}
			return strings.Join(all, ", ")
		},
	}
}

func masterAddress(p *MasterAddress) scalar {
	return scalar{
		set: func(text string) (err error) {
			*p, err = parseMasterAddress(text)
			return err
		},
		get: func() string { return p.Accounting },
	}
}

// smockronDomains reads the list of domains.
type smockronDomains struct{ p *[]SmockronDomain }

func (v smockronDomains) text() string {
	var all []string
	for _, x := range *v.p {
		all = append(all, fmt.Sprintf("%s (%s of %s)", x.Domain, x.Charge, x.Class))
	}
	return strings.Join(all, ", ")
}

func (v smockronDomains) read(r *reader, at source, n *yaml.Node) {
	*v.p = nil
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) > MaxClasses {
		r.fault(at, "", fmt.Sprintf("must be a list of at most %d domains such as {domain: foo, class: slash32, charge: requests}", MaxClasses))
		return
	}
	for i, item := range n.Content {
		here := at.item(i).on(item)
		if item.Kind != yaml.MappingNode {
			r.fault(here, shownNode(item), "must be a mapping with domain and class")
			continue
		}
		x := SmockronDomain{Charge: "cpu", MaxDelay: 5 * time.Second}
		r.mapping(here, item, "", []setting{
			{path: "domain", value: siteName(&x.Domain)},
			{path: "class", value: siteName(&x.Class)},
			{path: "charge", value: choice(&x.Charge, "", "cpu", "requests")},
			{path: "maxDelay", value: duration(&x.MaxDelay, 0, time.Hour)},
			{path: "master", value: masterAddress(&x.Master)},
		})
		if x.Domain == "" || x.Class == "" {
			r.fault(here, "", "must have both domain and class")
			continue
		}
		*v.p = append(*v.p, x)
	}
}
