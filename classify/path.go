package classify

import "strings"

// Path shapes.
//
// A path shape is a path without what tells one page of a kind from the next:
// /blog/2024/05/my-first-long-post?page=3 is /blog/*/*/*?page. Costs are learned by shape, so
// pages that run the same code should share one, and a client should not be able to make new
// ones at will.
//
// The path is read decoded, so other encodings of it change nothing; repeated
// and trailing slashes are dropped and dot segments resolved. Case is folded:
// few sites have two pages that differ in it, and it is free to vary. Then each
// segment is folded by itself (appendSegment): * stands for an identifier, a
// title or a random token, # for digits inside a word. At most 8 segments and
// 64 bytes are kept; what lies deeper is /*.
//
// Of the query the names of at most four parameters are kept, in their order, folded in the
// same way, never a value: ?page, ?. They distinguish a search from a list, but clients can
// invent them, because most backends ignore unknown ones. So a PathShape class is charged by
// the shape up to the question mark only; the names refine the guess, where a wrong one costs
// little.
//
// Words made of letters only are kept, because routes are made of them, and no rule
// distinguishes a route from an invented word. So shapes are folded, but not finite in
// practice: code that keeps something for each shape must bound it.

const (
	maxShape     = 96   // bytes of a shape
	maxShapePath = 64   // of it, bytes before the query
	maxSegments  = 8    // kept of a path
	maxPathBytes = 1024 // of a path, and of a query, that are read
	maxNames     = 4    // parameters whose names are kept
	maxName      = 16   // longest name kept
)

// appendShape appends the shape of the decoded path and the raw query. pathEnd
// is where the part of it ends that a PathShape class is charged by: behind the
// path and the question mark.
func appendShape(dst []byte, path, query string) (shape []byte, pathEnd int) {
	base := len(dst)
	dst = appendPath(dst, path[:min(len(path), maxPathBytes)])
	if query == "" {
		return dst, len(dst)
	}
	dst = append(dst, '?')
	pathEnd = len(dst)
	return appendNames(dst, query[:min(len(query), maxPathBytes)], base+maxShape), pathEnd
}

func appendPath(dst []byte, path string) []byte {
	base := len(dst)
	segments := 0
	for path != "" {
		raw := path
		if slash := strings.IndexByte(path, '/'); slash >= 0 {
			raw, path = path[:slash], path[slash+1:]
		} else {
			path = ""
		}
		switch raw {
		case "", ".":
			continue
		case "..":
			for i := len(dst) - 1; i >= base; i-- {
				if dst[i] == '/' {
					dst = dst[:i]
					segments--
					break
				}
			}
			continue
		}
		before := len(dst)
		dst = appendSegment(append(dst, '/'), raw)
		segments++
		if segments > maxSegments || len(dst)-base > maxShapePath-len("/*") {
			return append(dst[:before], "/*"...)
		}
	}
	if len(dst) == base {
		dst = append(dst, '/')
	}
	return dst
}

// appendNames appends the names of the parameters as long as they end before
// limit. A name is read up to its [index] and is not decoded: one that begins
// with an encoded byte is *.
func appendNames(dst []byte, query string, limit int) []byte {
	base, last := len(dst), len(dst)
	for kept := 0; query != "" && kept < maxNames; {
		var name string
		var given bool
		if name, query, given = cutName(query); !given {
			continue
		}
		before := len(dst)
		if before > base {
			dst = append(dst, '&')
		}
		start := len(dst)
		dst = appendSegment(dst, name)
		if len(dst)-start > maxName || name == "" {
			dst = append(dst[:start], '*')
		}
		if len(dst) > limit {
			return dst[:before]
		}
		if before > base && string(dst[start:]) == string(dst[last:before]) {
			dst = dst[:before] // a[]=1&a[]=2
			continue
		}
		last = start
		kept++
	}
	return dst
}

// cutName cuts the first parameter off and returns the part of its name that
// counts. given is false when it has no name at all. Some sites write a;b for a&b.
func cutName(query string) (name, rest string, given bool) {
	name = query
	if end := strings.IndexAny(query, "&;"); end >= 0 {
		name, rest = query[:end], query[end+1:]
	}
	if end := strings.IndexAny(name, "=[%"); end >= 0 {
		return name[:end], rest, end > 0 || name[0] != '='
	}
	return name, rest, name != ""
}

const (
	maxSegment   = 32 // bytes of a folded segment; longer is a title
	maxTitle     = 4  // words that a segment may have and not be a title
	maxExtension = 5  // letters of an extension
	minHex       = 8  // least length of hexadecimal digits that are an identifier
	minMixed     = 12 // least length of letters and digits (a run of digits counts as one) that are a token
)

// segment folds one segment of a path, or one parameter's name:
//
//   - Words keep their letters, a run of digits becomes #: page2 is page#.
//   - Random tokens become *: words with several runs of digits, with one run
//     next to 11 or more letters, with 8 or more hexadecimal digits of
//     both kinds, with more than 24 letters; and UUIDs.
//   - Neighbouring # and * become one: 3.6.0 is #, a date is #.
//   - Separators become -, or . where one of them is a dot.
//   - A title, more than 4 words or 32 bytes or anything beyond ASCII, becomes
//     *, but keeps a short extension: *.jpg.
//   - A segment of digits only becomes *.
type segment struct {
	base      int  // where it begins in the output
	words     int  // that were kept, not counting # and *
	separator byte // to put before the next word, or 0
	wild      byte // the last word if it was # or *, else 0
	extension int  // where ".ext" begins if it is the last word, else 0
	title     bool
}

