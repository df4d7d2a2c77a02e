package errorpage

import (
	"strconv"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/text/language"
)

// Wish is the form of an answer that a client asks for.
type Wish uint8

// The forms.
const (
	Text Wish = iota // a few lines, for clients that do not ask for anything else
	HTML             // a page
	JSON             // problem details (RFC 9457)
)

// WishOf reads Accept (RFC 9110, 12.5.1), of which accept are the lines. A page is for clients
// that name text/html, as browsers do; one that takes anything, or nothing of ours, gets plain
// text, which is the shortest, and which every client can show.
func WishOf(accept []string) Wish {
	var best Wish
	var most float64
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			kind, parameters, _ := strings.Cut(part, ";")
			wish, named := wishFor(strings.TrimSpace(kind))
			if !named {
				continue
			}
			// Of two with the same weight the page is taken: a client that names it shows it to a person.
			if q := quality(parameters); q > most || q == most && q > 0 && wish == HTML {
				best, most = wish, q
			}
		}
	}
	return best
}

// wishFor is the form that a media type asks for; false: none, or any.
func wishFor(kind string) (w Wish, named bool) {
	switch {
	case strings.EqualFold(kind, "text/html"), strings.EqualFold(kind, "application/xhtml+xml"):
		return HTML, true
	case strings.EqualFold(kind, "text/plain"):
		return Text, true
	case len(kind) > len("application/") && strings.EqualFold(kind[:len("application/")], "application/") && endsInJSON(kind):
		return JSON, true
	}
	return Text, false
}

// endsInJSON reports whether a media type is JSON or made of it.
func endsInJSON(kind string) bool {
	const json = "json"
	if len(kind) < len(json)+1 || !strings.EqualFold(kind[len(kind)-len(json):], json) {
		return false
	}
	before := kind[len(kind)-len(json)-1]
	return before == '/' || before == '+'
}

// quality is the weight among the parameters of a media type, 0 to 1; 1 if there is none.
func quality(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		q, err := strconv.ParseFloat(value, 32)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

const (
	// longestAsked is how much of Accept-Language is read, in bytes, and mostAsked how many
	// languages: browsers send some 40, and four. To read many takes longer than all else that
	// a refusal does.
	longestAsked = 128
	mostAsked    = 6
	// remembered is how many values of it are.
	remembered = 256
)

// languages chooses among languages. Its method may be called concurrently.
type languages struct {
	matcher language.Matcher
	// kept are choices: to read a list and match it takes microseconds, and browsers send few different ones.
	kept *lru.Cache[string, int]
}

func newLanguages(tags []language.Tag) *languages {
	kept, _ := lru.New[string, int](remembered) // there is room
	return &languages{matcher: language.NewMatcher(tags), kept: kept}
}

// choose is the index of the language that fits Accept-Language best (RFC 9110, 12.5.4); 0, the
// first one, if none does.
func (l *languages) choose(asked string) (index int) {
	if asked = first(asked); asked == "" {
		return 0
	}
	if index, ok := l.kept.Get(asked); ok {
		return index
	}
	if tags, _, err := language.ParseAcceptLanguage(asked); err == nil {
		if _, best, confidence := l.matcher.Match(tags...); confidence > language.No {
			index = best
		}
	}
	l.kept.Add(strings.Clone(asked), index) // or it would keep the memory of the whole header
	return index
}

// first is what is read of a list of languages: whole ones from its beginning.
func first(asked string) string {
	if len(asked) > longestAsked {
		asked = asked[:max(0, strings.LastIndexByte(asked[:longestAsked], ','))]
	}
	for i, n := 0, 0; i < len(asked); i++ {
		if asked[i] != ',' {
			continue
		}
		if n++; n == mostAsked {
			return asked[:i]
		}
	}
	return asked
}
