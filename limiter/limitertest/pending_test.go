package limitertest

// What the gate misses.
const (
	tried = "before anybody knows what is dear, some of it is tried; nine seconds each, it takes until it is done"
	both  = "one address holds all that it may, and crawls as well"
	keeps = "crawlers that keep the newcomers' cookie go first among strangers, and are known after half a minute"
	burst = "browsers' User-Agents have 120 s of CPU time saved up, so that a fleet of crawlers uses it for minutes"

	underrated = "what was guessed light and is not goes on in a light one's place"
	middling   = "a page that is neither light nor heavy waits for a heavy one's place"
	manyFaces  = "sessions of one address, or its User-Agent's debt, stand before newcomers"
	inOrder    = "newcomers wait behind all strangers that came before them"
	oneOffice  = "people of an office without cookies are not told from the crawler in it"
	lookalike  = "people wait like the crawlers that ask for the same pages"
	bystander  = "a robot that seldom asks for something dear waits like a crawler"
)

// pending are scenarios whose demands are not met yet, and why. One that is met
// has to be taken out.
func pending() map[string]string {
	all := map[string]string{}
	for why, names := range map[string][]string{
		tried: {"hangup-8addr-30ms", "hangup-8addr-200ms", "hangup-8neighbours-30ms", "hangup-40addr-30ms"},
		both:  {"all+crawl", "all+crawl-cold"},
		keeps: {"flat+follow-40+redirect"},
		burst: {"flat120think", "flatnat", "flatnat-1cpu", "flatnat-4cpu", "flatnat-1cpu-crowded"},

		underrated: {"misguess8addr", "misguess-control", "train3s-8addr", "longjobs-light"},
		middling: {
			"longjobs-flat", "lj-flat-10s-12conn", "lj-flat-30s-20conn",
			"plain-people120ms-crawl2s", "plain-people150ms-crawl2s", "plain-people300ms-crawl2s",
		},
		manyFaces: {"sess-16-heavy400-flat", "sess-64-heavy400-flat", "T4-sess16x2-new@60", "S3-addr-nocookie-ua-120x1"},
		inOrder: {
			"res-flat-10/s", "res-flat-13/s", "res-flat-20/s",
			"new+lightshot100", "new+oneshot30heavy-samepath", "new+dist120-samepath",
			"flash500-60ms", "flash500-60ms+crawl",
		},
		oneOffice: {"natflat20+crawler-inside-cookiesfalse", "natflat20+flatcrawler-inside-cookiesfalse"},
		lookalike: {"flat-20addr-browser", "flat-120addr-browser"},
		bystander: {"innocent-dist120"},
	} {
		for _, name := range names {
			all[name] = why
		}
	}
	return all
}
