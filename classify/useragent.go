package classify

// User-Agent families.
//
// A family is what stays the same when a client changes what costs it nothing
// to change. Only words count (word.go), so spaces, punctuation, bytes beyond
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

// saysRobot tells whether a User-Agent has the mark of a robot: it is not just any
// program.
func saysRobot(userAgent string) bool {
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
			a.take(w.folded())
		}
	}
}

// endsName reports whether c stands behind a product's name.
func endsName(c byte) bool {
	return c == '/' || c == '(' || c == ')' || c == ';' || c == ',' || c == '+'
}

// take takes the next folded word into account.
func (a *agent) take(w []byte) {
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
