package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"tempomat/classify"
	"tempomat/classify/mmdb"
	"tempomat/classify/robots"
	"tempomat/cmd/internal/daemon"
	"tempomat/config"
	"tempomat/limiter"
)

// Databases makes the store read the database files of a configuration, and returns the databases to use. The
// error lists the files that can't be used.
func Databases(c *config.Config, store *mmdb.Store) (map[string]classify.Database, error) {
	tables, faults := store.Load(c.Databases.Files())
	all := make(map[string]classify.Database)
	for kind, table := range tables {
		all[kind] = table
	}
	return all, faults
}

// exemptions converts exemptions, and reads their secrets. The error lists the secrets that can't be used.
func exemptions(given []config.Exemption) (all []classify.Exemption, err error) {
	for i, e := range given {
		x := classify.Exemption{Prefix: e.CIDR, Path: e.Path, Methods: e.Methods, Host: e.Host, Header: e.Header}
		if e.Secret != "" {
			text, fault := readSecret(e.Secret)
			if fault != nil {
				err = errors.Join(err, fmt.Errorf("exempt[%d].secret: %w", i, fault))
			}
			x.Secret = text
		}
		all = append(all, x)
	}
	return all, err
}

// longestSecret is the longest secret of an exemption, in bytes.
const longestSecret = 4096

func readSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", daemon.WithRemedy(err, file)
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(s) < classify.MinSecret || len(s) > longestSecret || strings.ContainsFunc(s, odd) {
		return "", fmt.Errorf("%s must contain %d to %d printable characters without spaces, and nothing else", file, classify.MinSecret, longestSecret)
	}
	return s, nil
}

// robotWorkers is the fraction of the workers that a robot may hold, not counting those that are kept for short
// requests. A person may hold twice as many. Requests that end soon count only while no worker is free.
const robotWorkers = 0.25

// robotClass returns the class of robots' accounts.
func robotClass(c *config.Config) limiter.ClassInfo {
	return limiter.ClassInfo{Name: config.RobotClass, Budget: limiter.Budget{
		CPUs: c.Robots.Share * CPUs(c), Burst: classify.DefaultBurst, Workers: robotWorkers,
	}}
}

// Robots makes the value that finds the accounts of robots, or returns nil if robots have no accounts. proofs
// verifies robots. If it is nil, only those with addresses from the configuration can be verified.
func Robots(c *config.Config, proofs robots.Proofs) *robots.Robots {
	if !c.Robots.Enabled {
		return nil
	}
	return robots.New(robots.Config{Class: config.RobotClass, Robots: knownRobots(c), Proofs: proofs, Replaces: replaced(c)})
}

// replaced returns the classes that a verified robot's account replaces: those of addresses, networks and
// programs.
func replaced(c *config.Config) (names []string) {
	for _, of := range c.Classes {
		k, builtIn := classify.KindOf(string(classOf(of).By))
		if builtIn && (k.Address || k.Whose == classify.OfProgram) {
			names = append(names, of.Name)
		}
	}
	return names
}

// knownRobots returns the robots of the configuration and the built-in ones. An entry of the
// configuration overrides the built-in robot of the same name.
func knownRobots(c *config.Config) (all []robots.Robot) {
	known := robots.Known()
	for _, given := range c.Robots.Known {
		x := robots.Robot{Name: given.Name, Agents: []string{given.Name}}
		if i := slices.IndexFunc(known, func(x robots.Robot) bool { return x.Name == given.Name }); i >= 0 {
			x = known[i]
			known = slices.Delete(known, i, i+1)
		}
		if len(given.Domains) > 0 {
			x.Domains = given.Domains
		}
		for _, p := range given.Addresses {
			x.Addresses = append(x.Addresses, p.Prefixes...)
		}
		all = append(all, x)
	}
	return append(all, known...)
}

// siteInfos converts the sites for the limiter.
func siteInfos(c *config.Config) (all []limiter.SiteInfo) {
	for _, s := range c.Sites.Named {
		all = append(all, limiter.SiteInfo{Name: s.Name, Share: s.Share})
	}
	return all
}

// Classifier makes the classifier, which determines the client that sent a request. databases are those that the
// classes need. It returns an error if a secret can't be read.
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
	for _, s := range c.Sites.Named {
		cc.Sites = append(cc.Sites, classify.Site{Name: s.Name, Hosts: s.Hosts})
	}
	return classify.New(cc), nil
}

// classOf returns how a class groups requests.
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

// identifiers returns the ways to identify clients, other than the key of a class.
func identifiers() map[string]classify.By {
	return map[string]classify.By{"address": classify.Address, "mapped-address": classify.MappedAddress, "user-agent": classify.UserAgentHeader}
}

// toldClasses returns a class for each domain in which a master judges every request. The class has the name of the
// domain, and groups requests in the same way as the domain's class unless the domain sets identifier.
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
