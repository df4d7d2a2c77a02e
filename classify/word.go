package classify

// Words are what User-Agent families and path shapes are made of: runs of ASCII
// letters and digits. Case and digits are the two cheapest things to vary, so
// neither is kept: letters become lower case and each run of digits one #. A #
// that is read counts as a digit, so that folding what was folded changes
// nothing.

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
		c := foldedByte[s[i]]
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

// foldedByte is what each byte of a word is folded to, and 0 for all others.
const foldedByte = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00#\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"##########\x00\x00\x00\x00\x00\x00" +
	"\x00abcdefghijklmno" +
	"pqrstuvwxyz\x00\x00\x00\x00\x00" +
	"\x00abcdefghijklmno" +
	"pqrstuvwxyz\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func isWordByte(c byte) bool { return foldedByte[c] != 0 }

func isLetter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { l := c | 0x20; return isDigit(c) || 'a' <= l && l <= 'f' }
