package classify

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// User-Agent families.
//
// A family is what stays the same when a client changes what costs it nothing
// to change. Only words count (type word), so spaces, punctuation, bytes beyond
// ASCII, versions and case make no difference. Then there are three kinds:
//
//   - Browsers. Nearly all of their text is history ("Mozilla/5.0 … like
//     Gecko"), device models and build numbers. The family is one browser and
//     one platform out of a fixed list, "chrome windows", so there are about a
//     hundred families whatever is written around the known words.
//   - Robots that say so: the first word with a mark of one, "googlebot",
//     "mj#bot"; when only a bare mark is there ("Foo Bar Bot"), the name before
//     it. A robot that dresses as a browser and adds "compatible; Name" is Name.
//   - All others: the name before the first version, at most three words,
//     "python requests", "java", "apache httpclient".
//
// In names, words with several runs of digits or more than 24 letters are
// random tokens and are dropped; a family of nothing else is "#". Without a
// User-Agent, or with one that has no word at all, the family is "-".
//
// What is left to the client is the letters of a name that it makes up. A
// crawler cannot be told from another one without it, and no list would be
// complete. Who makes up a new name for each request gets a new family each
// time, as by borrowing the names of others, and pays in the classes of the
// address. No hash of a cut tail is added: that would bring back all the
// freedom that folding takes away.

const (
	maxAgentBytes = 512 // of a User-Agent that are read
	// maxWholeAgent is how much of one is kept where all of it is: as much as a master of
	// Smockron takes for an identifier.
	maxWholeAgent = 1024
	maxNameWords  = 3
)

// agent is what is known of a User-Agent after some of its words.
type agent struct {
	browser    browser
	platform   platform
	robot      [maxWord]byte // the first word with a robot's mark
	robotLen   int
	bare       bool // a word that is nothing but such a mark was seen
	compatible bool // the name follows this word
	words      bool // any word was seen
	name       [maxID]byte
	nameLen    int
	count      int  // words in name
	naming     bool // the name may go on
}

// appendFamily appends the family of the User-Agent: 1 to 64 bytes of lower
// case letters, #, - and spaces.
func appendFamily(dst []byte, userAgent string) []byte {
	a := agent{naming: true}
	a.read(userAgent[:min(len(userAgent), maxAgentBytes)])
	name := a.name[:a.nameLen]
	switch {
	case a.robotLen > 0:
		return append(dst, a.robot[:a.robotLen]...)
	case len(name) > 0 && (a.bare || a.compatible || a.browser == noBrowser):
		return append(dst, name...)
	case a.bare:
		return append(dst, "bot"...)
	case a.browser != noBrowser:
		dst = append(dst, a.browser.label()...)
		if a.platform != noPlatform {
			dst = append(append(dst, ' '), a.platform.label()...)
		}
		return dst
	case a.words:
		return append(dst, '#')
	default:
		return append(dst, '-')
	}
}

// SaysBrowser tells whether a User-Agent names a browser, and no robot or other
// program: whether its family is one of the browsers'.
func SaysBrowser(userAgent string) bool {
	a := agent{naming: true}
	a.read(userAgent[:min(len(userAgent), maxAgentBytes)])
	return a.browser != noBrowser && a.robotLen == 0 && !a.bare && !(a.compatible && a.nameLen > 0)
}

// Family is the family of a User-Agent, as Result has it.
func Family(userAgent string) string { return string(appendFamily(nil, userAgent)) }

// SaysRobot tells whether a User-Agent has the mark of a robot: it is not just any
// program.
func SaysRobot(userAgent string) bool {
	a := agent{naming: true}
	a.read(userAgent[:min(len(userAgent), maxAgentBytes)])
	return a.robotLen > 0 || a.bare
}

func (a *agent) read(s string) {
	var w word
	for i := 0; i < len(s); {
		if c := s[i]; !isWordByte(c) {
			if a.naming && a.nameLen > 0 && endsName(c) {
				a.naming = false
			}
			i++
			continue
		}
		a.words = true
		i = w.scan(s, i)
		if w.letters == 0 || w.runs > 1 || i < len(s) && s[i] == ':' {
			continue // no word, a token, or "http:"
		}
		if w.last == '#' {
			w.runs = 0 // "python3" is "python"
		}
		if w.length() <= maxWord {
			a.addWord(w.folded())
		}
	}
}

// endsName reports whether c is behind a product's name.
func endsName(c byte) bool {
	return c == '/' || c == '(' || c == ')' || c == ';' || c == ',' || c == '+'
}

// addWord takes the next folded word into account.
func (a *agent) addWord(w []byte) {
	if browser, platform := known(w); browser != noBrowser {
		if a.browser == noBrowser || browser < a.browser {
			a.browser = browser
		}
		if browser == mozilla || a.nameLen == 0 {
			a.naming = false
		}
		return
	} else if platform != noPlatform {
		if a.platform == noPlatform || platform < a.platform {
			a.platform = platform
		}
		if a.compatible && a.nameLen == 0 {
			a.naming = false
		}
	}
	switch role(w) {
	case plain:
	case compatible:
		a.naming, a.compatible, a.nameLen, a.count = true, true, 0, 0
		return
	case bareMark:
		a.bare = true
	case mark:
		if a.robotLen == 0 {
			a.robotLen = copy(a.robot[:], w)
		}
	}
	if a.naming && a.count < maxNameWords && a.nameLen+1+len(w) <= maxID {
		if a.count > 0 {
			a.name[a.nameLen] = ' '
			a.nameLen++
		}
		a.nameLen += copy(a.name[a.nameLen:], w)
		a.count++
	}
}

