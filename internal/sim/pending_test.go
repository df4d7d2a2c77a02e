package sim

import "path"

// These are the reasons why the gate misses demands.
const (
	first30s  = "for half a minute, all clients are strangers; strangers may hold only half of the workers, and polls hold all of these"
	floods    = "there are more newcomers than there is room for, and only a few dozen samples"
	inside    = "if the people of an office have no cookies, nothing distinguishes them from a crawler in the office that requests their pages"
	lookalike = "crawlers that behave like browsers, and request the pages that people request, have the same right to them"
	bystander = "a robot that rarely requests an expensive page gets no more than its share: among 140 clients, a page every 20 s"
	crowded   = "on one CPU, a second page of the same size halves the speed of the first"
	dozens    = "an office of dozens of people counts as eight clients"
	few       = "the p95 of thirty newcomers is the wait of a single newcomer"
)

// scatters reports whether some seeds meet a row's demands and others miss them, because the row's figure is
// close to its limit or is based on a few dozen samples. Such a row may stay pending even if they are met.
func scatters(why string) bool {
	switch why {
	case first30s, floods, crowded, dozens, few, bystander, inside:
		return true
	}
	return false
}

// pending returns the scenarios whose demands aren't met yet, and the reasons. A scenario whose demands are met
// must be removed, unless it scatters.
func pending() map[string]string {
	all := map[string]string{}
	for why, names := range map[string][]string{
		first30s:  {"poll-10+crawl-cold", "poll-20+crawl-cold"},
		floods:    {"res-flat-20/s", "S3-addr-nocookie-ua-120x1"},
		inside:    {"natflat20+flatcrawler-inside-cookiesfalse"},
		lookalike: {"flat-20addr-browser", "flat-120addr-browser"},
		bystander: {"innocent-dist120"},
		crowded:   {"flat120-1cpu", "flat120-1cpu-crowded", "dist120-1cpu", "nat+dist120-1cpu-crowded", "mixed-1cpu", "mixed-1cpu-crowded"},
		dozens:    {"flatnat", "flatnat-1cpu", "flatnat-1cpu-crowded", "flatnat-8cpu"},
		few:       {"T4-sess16x2-new@60"},
	} {
		for _, name := range names {
			all[name] = why
		}
	}
	return all
}

// pendingOrdinary returns why the gate still harms the ordinary site with a name, and the pattern that matches
// the name. It returns empty strings if the gate may not harm the site.
func pendingOrdinary(name string) (why, pattern string) {
	for why, patterns := range map[string][]string{
		"even if there are few workers, some are kept for short requests": {
			"30x5ms+*s-16w*", "30x5ms+40s-1000w-64cpu", "*s+*s-dynamic5*", "*s+*s-4w-1cpu", "*s+*s-40w-4cpu", "*s+*s-ondemand50", "polls*-[^p]*", "streams*-[^p]*",
			"40x5ms+3s-think2-*", "15x8ms+.6s-*-4w-1cpu", "29xhr+4s-dynamic5",
			"*new-*-dynamic5", "*new-*-4w-1cpu",
		},
		"people go before clients that request expensive pages": {"export8s-*"},
		"pages without an estimate run as probes, one at a time, or wait for room as if they computed": {
			"30x5ms+10s-150w-queue", "30x5ms+10s-1000w-64cpu", "polls60x20s-150w-queue", "typing5+2s-*", "class150x5ms+1s-150w-queue",
		},
		"the proxy can't see which program uses the CPUs": {"15x8ms+.6s-busy-*-blind"},
	} {
		for _, p := range patterns {
			if is, err := path.Match(p, name); is && err == nil {
				return why, p
			}
		}
	}
	return "", ""
}
