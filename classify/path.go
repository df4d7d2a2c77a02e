package classify

import "strings"

// Path shapes.
//
// A path shape is a path without the parts that distinguish one page from others of its kind: the shape of
// /blog/2024/05/my-first-long-post?page=3 is /blog/*/*/*?page. Costs are learned by shape. Pages that run the
// same code should therefore have the same shape, and clients should not be able to make new shapes at will.
//
// The path is decoded first, so a different encoding changes nothing. Repeated and trailing slashes are
// removed, and dot segments are resolved. Letters become lower case, because few sites have pages that differ
// only in case. Then each segment is folded (appendSegment): * stands for an identifier, a title or a random
// token, and # for digits inside a word. At most 8 segments and 64 bytes are kept. Everything after that
// becomes /*.
//
// From the query, only the names of the first four parameters are kept, in their order, and folded in the same
// way. Values are never kept. The names distinguish a search from a list, but clients can invent names,
// because most backends ignore unknown parameters. A PathShape class therefore charges only by the shape up to
// the question mark. The names are used to guess the cost, where a wrong name does little harm.
//
// Words of letters are kept, because routes consist of them and no rule distinguishes a route from an invented
// word. Clients can therefore create any number of shapes, and code that stores data per shape must limit it.

const (
	maxShape     = 96   // bytes of a shape
	maxShapePath = 64   // bytes of a shape before the query
	maxSegments  = 8    // segments of a path that are kept
	maxPathBytes = 1024 // bytes of a path, and of a query, that are read
	maxNames     = 4    // parameters whose names are kept
	maxName      = 16   // longest name kept
)

// appendShape appends the shape of the decoded path and the raw query. pathEnd is the offset in the returned
// slice up to which a PathShape class uses the shape. That part includes the question mark if there is a
// query.
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

// appendNames appends the names of parameters until the next one would exceed limit. A name ends in front of
// its [index] and isn't decoded. A name that begins with an encoded byte becomes *.
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
			dst = dst[:before] // the name repeats, as in a[]=1&a[]=2
			continue
		}
		last = start
		kept++
	}
	return dst
}

// cutName cuts off the first parameter and returns the part of its name that the shape uses. given is false if
// the parameter has no name. Parameters also end at a semicolon, because some sites write a;b instead of a&b.
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
	maxSegment   = 32 // bytes of a folded segment; a longer one is a title
	maxTitle     = 4  // words of a segment; one with more is a title
	maxExtension = 5  // letters of an extension
	minHex       = 8  // a word with this many hexadecimal digits is an identifier
	minMixed     = 12 // a word with this many letters and runs of digits is a token
)

// segment folds one segment of a path, or one parameter's name:
//
//   - Words keep their letters, and a run of digits becomes #: page2 is page#.
//   - Random tokens become *. These are UUIDs, and words that have several runs of digits, one run
//     next to 11 or more letters, 8 or more hexadecimal digits that include letters and decimal
//     digits, or more than 24 letters.
//   - Neighbouring # and * are merged: 3.6.0 becomes #, and so does a date.
//   - Separators become -, or a dot if one of them is a dot.
//   - A title becomes *, but keeps a short extension: *.jpg. A title has more than 4 words or 32
//     bytes, or anything beyond ASCII.
//   - A segment that consists only of digits becomes *.
type segment struct {
	base      int  // its index in the output
	words     int  // number of words kept, without # and *
	separator byte // to be written before the next word, or 0
	wild      byte // # or * if that was written last, otherwise 0
	extension int  // index of ".ext" if that was written last, otherwise 0
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
		dst = append(dst[:s.base], '*') // the words of a title are dropped
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

// appendWild appends # or *, or merges it with the # or * before it.
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

// appendSeparator appends the pending separator. At the beginning of a segment, it appends only a dot, as in
// .well-known. at is the index of the separator or, without one, of the next word.
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
		return append(dst, '-') // the segment has only separators
	case len(dst) == s.base+1 && s.wild != 0:
		dst[s.base] = '*'
	}
	return dst
}

// isUUID reports whether s consists of 8-4-4-4-12 hexadecimal digits.
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

// User-Agent families and path shapes consist of words, which are runs of ASCII letters and digits. Case and
// digits are easy to vary, so letters become lower case and each run of digits becomes one #. A # in the input
// counts as a digit, so folding a folded word doesn't change it.

// maxWord is the most letters that a word may have. Nearly all words of all languages are shorter, but random
// tokens often aren't.
const maxWord = 24

// word is a folded word.
type word struct {
	letters int
	runs    int  // runs of digits
	size    int  // bytes of the word before folding
	hex     bool // it has only hexadecimal digits
	last    byte // its last folded byte
	text    [maxWord + 1]byte
}

// folded returns the word's text, cut if it is too long.
func (w *word) folded() []byte { return w.text[:min(w.length(), len(w.text))] }

// length returns the length of the folded word before it is cut.
func (w *word) length() int { return w.letters + w.runs }

// scan reads the word that begins at s[start] and returns the index of its end.
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

// foldedByte folds one byte of a word. It returns 0 if the byte doesn't belong to a word.
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
