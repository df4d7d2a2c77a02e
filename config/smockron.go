package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"tempomat/config/form"
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

	Identifier string // of requests: key, or what other gatekeepers send: address, mapped-address or user-agent
	Status     int    // of requests: of refusals, 429 or 503
}

func defaultSmockron() Smockron { return Smockron{Site: "site", Queue: 16384} }

// smockronSettings are its keys. None can change while the proxy runs.
func smockronSettings(s *Smockron) []form.Setting {
	return []form.Setting{
		{Path: "coordination.smockron.master", Value: form.List[MasterAddress]{Of: masterAddress(), Most: 64}.In(&s.Masters), Restart: true,
			Doc: "The masters; each domain has one of them, by its name."},
		{Path: "coordination.smockron.site", Value: siteName().In(&s.Site), Restart: true,
			Doc: "The site's name: the domain of a class is `<site>.<class>`."},
		{Path: "coordination.smockron.rejected", Value: fraction().In(&s.Rejected), Restart: true,
			Doc: "Part of the refused requests that a master is told of."},
		{Path: "coordination.smockron.queue", Value: form.Integer(16, 10_000_000).In(&s.Queue), Restart: true, Unit: "messages",
			Doc: "Most accounting that waits to be sent, for each master."},
		{Path: "coordination.smockron.domains", Value: smockronDomains{&s.Domains}, Restart: true, Default: "one for each class, by `cpu`",
			Doc: "Domains of one's own, in place of one for each class."},
	}
}

// validateSmockron checks that there is a master, and that domains are of classes that
// there are.
func validateSmockron(r *form.Reader, d *draft) {
	c := &d.Coordination
	at := r.Given["coordination.smockron.domains"]
	if len(c.Smockron.Masters) == 0 && !r.Faulty("coordination.smockron.master") {
		r.Fault(r.Given["coordination.kind"], "smockron", "needs coordination.smockron.master, such as tcp://127.0.0.1:10004")
	}
	told := 0
	seen := make(map[string]bool)
	for _, x := range c.Smockron.Domains {
		class := d.class(x.Class)
		switch {
		case seen[x.Domain]:
			r.Fault(at, form.Quoted(x.Domain), "is a domain twice")
		case class == nil || class.off:
			r.Fault(at, form.Quoted(x.Class), fmt.Sprintf("is no class that is on; domain %s needs one", x.Domain))
		case x.Charge == "cpu" && seen["cpu of "+x.Class]:
			r.Fault(at, form.Quoted(x.Class), "has two domains that are charged by CPU time; one is all that it can have")
		case x.Charge == "requests" && d.class(x.Domain) != nil:
			r.Fault(at, form.Quoted(x.Domain), "is the name of a class; a domain that is charged by requests needs a name of its own")
		}
		if d := newSmockronDomain(); x.Charge == "cpu" && (x.Identifier != d.Identifier || x.Status != d.Status) {
			r.Fault(at, form.Quoted(x.Domain), "has an identifier or a status of its own, and is charged by cpu: these are for charge: requests")
		}
		seen[x.Domain] = true
		if x.Charge == "cpu" {
			seen["cpu of "+x.Class] = true
		} else if told++; x.MaxDelay > d.Throttle.MaxHold {
			r.Fault(at, form.FormatDuration(x.MaxDelay), fmt.Sprintf("of domain %s is more than throttle.maxHold, %s", x.Domain, form.FormatDuration(d.Throttle.MaxHold)))
		}
	}
	on := 0
	for _, class := range d.classes {
		if !class.off {
			on++
		}
	}
	if told > 0 && on+told > maxClasses-1 {
		r.Fault(at, "", fmt.Sprintf("and the classes that are on are %d; domains that are charged by requests and classes are at most %d", on+told, maxClasses-1))
	}
}

var domainName = regexp.MustCompile(`^[!-~]{1,200}$`)

func siteName() form.Scalar[string] {
	return form.Text("name", "1 to 200 printable characters", func(text string) error {
		if !domainName.MatchString(text) {
			return errors.New("must be a name of 1 to 200 printable characters without blanks")
		}
		return nil
	})
}

