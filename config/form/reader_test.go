package form

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSectionsNameTheirKeys: if a section isn't a mapping, the error names its keys.
func TestSectionsNameTheirKeys(t *testing.T) {
	var n int
	value := Integer(0, 9).In(&n)
	table := []Setting{{Path: "one.a", Value: value}, {Path: "two.a", Value: value}, {Path: "two.b.c", Value: value}, {Path: "two.d", Value: value}}
	for file, want := range map[string]string{
		"one: 5":      "f:1: one: 5: must be a mapping with the key a",
		"two: [5]":    "f:1: two: must be a mapping with the keys a, b and d",
		"two: {b: 5}": "f:1: two.b: 5: must be a mapping with the key c",
		"two:":        "",
	} {
		r := NewReader()
		r.Mapping(Source{File: "f"}, r.Document([]byte(file), "f"), "", table)
		if diff := cmp.Diff(want, r.Faults.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestQuotedHidesPasswords: Quoted hides the password of a URL, with a scheme or without one.
func TestQuotedHidesPasswords(t *testing.T) {
	for value, want := range map[string]string{
		"redis://user:secret@host:abc": "redis://***@host:abc", "user:secret@host:abc": "***@host:abc", ":sec@ret@host": "***@host",
		"redis://secret@host": "redis://***@host", "someone@site.example": "someone@site.example", "http://host:80": "http://host:80", "a:b": "a:b",
	} {
		if got := Quoted(value); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
}
