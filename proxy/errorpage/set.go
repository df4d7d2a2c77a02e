package errorpage

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Set is all pages. Its methods may be called concurrently.
type Set struct {
	languages *languages
	general   pages
	hosts     map[string]pages
}

// pages are those of a host, by language and cause.
type pages [][causes]*Page

// Find is the page for a host, as a request gives it, with or without a port, and its
// Accept-Language lines.
func (s *Set) Find(host string, acceptLanguage []string, c Cause) *Page {
	asked := ""
	if len(acceptLanguage) > 0 {
		asked = acceptLanguage[0]
	}
	of := s.general
	if len(s.hosts) > 0 {
		if own, ok := s.hosts[hostOf(host)]; ok {
			of = own
		}
	}
	return of[s.languages.choose(asked)][c]
}

// hostOf is a host without its port, in small letters.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// each is all pages, each once.
func (s *Set) each() iter.Seq[*Page] {
	return func(yield func(*Page) bool) {
		seen := make(map[*Page]bool)
		for _, of := range append(slices.Collect(maps.Values(s.hosts)), s.general) {
			for _, in := range of {
				for _, p := range in {
					if p == nil || seen[p] {
						continue
					}
					if seen[p] = true; !yield(p) {
						return
					}
				}
			}
		}
	}
}
