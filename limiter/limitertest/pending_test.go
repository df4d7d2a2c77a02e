package limitertest

// What the gate misses.
const (
	tried = "before anybody knows what is dear, some of it is tried; nine seconds each, it takes until it is done"
	both  = "one address holds all that it may, and crawls as well"
	keeps = "crawlers that keep the newcomers' cookie go first among strangers, and are known after half a minute"
	burst = "browsers' User-Agents have 120 s of CPU time saved up, so that a fleet of crawlers uses it for minutes"
)

// pending are scenarios whose demands are not met yet, and why. One that is met
// has to be taken out.
func pending() map[string]string {
	all := map[string]string{}
	for why, names := range map[string][]string{
		tried: {"hangup-8addr-30ms", "hangup-8addr-200ms", "hangup-8neighbours-30ms", "hangup-40addr-30ms"},
		both:  {"all+crawl", "all+crawl-cold"},
		keeps: {"flat+follow-40+redirect"},
		burst: {"flat120think", "flatnat"},
	} {
		for _, name := range names {
			all[name] = why
		}
	}
	return all
}
