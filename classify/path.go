package classify

import "strings"

// Path shapes.
//
// A path shape is a path without what tells one page of a kind from the next:
// /blog/2024/05/my-first-long-post?page=3 is /blog/*/*/*?page. It is what costs
// are learnt by, so pages that run the same code should share one, and a client
// should not be able to make new ones at will.
//
// The path is read decoded, so other encodings of it change nothing; repeated
// and trailing slashes are dropped and dot segments resolved. Case is folded:
// few sites have two pages that differ in it, and it is free to vary. Then each
// segment is folded by itself (segment.go): * stands for an identifier, a
// title or a random token, # for digits inside a word. At most 8 segments and
// 64 bytes are kept; what lies deeper is /*.
//
// Of the query the names of at most four parameters are kept, in their order,
// folded in the same way, never a value: ?page, ?. They tell a search from a
// list, but they are also free to invent, as most backends ignore those they do
// not know. So a PathShape class is charged by the shape up to the question
// mark only; the names refine the guess, where a wrong one costs little.
//
// Words made of letters only are kept, as routes are made of them, and no rule
// tells a route from a word that somebody made up. Shapes are thus folded, but
// not finite in practice: whoever keeps something for each shape must bound it.

const (
	maxShape     = 96   // bytes of a shape
	maxShapePath = 64   // of it, bytes before the query
	maxSegments  = 8    // kept of a path
	maxPathBytes = 1024 // of a path, and of a query, that are read
	maxNames     = 4    // parameters whose names are kept
	maxName      = 16   // longest name kept
)

// appendShape appends the shape of the decoded path and the raw query. pathEnd
// is where the part of it ends that a PathShape class is charged by: behind the
// path and the question mark.
func appendShape(dst []byte, path, query string) (shape []byte, pathEnd int) {
	base := len(dst)
	dst = appendPath(dst, path[:min(len(path), maxPathBytes)])
	if query == "" {
		return dst, len(dst)
	}
	dst = append(dst, '?')
	pathEnd = len(dst)
	return appendNames(dst, query[:min(len(query), maxPathBytes)], base+maxShape), pathEnd
}

func appendPath(dst []byte, path string) []byte {
	base := len(dst)
	segments := 0
	for path != "" {
		raw := path
		if slash := strings.IndexByte(path, '/'); slash >= 0 {
			raw, path = path[:slash], path[slash+1:]
		} else {
			path = ""
		}
		switch raw {
		case "", ".":
			continue
		case "..":
			for i := len(dst) - 1; i >= base; i-- {
				if dst[i] == '/' {
					dst = dst[:i]
					segments--
					break
				}
			}
			continue
		}
		before := len(dst)
		dst = appendSegment(append(dst, '/'), raw)
		segments++
		if segments > maxSegments || len(dst)-base > maxShapePath-len("/*") {
			return append(dst[:before], "/*"...)
		}
	}
	if len(dst) == base {
		dst = append(dst, '/')
	}
	return dst
}

// appendNames appends the names of the parameters as long as they end before
// limit. A name is read up to its [index] and is not decoded: one that begins
// with an encoded byte is *.
func appendNames(dst []byte, query string, limit int) []byte {
	base, last := len(dst), len(dst)
	for kept := 0; query != "" && kept < maxNames; {
		var name string
		var given bool
		if name, query, given = cutName(query); !given {
			continue
		}
		before := len(dst)
		if before > base {
			dst = append(dst, '&')
		}
		start := len(dst)
		dst = appendSegment(dst, name)
		if len(dst)-start > maxName || name == "" {
			dst = append(dst[:start], '*')
		}
		if len(dst) > limit {
			return dst[:before]
		}
		if before > base && string(dst[start:]) == string(dst[last:before]) {
			dst = dst[:before] // a[]=1&a[]=2
			continue
		}
		last = start
		kept++
	}
	return dst
}

// cutName cuts the first parameter off and returns the part of its name that
// counts. given is false when it has no name at all. Some sites write a;b for a&b.
func cutName(query string) (name, rest string, given bool) {
	end := 0
	for end < len(query) && !endsParameter(query[end]) {
		end++
	}
	name, rest = query[:end], query[end:]
	given = name != "" || rest != "" && (rest[0] == '[' || rest[0] == '%')
	for i := range len(rest) {
		if rest[i] == '&' || rest[i] == ';' {
			return name, rest[i+1:], given
		}
	}
	return name, "", given
}

func endsParameter(c byte) bool { return c == '=' || c == '&' || c == ';' || c == '[' || c == '%' }
