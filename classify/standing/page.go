package standing

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"time"
)

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

// Page returns what is to be told the body of an answer that Answered has just been
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
