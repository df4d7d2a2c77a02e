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
	"tempomat/config"
	"tempomat/limiter"
)

// Databases has a store read the files that a configuration names, as far as that is not done,
// and returns what classes ask.
func Databases(c *config.Config, store *mmdb.Store) (map[string]classify.Database, error) {
	if err := store.Load(c.Databases.Files()); err != nil {
		return nil, err
	}
	all := make(map[string]classify.Database)
	for kind, table := range store.Tables() {
		all[kind] = table
	}
	return all, nil
}

// exemptions are those of a configuration. Their error names each secret that is none.
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

// longestSecret is how long the value of a header can be that is a secret, in bytes.
const longestSecret = 4096

func readSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(s) < classify.MinSecret || len(s) > longestSecret || strings.ContainsFunc(s, odd) {
		return "", fmt.Errorf("%s must hold %d to %d printable characters without spaces, and nothing else", file, classify.MinSecret, longestSecret)
	}
	return s, nil
}

// robotWorkers is the part of the workers, of those that are not kept for short requests,
// that a robot may hold: half of what a person may, as no request waits before it.
const robotWorkers = 0.25

// robotClass is the class of robots' accounts.
func robotClass(c *config.Config) limiter.ClassInfo {
	return limiter.ClassInfo{Name: config.RobotClass, Budget: limiter.Budget{
		CPUs: c.Robots.Share * CPUs(c), Burst: classify.DefaultBurst, Workers: robotWorkers,
	}}
}

// Robots is what finds robots' accounts, nil if they have none, by what the proofs tell; nil:
// nobody is asked. Its error is what the configuration's own checks let through and should not
// have.
func Robots(c *config.Config, proofs robots.Proofs) (*robots.Robots, error) {
	if !c.Robots.Enabled {
		return nil, nil
	}
	return robots.New(robots.Config{Class: config.RobotClass, Robots: knownRobots(c), Proofs: proofs, Replaces: replaced(c)})
}

// replaced are the classes instead of which a verified robot has its account: those of
// addresses and programs.
func replaced(c *config.Config) (names []string) {
	for _, of := range c.Classes {
		k, builtIn := classify.KindOf(string(classOf(of).By))
		if builtIn && (k.Address || k.Whose == classify.OfProgram || k.Name == "fingerprint") {
			names = append(names, of.Name)
		}
	}
	return names
}

// knownRobots are the configuration's own, and those that are known anyway as far as it says
// nothing else of them.
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

// siteInfos are the sites of a configuration as the limiter is told of them.
func siteInfos(c *config.Config) (all []limiter.SiteInfo) {
	for _, s := range c.Sites.Named {
		all = append(all, limiter.SiteInfo{Name: s.Name, Share: s.Share})
	}
	return all
}

// sites are those of a configuration as requests are told apart by them. Their error names
// each secret that is none.
func sites(given []config.Site) (all []classify.Site, err error) {
	for _, s := range given {
		exempt, fault := exemptions(s.Exempt)
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("sites.%s: %w", s.Name, fault))
		}
		all = append(all, classify.Site{Name: s.Name, Hosts: s.Hosts, Exempt: exempt})
	}
	return all, err
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
