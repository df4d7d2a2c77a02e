package standing

import (
	"bytes"
	"compress/gzip"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// isPart tells whether a request is for a part of a page: a style sheet, a
// script, an image, a font. A part that another site's page asks for is none of
// ours. Who says nothing about that is believed: without the pages of this
// site before it, it earns nothing.
func isPart(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	if dest := r.Header["Sec-Fetch-Dest"]; len(dest) > 0 {
		switch dest[0] {
		case "style", "script", "image", "font":
		default:
			return false
		}
	} else if !hasPartName(r.URL.Path) && !wantsStyle(r.Header["Accept"]) {
		return false
	}
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 && site[0] != "same-origin" && site[0] != "same-site" {
		return false
	}
	from := r.Header["Referer"]
	return len(from) == 0 || isOf(from[0], r.Host)
}

// wantsStyle tells whether a style sheet is what is asked for first, as browsers do
// for no other kind.
func wantsStyle(accept []string) bool {
	return len(accept) > 0 && strings.HasPrefix(accept[0], "text/css")
}

// isOf tells whether a URL is of that host.
func isOf(url, host string) bool {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return false
	}
	if end := strings.IndexAny(rest, "/?#"); end != -1 {
		rest = rest[:end]
	}
	return strings.EqualFold(rest, host)
}

// hasPartName tells parts by their paths' ends, and the programs that put style sheets
// and scripts together by their names: MediaWiki's and WordPress's.
func hasPartName(path string) bool {
	dot := strings.LastIndexByte(path, '.')
	if dot == -1 {
		return false
	}
	switch path[dot+1:] {
	case "css", "js", "mjs", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "woff", "woff2", "ttf":
		return true
	case "php":
		switch path[strings.LastIndexByte(path, '/')+1:] {
		case "load.php", "load-styles.php", "load-scripts.php":
			return true
		}
	}
	return false
}

// hasTag tells whether a client tells the tag of what it has (RFC 9110, 13.1.2). "*"
// is none.
func hasTag(r *http.Request) bool {
	lines := r.Header["If-None-Match"]
	return len(lines) > 0 && strings.Contains(lines[0], `"`)
}

// isPartType tells whether an answer is a style sheet, a script, an image or a font.
// An export of data is none, whatever its client says that it is for.
func isPartType(h http.Header) bool {
	lines := h["Content-Type"]
	if len(lines) == 0 {
		return false
	}
	for _, kind := range [...]string{
		"text/css", "text/javascript", "application/javascript", "application/x-javascript",
		"image/", "font/", "application/font", "application/x-font", "application/vnd.ms-fontobject",
	} {
		if strings.HasPrefix(lines[0], kind) {
			return true
		}
	}
	return false
}

// isPage tells whether an answer is a page.
func isPage(status int, h http.Header) bool {
	kind := h["Content-Type"]
	return status == http.StatusOK && len(kind) > 0 && strings.HasPrefix(kind[0], "text/html")
}

// names are the targets (path and query) that pages of the site named as their parts of
// late, as keyed hashes.
//
// A part proves something if a page really named it: else any URL, asked for as if it
// were an image, would do. It is enough that some page of the site named it. All its
// pages name much the same style sheets, so names that were kept for each visitor would
// prove little more; and so it is enough to read some pages, at a bounded rate. People
// who write pages of the site can name any target, which is why the answer must have a
// part's type as well.
//
// The names decide while pages are read and what they name is asked for. Where that was
// not so for an hour, the answer's type alone decides: the backend's encoding is none
// that is known here, or names were those of a site before it changed, or a front in
// between asks by other paths.
//
// Two generations rotate, so that a crawl through pages that name what no other does
// pushes out its own like: what all pages name comes back with each.
type names struct {
	mu       sync.Mutex // guards the following
	now, old map[uint64]struct{}
	read     int64 // when a page was read last that named something, Unix seconds
	met      int64 // when something that was named was asked for last
	second   int64 // of the latest page that was begun to be read
	begun    int   // so many of them in that second
	open     int   // pages that are being read
}

const (
	namesKept    = 1 << 13 // in each generation; in all 0.5 MB
	namesHold    = 3600    // seconds
	pagesASecond = 8       // that are read: less than a hundredth of a CPU, also if all are compressed
	pagesOpen    = 16      // at the same time: 1 MB
)

