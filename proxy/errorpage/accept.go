package errorpage

import "strings"

// Wish is the form of an answer that a client asks for.
type Wish uint8

// The forms.
const (
	Text Wish = iota // a few lines, for clients that don't ask for anything else
	HTML             // an HTML page
	JSON             // problem details (RFC 9457)
)

// WishOf returns the first form that the lines of Accept name (RFC 9110, 12.5.1). It ignores weights (q=),
// because clients list the form that they prefer first. A client that accepts any form, or none of these, gets
// plain text, which is the shortest form and one that every client can show.
func WishOf(accept []string) Wish {
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			kind, _, _ := strings.Cut(part, ";")
			kind = strings.ToLower(strings.TrimSpace(kind))
			switch {
			case kind == "text/html", kind == "application/xhtml+xml":
				return HTML
			case kind == "text/plain":
				return Text
			case kind == "application/json", strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"):
				return JSON
			}
		}
	}
	return Text
}
