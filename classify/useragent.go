package classify

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// User-Agent families.
//
// A family ignores the parts of a User-Agent that are easy to vary. Only words count (type word), so spaces,
// punctuation, bytes beyond ASCII, versions and case make no difference. There are three kinds of families:
//
//   - Browsers. Most of a browser's text is history ("Mozilla/5.0 … like Gecko"), device models
//     and build numbers. The family consists of one browser and one platform from fixed lists,
//     such as "chrome windows". There are about a hundred of these families.
//   - Robots that identify themselves. The family is the first word with a robot's mark, such as
//     "googlebot" or "mj#bot". If the mark stands alone ("Foo Bar Bot"), it is the name before the
//     mark. If a robot poses as a browser and adds "compatible; Name", it is Name.
//   - All other programs. The family is the name before the first version, at most three words:
//     "python requests", "java", "apache httpclient".
//
// Words with several runs of digits or more than 24 letters are random tokens, and are omitted from names. If
// a User-Agent consists only of such words, its family is "#". If it is missing, or has no words at all, its
// family is "-".
//
// A client can still invent the letters of a name. But without names, crawlers couldn't be distinguished,
// because no list of them would be complete. A client that uses a new name for each request gets a new family
// each time, but still pays in the classes of its address. If a text is cut, no hash of the rest is added,
// because clients could then create any number of families.

const (
	// MaxAgentBytes is the most bytes of a User-Agent that are read.
	MaxAgentBytes = 512
	// maxWholeAgent limits the length of a UserAgentHeader, because Smockron masters don't accept longer
	// identifiers.
	maxWholeAgent = 1024
	maxNameWords  = 3
)

// agent collects the findings while the words of a User-Agent are read.
type agent struct {
	browser    int    // index in browsers; -1: none
	platform   int    // index in platforms; -1: none
	robot      string // the first word that contains a robot's mark
	bare       bool   // one of the words is only a mark
	compatible bool   // the name follows the word "compatible"
	words      bool   // there was a word
	name       []byte // words of the name, separated by spaces
	count      int    // words in name
	naming     bool   // the next word may be part of the name
}

func readAgent(userAgent string) *agent {
	a := &agent{browser: -1, platform: -1, naming: true}
	a.read(userAgent[:min(len(userAgent), MaxAgentBytes)])
	return a
}

// family returns 1 to 64 bytes: lower-case letters, #, - and spaces.
func (a *agent) family() string {
	switch {
	case a.robot != "":
		return a.robot
	case len(a.name) > 0 && (a.bare || a.compatible || a.browser < 0):
		return string(a.name)
	case a.bare:
		return "bot"
	case a.browser >= 0 && a.platform >= 0:
		return browsers[a.browser][0] + " " + platforms[a.platform][0]
	case a.browser >= 0:
		return browsers[a.browser][0]
	case a.words:
		return "#"
	}
	return "-"
}

// isBrowser reports whether the family is that of a browser.
func (a *agent) isBrowser() bool {
	return a.browser >= 0 && !a.isRobot() && !(a.compatible && len(a.name) > 0)
}

// isRobot reports whether there is a robot's mark.
func (a *agent) isRobot() bool { return a.robot != "" || a.bare }

// SaysBrowser reports whether a User-Agent names a browser, and no robot or other program.
func SaysBrowser(userAgent string) bool { return readAgent(userAgent).isBrowser() }

// Family returns the family of a User-Agent, as in Result.
func Family(userAgent string) string { return readAgent(userAgent).family() }

// SaysRobot reports whether a User-Agent contains a robot's mark.
func SaysRobot(userAgent string) bool { return readAgent(userAgent).isRobot() }

func (a *agent) read(s string) {
	var w word
	for i := 0; i < len(s); {
		if c := s[i]; !isWordByte(c) {
			if len(a.name) > 0 && strings.IndexByte("/();,+", c) >= 0 { // ends a product's name
				a.naming = false
			}
			i++
			continue
		}
		a.words = true
		i = w.scan(s, i)
		if w.letters == 0 || w.runs > 1 || i < len(s) && s[i] == ':' {
			continue // not a word, a token, or "http:"
		}
		if w.last == '#' {
			w.runs = 0 // "python3" is "python"
		}
		if w.length() <= maxWord {
			a.addWord(string(w.folded()))
		}
	}
}

