package standing

import (
	"bytes"
	"html"
	"strings"
)

// eachName calls f with what a page names as its parts, until it returns false: what
// scripts, images and the like have as src or srcset, and links to style sheets and
// icons as href. It is no parser: it may take text in a comment or a script for a tag,
// which names targets that nobody asks for.
func eachName(page []byte, f func(name string) bool) {
	for {
		start := bytes.IndexByte(page, '<')
		if start < 0 {
			return
		}
		page = page[start+1:]
		if !holdsNames(page) {
			continue
		}
		var more bool
		if page, more = namesOfTag(page, f); !more {
			return
		}
	}
}

// holdsNames tells whether a tag that begins here is of a kind that names parts.
func holdsNames(tag []byte) bool {
	if len(tag) == 0 {
		return false
	}
	switch tag[0] | 0x20 { // most tags are others
	case 'l':
		return isTag(tag, "link")
	case 'i':
		return isTag(tag, "img") || isTag(tag, "input")
	case 's':
		return isTag(tag, "script") || isTag(tag, "source")
	}
	return false
}

func isTag(tag []byte, name string) bool {
	return len(tag) > len(name) && isBlank(tag[len(name)]) && strings.EqualFold(string(tag[:len(name)]), name)
}

// namesOfTag reads a tag. It returns what follows, and whether there may be more.
func namesOfTag(tag []byte, f func(name string) bool) (rest []byte, more bool) {
	isLink := tag[0]|0x20 == 'l'
	var href, rel string
	for !isBlank(tag[0]) {
		tag = tag[1:]
	}
	for {
		var name, value string
		if name, value, tag = cutAttribute(tag); name == "" {
			break
		}
		switch {
		case name == "rel":
			rel = strings.ToLower(value)
		case name == "href":
			href = value
		case isLink:
		case name == "src" && !f(value):
			return nil, false
		case name == "srcset" && !eachCandidate(value, f):
			return nil, false
		}
	}
	for _, kind := range [...]string{"stylesheet", "icon", "preload"} {
		if isLink && href != "" && strings.Contains(rel, kind) {
			return tag, f(href)
		}
	}
	return tag, true
}

// eachCandidate calls f with the images of a srcset, until it returns false, and tells
// whether it did not.
func eachCandidate(set string, f func(name string) bool) bool {
	for candidate := range strings.SplitSeq(set, ",") {
		if fields := strings.Fields(candidate); len(fields) > 0 && !f(fields[0]) {
			return false
		}
	}
	return true
}

// cutAttribute cuts the next attribute of a tag off. Without a name it was the last one.
func cutAttribute(tag []byte) (name, value string, rest []byte) {
	for len(tag) > 0 && (isBlank(tag[0]) || tag[0] == '/') {
		tag = tag[1:]
	}
	end := 0
	for end < len(tag) && !isBlank(tag[end]) && tag[end] != '=' && tag[end] != '>' && tag[end] != '/' {
		end++
	}
	if end == len(tag) {
		return "", "", nil // the page ends here, in the middle
	}
	name, rest = strings.ToLower(string(tag[:end])), trimBlanks(tag[end:])
	if len(rest) == 0 || rest[0] != '=' {
		return name, "", rest
	}
	if name == "" {
		return "", "", rest[1:]
	}
	rest = trimBlanks(rest[1:])
	if len(rest) == 0 {
		return "", "", nil
	}
	if quote := rest[0]; quote == '"' || quote == '\'' {
		end := bytes.IndexByte(rest[1:], quote)
		if end == -1 {
			return "", "", nil
		}
		return name, unescape(rest[1 : 1+end]), rest[1+end+1:]
	}
	end = 0
	for end < len(rest) && !isBlank(rest[end]) && rest[end] != '>' {
		end++
	}
	if end == len(rest) {
		return "", "", nil
	}
	return name, unescape(rest[:end]), rest[end:]
}

// unescape is an attribute's value, if it may be a name.
func unescape(value []byte) string {
	if len(value) > 2048 {
		return ""
	}
	return strings.TrimSpace(html.UnescapeString(string(value)))
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

func trimBlanks(s []byte) []byte {
	for len(s) > 0 && isBlank(s[0]) {
		s = s[1:]
	}
	return s
}
