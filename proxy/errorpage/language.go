package errorpage

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"golang.org/x/text/language"
)

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
	seed    maphash.Seed
	// kept are choices at the places that their hashes give: to read a list and match it takes
	// microseconds, and browsers send few different ones. A client that sends others only
	// has those at the same place read again.
	kept [remembered]atomic.Pointer[choice]
}

type choice struct {
	asked string
	index int
}

func newLanguages(tags []language.Tag) *languages {
	return &languages{matcher: language.NewMatcher(tags), seed: maphash.MakeSeed()}
}

// choose is the index of the language that fits Accept-Language best (RFC 9110, 12.5.4); 0, the
// first one, if none does.
func (l *languages) choose(asked string) int {
	if asked = first(asked); asked == "" {
		return 0
	}
	place := &l.kept[maphash.String(l.seed, asked)%remembered]
	if c := place.Load(); c != nil && c.asked == asked {
		return c.index
	}
	c := &choice{asked: strings.Clone(asked)} // or it would keep the memory of the whole header
	if tags, _, err := language.ParseAcceptLanguage(asked); err == nil {
		if _, index, confidence := l.matcher.Match(tags...); confidence > language.No {
			c.index = index
		}
	}
	place.Store(c)
	return c.index
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