// addWord handles the next folded word.
func (a *agent) addWord(w string) {
	if at := placeOf(browsers, w); at >= 0 {
		if a.browser < 0 || at < a.browser {
			a.browser = at
		}
		if w == mozilla || len(a.name) == 0 {
			a.naming = false
		}
		return
	}
	if at := placeOf(platforms, w); at >= 0 {
		if a.platform < 0 || at < a.platform {
			a.platform = at
		}
		if a.compatible && len(a.name) == 0 {
			a.naming = false
		}
	}
	switch {
	case w == "compatible": // a name follows
		a.naming, a.compatible, a.name, a.count = true, true, nil, 0
		return
	case slices.Contains(bareMarks, w):
		a.bare = true
	case a.robot == "" && hasMark(w):
		a.robot = w
	}
	if a.naming && a.count < maxNameWords && len(a.name)+1+len(w) <= maxID {
		if a.count > 0 {
			a.name = append(a.name, ' ')
		}
		a.name = append(a.name, w...)
		a.count++
	}
}

const familySlots = 512

// families caches the families of recent User-Agents. Most clients send one of a few strings, and parsing one
// takes as long as the rest of Classify. A client that sends a new string with each request only loses the
// benefit of the cache.
type families struct {
	seed  maphash.Seed
	slots [familySlots]atomic.Pointer[seenAgent]
}

// seenAgent is the part of a parsed User-Agent that Classify needs.
type seenAgent struct {
	agent, family string
	robot         bool // it doesn't name a browser
	declared      bool // it identifies itself as a robot
}

func newFamilies() *families { return &families{seed: maphash.MakeSeed()} }

// read returns a parsed User-Agent, from the cache if possible.
func (f *families) read(agent string) *seenAgent {
	agent = agent[:min(len(agent), MaxAgentBytes)]
	slot := &f.slots[maphash.String(f.seed, agent)%familySlots]
	if known := slot.Load(); known != nil && known.agent == agent {
		return known
	}
	a := readAgent(agent)
	// Clone copies the string, which would otherwise keep the request's whole header in memory.
	seen := &seenAgent{agent: strings.Clone(agent), family: a.family(), robot: !a.isBrowser(), declared: a.isRobot()}
	slot.Store(seen)
	return seen
}

// Names that occur in User-Agents.
//
//nolint:gochecknoglobals // constants
var (
	// browsers lists the words for each browser. The first word is its name. A User-Agent also names other
	// browsers, so the first entry in this order counts. All User-Agents of browsers contain Mozilla, which
	// counts only if there is no other word.
	browsers = [][]string{
		{"headlesschrome"}, {"edge", "edg", "edga", "edgios"}, {"opera", "opr"}, {"samsungbrowser"}, {"yabrowser"}, {"ucbrowser"},
		{"firefox", "fxios"}, {"chrome", "chromium", "crios"}, {"msie", "trident"}, {"safari"}, {"webkit", "applewebkit"}, {mozilla},
	}
	// platforms lists the words for operating systems and devices. The first entry in this order counts.
	platforms = [][]string{{"android"}, {"iphone", "ipod"}, {"ipad"}, {"windows"}, {"macintosh"}, {"cros"}, {"linux"}}

	// bareMarks are words that indicate a robot without naming it. marks are parts of robots' names.
	bareMarks = []string{"bot", "bots", "robot", "robots", "crawl", "crawler", "crawlers", "spider", "spiders", "scraper"}
	marks     = []string{"bot", "crawl", "spider", "scrap", "slurp"}
)

const mozilla = "mozilla"

// placeOf returns the index of the list that contains a folded word, or -1 if there is none.
func placeOf(all [][]string, w string) int {
	return slices.IndexFunc(all, func(words []string) bool { return slices.Contains(words, w) })
}

func hasMark(w string) bool {
	return w != "cubot" && // a brand of phones
		slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(w, mark) })
}
