package newcomer

import "strings"

const (
	// CookieName is the name of the cookie that holds passes.
	CookieName = "tempomat_pass"
	assignment = CookieName + "="
	blanks     = " \t"
)

// findPass returns where the first of our cookies lies in a line of a Cookie
// header, from a position on: from its name to before the ; that ends it. There
// is none if start is negative. The time that it takes grows with the line's
// length only, whatever is in it.
//
// All of the line is searched, as a browser sends the oldest cookies first and
// ours is the youngest.
func findPass(line string, from int) (start, end int) {
	for from < len(line) {
		i := strings.Index(line[from:], assignment)
		if i < 0 {
			break
		}
		start = from + i
		if !beginsPair(line, start) {
			from = start + len(assignment)
			continue
		}
		end = start + len(assignment)
		if i := strings.IndexByte(line[end:], ';'); i >= 0 {
			return start, end + i
		}
		return start, len(line)
	}
	return -1, -1
}

// beginsPair tells whether a name that stands there is a whole name, and not the
// end of another one or a part of a value.
func beginsPair(line string, at int) bool {
	for at > 0 && (line[at-1] == ' ' || line[at-1] == '\t') {
		at--
	}
	return at == 0 || line[at-1] == ';'
}

// StripPass returns the lines of a Cookie header without our cookie. All other
// bytes stay as they are, and lines without it are returned themselves, without
// an allocation. It returns nil if nothing is left. The given lines are never
// changed.
//
// The site is to see no cookie that it did not set: caches, Varnish before all,
// take a request with any cookie for one that must not be answered from the
// cache, so that the pass would make the very pages dear that it was given for.
func StripPass(lines []string) []string {
	for i, line := range lines {
		if start, _ := findPass(line, 0); start >= 0 {
			return stripFrom(lines, i)
		}
	}
	return lines
}

func stripFrom(lines []string, first int) []string {
	kept := append(make([]string, 0, len(lines)), lines[:first]...)
	for _, line := range lines[first:] {
		if stripped := stripLine(line); stripped != "" || line == "" {
			kept = append(kept, stripped)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// stripLine takes each of our cookies out, with the ; and the blanks behind it;
// with those before it if it is the last.
func stripLine(line string) string {
	start, end := findPass(line, 0)
	if start < 0 {
		return line
	}
	var kept strings.Builder
	from := 0
	for start >= 0 && end < len(line) {
		kept.WriteString(line[from:start])
		from = end + 1
		for from < len(line) && (line[from] == ' ' || line[from] == '\t') {
			from++
		}
		start, end = findPass(line, from)
	}
	if start < 0 {
		kept.WriteString(line[from:])
		return kept.String()
	}
	kept.WriteString(line[from:start])
	return strings.TrimSuffix(strings.TrimRight(kept.String(), blanks), ";")
}

// hasOwnCookie tells whether a request has a cookie that is none of ours: the
// site's, then, or one that a script of its pages set.
func hasOwnCookie(lines []string) bool {
	for _, line := range StripPass(lines) {
		if strings.Trim(line, blanks+";") != "" {
			return true
		}
	}
	return false
}
