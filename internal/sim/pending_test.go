package sim

import "path"

// What the gate misses.
const (
	both      = "one address holds all that it may, and crawls as well"
	first30s  = "all are strangers for half a minute, who may hold half of the workers, and polls hold them"
	floods    = "more newcomers than there is room for, and a few dozen samples"
	inside    = "nothing tells people of an office without cookies from the crawler in it that asks for their pages"
	lookalike = "crawlers that do all that browsers do, and ask for the pages that people ask for, have as much a right to them"
	bystander = "a robot that seldom asks for something dear has no more than its share: of 140, a page in 20 s"
	crowded   = "on one CPU the second page of a size halves the speed of the first"
	dozens    = "an office of dozens weighs as eight"
	few       = "of thirty newcomers the p95 is the wait of one"
)

// scatters tells whether a row is missed by one seed and met by another, as its figure
// lies at its bound, or is of a few dozen samples. Of these only what is missed for
// another reason is news.
func scatters(why string) bool {
	switch why {
	case first30s, floods, crowded, dozens, few, bystander, inside:
		return true
	}
	return false
}

// pending are scenarios whose demands are not met yet, and why. One that is met
// has to be taken out, unless it scatters.
func pending() map[string]string {
	all := map[string]string{}
	for why, names := range map[string][]string{
		both:      {"all+crawl", "all+crawl-cold"},
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

// pendingOrdinary tells why an ordinary site of that name is harmed as yet, and by which pattern; empty:
// it is not to be.
func pendingOrdinary(name string) (why, pattern string) {
	for why, patterns := range map[string][]string{
		"some of few workers are kept for short requests": {
			"30x5ms+*s-16w*", "shop*-16w*", "*s+*s-dynamic5*", "*s+*s-4w-1cpu", "*s+*s-40w-4cpu", "*s+*s-ondemand50", "polls*-[^p]*", "streams*-[^p]*",
			"40x5ms+3s-think2-*", "15x8ms+.6s-*-4w-1cpu", "15x8ms+.6s-*-dynamic5", "29xhr+4s-dynamic5",
		},
		"people come before who asks for what is dear": {"export8s-*", "api8x200ms-dynamic5"},
		"what nobody knows yet is tried one after the other": {
			"30x5ms+10s-150w-queue", "polls60x20s-150w-queue", "typing5+2s-*", "20x5ms+0.3s-prefork-told", "20x5ms+0.05s-150w-queue", "class150x5ms+1s-150w-queue",
		},
		"nobody tells whose the use of the CPUs is": {"15x8ms+.6s-busy-*-blind"},
	} {
		for _, p := range patterns {
			if is, err := path.Match(p, name); is && err == nil {
				return why, p
			}
		}
	}
	return "", ""
}
