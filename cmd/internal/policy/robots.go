package policy

import (
	"cmp"
	"slices"

	"tempomat/classify"
	"tempomat/classify/class"
	"tempomat/config"
	"tempomat/limiter"
)

// robotWorkers is the part of the workers, of those that are not kept for short requests,
// that a robot may hold: half of what a person may, as nobody waits before it.
const robotWorkers = 0.25

// robotClass is the class of robots' accounts.
func robotClass(c *config.Config) limiter.ClassInfo {
	return limiter.ClassInfo{Name: config.RobotClass, Budget: limiter.Budget{
		CPUs: c.Robots.Share * CPUs(c), Burst: class.DefaultBurst, Workers: robotWorkers,
	}}
}

// Robots is what finds robots' accounts, nil if they have none, and the domains below which
// names of addresses matter. Hosts tells what addresses are called; nil: nobody does. Its error is what the
// configuration's own checks let through and should not have.
func Robots(c *config.Config, hosts classify.Hosts) (x *classify.Robots, domains []string, err error) {
	if !c.Robots.Enabled {
		return nil, nil, nil
	}
	rc := classify.RobotsConfig{Class: config.RobotClass, Crawlers: crawlers(c), Hosts: hosts, Replaces: replaced(c)}
	if !c.Robots.Verify {
		rc.Hosts = nil
	}
	for _, name := range c.Robots.Only {
		rc.Only = append(rc.Only, name, classify.Family(name))
	}
	for _, x := range rc.Crawlers {
		domains = append(domains, x.Domains...)
	}
	x, err = classify.NewRobots(rc)
	return x, domains, err
}

// replaced are the classes in place of which a verified robot has its account: those of
// addresses and programs.
func replaced(c *config.Config) (names []string) {
	for _, of := range c.Classes {
		k, builtIn := class.Find(string(classOf(of).By))
		if builtIn && (k.Address || k.Whose == class.Program || k.Name == "fingerprint") {
			names = append(names, of.Name)
		}
	}
	return names
}

// crawlers are the configuration's own, and those that are known anyway as far as it says
// nothing else of them. A User-Agent is that of the first that has it.
func crawlers(c *config.Config) (all []classify.Crawler) {
	known := classify.KnownCrawlers()
	for _, given := range c.Robots.Known {
		x := classify.Crawler{Name: given.Name, Agents: []string{given.Name}}
		if i := slices.IndexFunc(known, func(x classify.Crawler) bool { return x.Name == given.Name }); i >= 0 {
			x = known[i]
			known = slices.Delete(known, i, i+1)
		}
		if len(given.Agents) > 0 {
			x.Agents = given.Agents
		}
		if len(given.Domains) > 0 {
			x.Domains = given.Domains
		}
		for _, p := range given.Addresses {
			x.Addresses = append(x.Addresses, p.Prefixes...)
		}
		x.Share = cmp.Or(given.Share, c.Robots.Share) / c.Robots.Share
		all = append(all, x)
	}
	all = append(all, known...)
	taken := make(map[string]bool)
	for i := range all {
		var families []string
		for _, agent := range all[i].Agents {
			if f := classify.Family(agent); !taken[f] {
				taken[f] = true
				families = append(families, f)
			}
		}
		all[i].Agents = families
	}
	return all
}
