package errorpage

import (
	"strconv"
	"strings"
)

// Wish is the form of an answer that a client asks for.
type Wish uint8

// The forms.
const (
	Text Wish = iota // a few lines, for who does not ask for anything else
	HTML             // a page
	JSON             // problem details (RFC 9457)
)

// WishOf reads Accept (RFC 9110, 12.5.1), of which accept are the lines. A page is for who
// names text/html, as browsers do; who takes anything, or nothing of ours, gets plain text:
// it is the shortest, and anybody can show it.
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
			// Of two that are wished alike the page is taken: who names it has somebody to show it to.
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

// endsInJSON tells whether a media type is JSON or made of it.
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
