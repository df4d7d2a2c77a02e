package form

import (
	"fmt"
	"slices"
	"strings"
)

// Choice takes one of the words, in any case.
func Choice(words ...string) Scalar[string] {
	return Scalar[string]{
		Allowed: "one of `" + strings.Join(words, "`, `") + "`",
		Schema:  AnyOf(Schema{"enum": words}, Schema{"type": "string", "pattern": anyCase(words...)}),
		Parse: func(text string) (string, error) {
			if i := slices.IndexFunc(words, sameWord(text)); i >= 0 {
				return words[i], nil
			}
			return "", fmt.Errorf("must be %s", listed("or", words))
		},
		Format: func(word string) string { return word },
	}
}

// Later are words that a choice of the others refuses as not yet there.
func Later(s Scalar[string], words []string, later ...string) Scalar[string] {
	return s.But(func(text string) error {
		if slices.ContainsFunc(later, sameWord(text)) {
			return fmt.Errorf("comes with a later version; this one has %s", listed("and", words))
		}
		return nil
	})
}

// sameWord tells whether a word is text, in any case.
func sameWord(text string) func(word string) bool {
	return func(word string) bool { return strings.EqualFold(word, text) }
}