// smockronDomains reads the list of domains.
type smockronDomains struct{ p *[]SmockronDomain }

func (v smockronDomains) Text() string {
	var all []string
	for _, x := range *v.p {
		all = append(all, x.text())
	}
	return strings.Join(all, ", ")
}

// text says all that differs from a plain domain: a reload logs what differs between two.
func (x *SmockronDomain) text() string {
	parts := []string{x.Charge + " of " + x.Class}
	plain := newSmockronDomain()
	before := smockronDomainSettings(&plain)
	for i, s := range smockronDomainSettings(x) {
		switch s.Path {
		case "domain", "class", "charge":
		default:
			if value := s.Value.Text(); value != before[i].Value.Text() {
				parts = append(parts, s.Path+" "+value)
			}
		}
	}
	return x.Domain + " (" + strings.Join(parts, ", ") + ")"
}

func (v smockronDomains) Spec() form.Spec {
	x := newSmockronDomain()
	return form.ListOfMappings(smockronDomainSettings(&x), maxClasses, 2)
}

func (v smockronDomains) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	*v.p = nil
	if form.IsNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) > maxClasses {
		r.Fault(at, "", fmt.Sprintf("must be a list of at most %d domains such as {domain: foo, class: slash32, charge: requests}", maxClasses))
		return
	}
	for i, item := range n.Content {
		here := at.Item(i).On(item)
		if item.Kind != yaml.MappingNode {
			r.Fault(here, form.QuotedNode(item), "must be a mapping with domain and class")
			continue
		}
		x := newSmockronDomain()
		r.Mapping(here, item, "", smockronDomainSettings(&x))
		if x.Domain == "" || x.Class == "" {
			r.Fault(here, "", "must have both domain and class")
			continue
		}
		*v.p = append(*v.p, x)
	}
}

// The statuses that refusals may have.
const tooMany, unavailable = 429, 503

func refusalStatus() form.Scalar[int] {
	s := form.Integer(tooMany, unavailable)
	s.Allowed = "`429` or `503`"
	return s.But(func(text string) error {
		if text != "429" && text != "503" {
			return errors.New("must be 429 or 503")
		}
		return nil
	})
}

// identifierKey has identifiers be the keys of the domain's class.
const identifierKey = "key"

func newSmockronDomain() SmockronDomain {
	return SmockronDomain{Charge: "cpu", MaxDelay: 5 * time.Second, Identifier: identifierKey, Status: tooMany}
}

func smockronDomainSettings(x *SmockronDomain) []form.Setting {
	return []form.Setting{
		{Path: "domain", Value: siteName().In(&x.Domain), Required: true, Doc: "Its name."},
		{Path: "class", Value: siteName().In(&x.Class), Required: true, Doc: "The class whose keys are its identifiers."},
		{Path: "charge", Value: form.Choice("cpu", "requests").In(&x.Charge),
			Doc: "`cpu`: accounting with the cost when a request is done. `requests`: accounting when it is decided; it then waits as the master says."},
		{Path: "maxDelay", Value: form.Duration(0, time.Hour).In(&x.MaxDelay),
			Doc: "Of `requests`: the longest delay; who would wait longer is refused. At most `throttle.maxHold`."},
		{Path: "master", Value: masterAddress().In(&x.Master), Default: "by its name one of `coordination.smockron.master`",
			Doc: "The domain's master."},
		{Path: "identifier", Value: form.Choice(identifierKey, "address", "mapped-address", "user-agent").In(&x.Identifier),
			Doc: "Of `requests`: what clients are called, so that [other gatekeepers](migrate.md#from-smockron) mean the same. `key`: the class's key. `address`: the whole address, also of IPv6. `mapped-address`: the same, with IPv4 as `::ffff:203.0.113.9`. `user-agent`: the header as it is, of at most 1024 bytes."},
		{Path: "status", Value: refusalStatus().In(&x.Status),
			Doc: "Of `requests`: the status of refusals. The originals' is 503."},
	}
}
