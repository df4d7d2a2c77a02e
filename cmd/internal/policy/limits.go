// Package policy makes of a configuration what the limiter, the classifier and the meter
// are told. The sidecar serves by it, and the doctor replays logs by it.
package policy

import (
	"net/http"
	"strings"

	"tempomat/classify"
	"tempomat/classify/class"
	"tempomat/config"
	"tempomat/limiter"
)

// Limits is what the limiter is told.
func Limits(c *config.Config) limiter.Policy {
	p := limiter.Policy{
		Mode:    modeOf(c.Throttle.Mode, limiter.Fair),
		Shadow:  c.Throttle.Shadow,
		MaxHold: c.Throttle.MaxHold,
		MaxHeld: c.Throttle.MaxHeld,
		Memory:  c.Throttle.Memory,
		Gate: limiter.Gate{
			CPUs: CPUs(c), Workers: c.Backend.Workers,
			Heavy: Room(c), Strangers: c.Gate.Strangers,
		}.Complete(),
	}
	p.Sites, p.OtherSites = siteInfos(c), c.Sites.Others
	for _, class := range c.Classes {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: class.Name, Budget: limiter.Budget{
			CPUs: class.Share * CPUs(c), Burst: class.Burst, Cap: class.Cap, Shadow: class.Shadow,
			Workers: workersOf(class),
		}})
	}
	if JudgesStanding(c) {
		person := p.Classes[0].Budget              // a session is a client of its own
		person.Cap, person.LocalOnly = false, true // each sidecar names sessions by a secret of its own
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: SessionClass, Budget: person})
	}
	if c.Robots.Enabled {
		p.Classes = append(p.Classes, robotClass(c))
	}
	_, told := toldClasses(c)
	p.Classes = append(p.Classes, told...)
	return p
}

// modeOf is a mode by its name; without one it is that of all.
func modeOf(name string, all limiter.Mode) limiter.Mode {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative, limiter.Cap, limiter.Fair} {
		if m.String() == name {
			return m
		}
	}
	return all
}

// workersOf is the part of the workers, of those that are not kept for short
// requests, that each key of a class may hold.
func workersOf(c config.Class) float64 {
	if c.Header != "" || c.Path {
		return 0
	}
	k, _ := class.Find(c.Name)
	return k.Workers
}

// Classifier makes what finds out who asks, with the databases that it asks. Its error is what the configuration's own
// checks let through and should not have.
func Classifier(c *config.Config, databases map[string]classify.Database) (*classify.Classifier, error) {
	cc := classify.Config{TrustedProxies: c.Trusted(), Databases: databases}
	switch strings.ToLower(c.AddressHeader) {
	case "x-forwarded-for":
		cc.AddressHeader = classify.XForwardedFor
	case "forwarded":
		cc.AddressHeader = classify.Forwarded
	case "x-real-ip":
		cc.AddressHeader = classify.XRealIP
	case "cf-connecting-ip":
		cc.AddressHeader = classify.CFConnectingIP
	case "true-client-ip":
		cc.AddressHeader = classify.TrueClientIP
	default:
		cc.AddressHeader = classify.NoHeader
	}
	for _, class := range c.Classes {
		cc.Classes = append(cc.Classes, classOf(class))
	}
	told, _ := toldClasses(c)
	cc.Classes = append(cc.Classes, told...)
	var err error
	if cc.Exempt, err = exemptions(c.Exempt); err != nil {
		return nil, err
	}
	if cc.Sites, err = sites(c.Sites.Named); err != nil {
		return nil, err
	}
	return classify.New(cc)
}

// classOf is how a class groups requests.
func classOf(class config.Class) classify.Class {
	by := classify.Class{Name: class.Name, Header: class.Header}
	switch {
	case class.Header != "":
		by.By = classify.Header
	case class.Path:
		by.By = classify.PathShape
	default:
		by.By = classify.By(class.Name)
	}
	return by
}

// identifiers are what clients can be called other than by the key of a class.
func identifiers() map[string]classify.By {
	return map[string]classify.By{"address": classify.Address, "mapped-address": classify.MappedAddress, "user-agent": classify.UserAgentHeader}
}

// Unavailable are the classes whose refusals say that there is no service, as other gatekeepers
// of their domain do.
func Unavailable(c *config.Config) map[string]bool {
	all := make(map[string]bool)
	for _, d := range c.Coordination.Smockron.Domains {
		if d.Status == http.StatusServiceUnavailable && c.Coordination.Kind == "smockron" {
			all[d.Domain] = true
		}
	}
	return all
}

// toldClasses are those that are judged by a master: the same grouping as a class
// of the configuration, under the domain's name.
func toldClasses(c *config.Config) (classes []classify.Class, limits []limiter.ClassInfo) {
	if c.Coordination.Kind != "smockron" {
		return nil, nil
	}
	for _, d := range c.Coordination.Smockron.Domains {
		if d.Charge != "requests" {
			continue
		}
		for _, class := range c.Classes {
			if class.Name == d.Class {
				by := classOf(class)
				if way, other := identifiers()[d.Identifier]; other {
					by = classify.Class{By: way}
				}
				by.Name = d.Domain
				classes = append(classes, by)
				limits = append(limits, limiter.ClassInfo{Name: d.Domain, Budget: limiter.Budget{External: true, MaxHold: d.MaxDelay}})
			}
		}
	}
	return classes, limits
}
