package classify

const (
	maxSegment   = 32 // bytes of a folded segment; longer is a title
	maxTitle     = 4  // words that a segment may have and not be a title
	maxExtension = 5  // letters of an extension
	minHex       = 8  // length from which hexadecimal digits are an identifier
	minMixed     = 12 // length, a run of digits counted as one, from which letters and digits are a token
)

// segment folds one segment of a path, or one parameter's name:
//
//   - Words keep their letters, a run of digits becomes #: page2 is page#.
//   - Random tokens become *: words with several runs of digits, with one run
//     beside 11 or more letters, with 8 or more hexadecimal digits of
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

// appendWild appends # or *, or merges it with the one that stands before it.
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