// appendSegment appends the folded segment: at least one byte, without slashes.
func appendSegment(dst []byte, raw string) []byte {
	if isUUID(raw) {
		return append(dst, '*')
	}
	s := segment{base: len(dst)}
	var w word
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '*':
			dst = s.appendWild(dst, '*')
			i++
		case isWordByte(c):
			i = w.scan(raw, i)
			dst = s.appendWord(dst, &w)
		case c == '.':
			s.separator = '.'
			i++
		case c < ' ' || c >= 0x7f:
			s.title = true
			dst = s.appendWild(dst, '*')
			i++
		default:
			if s.separator == 0 {
				s.separator = '-'
			}
			i++
		}
	}
	return s.finish(dst)
}

func (s *segment) appendWord(dst []byte, w *word) []byte {
	switch {
	case w.letters == 0:
		return s.appendWild(dst, '#')
	case w.runs > 1, w.runs == 1 && (w.length() >= minMixed || w.hex && w.size >= minHex), w.letters > maxWord:
		return s.appendWild(dst, '*')
	}
	if len(dst)-s.base > maxSegment {
		s.title = true
		dst = append(dst[:s.base], '*') // no more of it is needed
	}
	dst, at := s.appendSeparator(dst)
	dst = append(dst, w.folded()...)
	s.words++
	s.wild, s.extension = 0, 0
	if at > s.base && dst[at] == '.' && w.runs == 0 && w.letters <= maxExtension {
		s.extension = at
	}
	return dst
}

// appendWild appends # or *, or merges it with the one that is before it.
func (s *segment) appendWild(dst []byte, wild byte) []byte {
	s.extension = 0
	if s.wild != 0 {
		if wild == '*' {
			dst[len(dst)-1] = '*'
			s.wild = '*'
		}
		s.separator = 0
		return dst
	}
	dst, _ = s.appendSeparator(dst)
	s.wild = wild
	return append(dst, wild)
}

// appendSeparator appends the pending separator; at the beginning of a segment
// only a dot, as in .well-known. at is where it, or the word, begins.
func (s *segment) appendSeparator(dst []byte) (out []byte, at int) {
	at = len(dst)
	if s.separator == '.' || s.separator != 0 && at > s.base {
		dst = append(dst, s.separator)
	}
	s.separator = 0
	return dst, at
}

func (s *segment) finish(dst []byte) []byte {
	body := s.words
	if s.extension > 0 {
		body--
	}
	if s.title || body > maxTitle || len(dst)-s.base > maxSegment {
		var extension [1 + maxExtension]byte
		n := 0
		if s.extension > 0 {
			n = copy(extension[:], dst[s.extension:])
		}
		return append(append(dst[:s.base], '*'), extension[:n]...)
	}
	switch {
	case len(dst) == s.base:
		return append(dst, '-') // nothing but separators
	case len(dst) == s.base+1 && s.wild != 0:
		dst[s.base] = '*'
	}
	return dst
}

// isUUID reports whether s is 8-4-4-4-12 hexadecimal digits.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if !isHex(s[i]) {
			return false
		}
	}
	return true
}

// Words are what User-Agent families and path shapes are made of: runs of ASCII letters and
// digits. Case and digits are the two cheapest things to vary, so neither is kept: letters
// become lower case and each run of digits one #. A # in the input counts as a digit, so
// folding twice changes nothing.

// maxWord is the most letters of a word that is kept. Nearly all words of all
// languages are shorter; random tokens often are not.
const maxWord = 24

// word is a folded word.
type word struct {
	letters int
	runs    int  // runs of digits
	size    int  // bytes that were read
	hex     bool // made of hexadecimal digits only
	last    byte // its last folded byte
	text    [maxWord + 1]byte
}

// folded is its text, cut if it is too long.
func (w *word) folded() []byte { return w.text[:min(w.length(), len(w.text))] }

// length is that of the whole folded word.
func (w *word) length() int { return w.letters + w.runs }

// scan reads the word that begins at s[start] and returns where it ends.
func (w *word) scan(s string, start int) int {
	letters, runs, n := 0, 0, 0
	var last, highest byte
	i := start
	for ; i < len(s); i++ {
		c := foldedByte(s[i])
		if c == 0 {
			break
		}
		if c == '#' {
			if last == '#' {
				continue
			}
			runs++
		} else {
			letters++
			highest = max(highest, c)
		}
		last = c
		if n < len(w.text) {
			w.text[n] = c
			n++
		}
	}
	w.letters, w.runs, w.size, w.hex, w.last = letters, runs, i-start, highest <= 'f', last
	return i
}

// foldedByte is what a byte of a word is folded to, and 0 for all others.
func foldedByte(c byte) byte {
	switch {
	case isLetter(c):
		return c | 0x20
	case isDigit(c), c == '#':
		return '#'
	}
	return 0
}

func isWordByte(c byte) bool { return foldedByte(c) != 0 }

func isLetter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { l := c | 0x20; return isDigit(c) || 'a' <= l && l <= 'f' }
