package form

import (
	"testing"

	"tempomat/internal/testkit"
)

// TestSectionsNameTheirKeys: if a section isn't a mapping, the error names its keys, except those of older releases.
func TestSectionsNameTheirKeys(t *testing.T) {
	var n int
	value := Integer(0, 9).In(&n)
	table := []Setting{{Path: "one.a", Value: value}, {Path: "two.a", Value: value}, {Path: "two.b.c", Value: value}, {Path: "two.d", Value: value}, {Path: "two.old", Value: value, Gone: "remove it"}}
	for file, want := range map[string]string{
		"one: 5":      "f:1: one: 5: must be a mapping with the key a",
		"two: [5]":    "f:1: two: must be a mapping with the keys a, b and d",
		"two: {b: 5}": "f:1: two.b: 5: must be a mapping with the key c",
		"two:":        "",
	} {
		r := NewReader()
		r.Mapping(Source{File: "f"}, r.Document([]byte(file), "f"), "", table)
		testkit.Same(t, want, r.Faults.Error(), "%s", file)
	}
}

// TestQuotedHidesPasswords: Quoted hides the password of a URL, with a scheme or without one.
func TestQuotedHidesPasswords(t *testing.T) {
	for value, want := range map[string]string{
		"redis://user:secret@host:abc": "redis://***@host:abc", "user:secret@host:abc": "***@host:abc", ":sec@ret@host": "***@host",
		"redis://secret@host": "redis://***@host", "someone@site.example": "someone@site.example", "http://host:80": "http://host:80", "a:b": "a:b",
	} {
		testkit.Same(t, want, Quoted(value), "%s", value)
	}
}
