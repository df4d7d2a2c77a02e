package form

import "strings"

// maxSuggestKey is the longest unknown key for which a known one is sought.
const maxSuggestKey = 64

// Nearest is the name that is most like key, ignoring case; empty if none is
// near enough to be meant.
func Nearest(key string, names []string) string {
	if len(key) > maxSuggestKey {
		return ""
	}
	best, bestDistance := "", 1+max(1, min(3, len(key)/3))
	for _, name := range names {
		d := distance(strings.ToLower(key), strings.ToLower(name))
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is Levenshtein's: the fewest bytes to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
