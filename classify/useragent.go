package classify

import (
	"hash/maphash"
	"slices"
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
// What is left to the client is the letters of a name that it makes up. A crawler cannot be
// told from another one without it, and no list would be complete. A client that makes up a new
// name for each request, or borrows others' names, gets a new family each time, and pays in the
// classes of its address. No hash of a cut tail is added: that would bring back all the freedom
// that folding takes away.

const (
	maxAgentBytes = 512 // of a User-Agent that are read
	// maxWholeAgent is how much of one is kept where all of it is: as much as a master of
	// Smockron takes for an identifier.
	maxWholeAgent = 1024
	maxNameWords  = 3
)

// agent is what is known of a User-Agent after some of its words.
type agent struct {
	browser    int    // its place among browsers; -1: none
	platform   int    // its place among platforms; -1: none
	robot      string // the first word with a robot's mark
	bare       bool   // a word that is nothing but such a mark was seen
	compatible bool   // the name follows this word
	words      bool   // any word was seen
	name       []byte // with a space between its words
	count      int    // words in name
	naming     bool   // the name may go on
}

func readAgent(userAgent string) *agent {
	a := &agent{browser: -1, platform: -1, naming: true}
	a.read(userAgent[:min(len(userAgent), maxAgentBytes)])
	return a
}

// family is 1 to 64 bytes of lower case letters, #, - and spaces.
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

// isBrowser reports whether it names a browser, and no robot or other program: whether its family
// is one of the browsers'.
func (a *agent) isBrowser() bool {
	return a.browser >= 0 && !a.isRobot() && !(a.compatible && len(a.name) > 0)
}

// isRobot reports whether it has the mark of a robot: it is not just any program.
func (a *agent) isRobot() bool { return a.robot != "" || a.bare }

// SaysBrowser reports whether a User-Agent names a browser, and no robot or other program.
func SaysBrowser(userAgent string) bool { return readAgent(userAgent).isBrowser() }

// Family is the family of a User-Agent, as in Result.
func Family(userAgent string) string { return readAgent(userAgent).family() }

// SaysRobot reports whether a User-Agent has the mark of a robot: it is not just any
// program.
func SaysRobot(userAgent string) bool { return readAgent(userAgent).isRobot() }

func (a *agent) read(s string) {
	var w word
	for i := 0; i < len(s); {
		if c := s[i]; !isWordByte(c) {
			if len(a.name) > 0 && strings.IndexByte("/();,+", c) >= 0 { // that is behind a product's name
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
			a.addWord(string(w.folded()))
		}
	}
}

// addWord takes the next folded word into account.
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

// families remembers the families of User-Agents that were seen recently. People share few
// strings, and reading one takes as long as all the rest of Classify. It is a cache of a pure
// function: it changes how fast an answer is, never which. A client that sends a new string
// with each request gets no help from it.
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
	a := readAgent(agent)
	// A clone, because the string is part of the request's whole header.
	seen := &seenAgent{agent: strings.Clone(agent), family: a.family(), robot: !a.isBrowser(), declared: a.isRobot()}
	slot.Store(seen)
	return seen
}

// What User-Agents name.
//
//nolint:gochecknoglobals // constants
var (
	// browsers are the words for each; the first one is its label. They name several: the first in
	// this order is the one that it is. All say that they are Mozilla, which is the family of those
	// that say no more.
	browsers = [][]string{
		{"headlesschrome"}, {"edge", "edg", "edga", "edgios"}, {"opera", "opr"}, {"samsungbrowser"}, {"yabrowser"}, {"ucbrowser"},
		{"firefox", "fxios"}, {"chrome", "chromium", "crios"}, {"msie", "trident"}, {"safari"}, {"webkit", "applewebkit"}, {mozilla},
	}
	// platforms are what they run on; the first in this order counts.
	platforms = [][]string{{"android"}, {"iphone", "ipod"}, {"ipad"}, {"windows"}, {"macintosh"}, {"cros"}, {"linux"}}

	// bareMarks say "robot", without a name; marks are what names of robots contain.
	bareMarks = []string{"bot", "bots", "robot", "robots", "crawl", "crawler", "crawlers", "spider", "spiders", "scraper"}
	marks     = []string{"bot", "crawl", "spider", "scrap", "slurp"}
)

const mozilla = "mozilla"

// placeOf is the place of what a folded word is for; -1: it is for none.
func placeOf(all [][]string, w string) int {
	return slices.IndexFunc(all, func(words []string) bool { return slices.Contains(words, w) })
}

func hasMark(w string) bool {
	return w != "cubot" && // a telephone
		slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(w, mark) })
}