// begin tells whether one more page may be read now. done ends it.
func (n *names) begin(now int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now != n.second {
		n.second, n.begun = now, 0
	}
	if n.begun >= pagesASecond || n.open >= pagesOpen {
		return false
	}
	n.begun++
	n.open++
	return true
}

// done takes in what a page named, if it could be read.
func (n *names) done(now int64, targets []uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open--
	if len(targets) == 0 {
		return
	}
	n.read = max(n.read, now)
	for _, target := range targets {
		if n.now == nil || len(n.now) >= namesKept {
			n.old, n.now = n.now, make(map[uint64]struct{})
		}
		n.now[target] = struct{}{}
	}
}

// may tells whether a target may be a part: a page named it, or names do not decide.
func (n *names) may(now int64, target uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, named := n.now[target]
	if !named {
		_, named = n.old[target]
	}
	if named {
		n.met = max(n.met, now)
		return true
	}
	return now-n.read > namesHold || now-n.met > namesHold
}

const (
	pageBytes    = 64 << 10 // of a page that are read
	gzippedBytes = 16 << 10 // of a compressed one: about as much
	pageNames    = 64       // parts that one page names, as far as that counts
)

// Page takes note of what a page names, as its body passes by: Write only copies the
// first bytes, and End reads them, which takes some tenths of a millisecond and is
// nobody's to wait for. It is for one goroutine at a time.
type Page struct {
	judge   *Judge
	at      int64
	base    url.URL
	gzipped bool
	body    []byte
}

// Page returns what must be given the body of an answer that Answered has just been
// told the header of; nil if there is nothing to learn: the answer is no page, its
// client has shown already that it loads parts, or enough pages are read now. What it
// returns must be told the end, once.
func (j *Judge) Page(now time.Time, r *http.Request, x *Visit, h http.Header) *Page {
	if !x.unread {
		return nil
	}
	gzipped := false
	if encoding := h["Content-Encoding"]; len(encoding) > 0 {
		if gzipped = len(encoding) == 1 && encoding[0] == "gzip"; !gzipped {
			return nil
		}
	}
	if !j.names.begin(seconds(now)) {
		return nil
	}
	return &Page{
		judge: j, at: seconds(now), gzipped: gzipped,
		base: url.URL{Scheme: "http", Host: "host", Path: r.URL.Path, RawPath: r.URL.RawPath},
	}
}

// Write takes in the next bytes of the body. It never fails.
func (p *Page) Write(b []byte) (int, error) {
	most := pageBytes
	if p.gzipped {
		most = gzippedBytes
	}
	p.body = append(p.body, b[:min(len(b), most-len(p.body))]...)
	return len(b), nil
}

// End reads what has come, whether or not that was all.
func (p *Page) End() {
	body := p.body
	if p.gzipped {
		body = inflate(body)
	}
	var targets []uint64
	eachName(body, func(name string) bool {
		if target, ok := p.target(name); ok {
			targets = append(targets, target)
		}
		return len(targets) < pageNames
	})
	p.judge.names.done(p.at, targets)
}

// inflate returns the beginning of what was compressed, as far as it is sound.
func inflate(compressed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil
	}
	var page bytes.Buffer
	_, _ = io.Copy(&page, io.LimitReader(r, pageBytes)) // it ends in the middle
	return page.Bytes()
}

// target is what a browser asks for, if a page names that. The host does not count: the
// one that the page is known by outside may be another than the one here.
func (p *Page) target(name string) (uint64, bool) {
	u, err := p.base.Parse(name)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return 0, false
	}
	return p.judge.hashOfTarget(u)
}

// hashOfTarget is that of a path and a query. Very long ones are none.
func (j *Judge) hashOfTarget(u *url.URL) (uint64, bool) {
	var buffer [2048]byte
	path, text := u.EscapedPath(), j.key(buffer[:0], 'p')
	if len(text)+len(path)+1+len(u.RawQuery) > len(buffer) {
		return 0, false
	}
	return hashOf(append(append(append(text, path...), '?'), u.RawQuery...)), true
}

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