const familySlots = 512

// families remembers the families of User-Agents that were seen recently. People
// share few strings, and reading one takes as long as all the rest of Classify.
// It is a cache of a pure function: it changes how fast an answer is, never
// which. Who sends a new string with each request only finds no help in it.
type families struct {
	seed  maphash.Seed
	slots [familySlots]atomic.Pointer[seenAgent]
}

// seenAgent is what is read out of a User-Agent.
type seenAgent struct {
	agent, family string
	robot         bool // it names no browser
	declared      bool // it says that it is a robot
}

func newFamilies() *families { return &families{seed: maphash.MakeSeed()} }

// read returns what a User-Agent says.
func (f *families) read(agent string) *seenAgent {
	agent = agent[:min(len(agent), maxAgentBytes)]
	slot := &f.slots[maphash.String(f.seed, agent)%familySlots]
	if known := slot.Load(); known != nil && known.agent == agent {
		return known
	}
	var buffer [maxID]byte
	// A clone, as the string is a part of the request's whole header.
	seen := &seenAgent{
		agent: strings.Clone(agent), family: string(appendFamily(buffer[:0], agent)),
		robot: !SaysBrowser(agent), declared: SaysRobot(agent),
	}
	slot.Store(seen)
	return seen
}

// browser is a browser that User-Agents name. They name several: the first in
// this order is the one that it is.
type browser uint8

const (
	noBrowser browser = iota
	headlessChrome
	edge
	opera
	samsungBrowser
	yandexBrowser
	ucBrowser
	firefox
	chrome
	msie
	safari
	webkit
	mozilla // said by all; it is the family of those that say no more
)

func (b browser) label() string {
	return [...]string{
		"", "headlesschrome", "edge", "opera", "samsungbrowser", "yabrowser", "ucbrowser",
		"firefox", "chrome", "msie", "safari", "webkit", "mozilla",
	}[b]
}

// platform is what the browser runs on; the first in this order counts.
type platform uint8

const (
	noPlatform platform = iota
	android
	iphone
	ipad
	windows
	macintosh
	chromeOS
	linux
)

func (p platform) label() string {
	return [...]string{"", "android", "iphone", "ipad", "windows", "macintosh", "cros", "linux"}[p]
}

// known finds a folded word in the two lists. Every label is in them as itself.
func known(w []byte) (browser, platform) {
	switch string(w) {
	case "mozilla":
		return mozilla, noPlatform
	case "applewebkit", "webkit":
		return webkit, noPlatform
	case "safari":
		return safari, noPlatform
	case "chrome", "chromium", "crios":
		return chrome, noPlatform
	case "firefox", "fxios":
		return firefox, noPlatform
	case "edg", "edge", "edga", "edgios":
		return edge, noPlatform
	case "opr", "opera":
		return opera, noPlatform
	case "msie", "trident":
		return msie, noPlatform
	case "samsungbrowser":
		return samsungBrowser, noPlatform
	case "yabrowser":
		return yandexBrowser, noPlatform
	case "ucbrowser":
		return ucBrowser, noPlatform
	case "headlesschrome":
		return headlessChrome, noPlatform
	case "windows":
		return noBrowser, windows
	case "macintosh":
		return noBrowser, macintosh
	case "linux":
		return noBrowser, linux
	case "android":
		return noBrowser, android
	case "iphone", "ipod":
		return noBrowser, iphone
	case "ipad":
		return noBrowser, ipad
	case "cros":
		return noBrowser, chromeOS
	}
	return noBrowser, noPlatform
}

// wordRole is what an unlisted word does for the family.
type wordRole uint8

const (
	plain      wordRole = iota
	compatible          // a name follows
	bareMark            // says "robot", without a name
	mark                // a robot's name
)

func role(w []byte) wordRole {
	switch string(w) {
	case "compatible":
		return compatible
	case "bot", "bots", "robot", "robots", "crawl", "crawler", "crawlers", "spider", "spiders", "scraper":
		return bareMark
	case "cubot": // a telephone
		return plain
	}
	if hasMark(w) {
		return mark
	}
	return plain
}

// hasMark looks for bot, crawl, spider, scrap and slurp in one pass.
func hasMark(w []byte) bool {
	for i := 0; i+3 <= len(w); i++ {
		rest := w[i:]
		switch rest[0] {
		case 'b':
			if rest[1] == 'o' && rest[2] == 't' {
				return true
			}
		case 'c':
			if len(rest) >= 5 && string(rest[:5]) == "crawl" {
				return true
			}
		case 's':
			if len(rest) >= 6 && string(rest[:6]) == "spider" {
				return true
			}
			if len(rest) >= 5 && (string(rest[:5]) == "slurp" || string(rest[:5]) == "scrap") {
				return true
			}
		}
	}
	return false
}
