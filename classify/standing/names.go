package standing

import "sync"

// names are the targets (path and query) that pages of the site named as their parts of
// late, as keyed hashes.
//
// A part proves something if a page really named it: else any URL, asked for as if it
// were an image, would do. It is enough that some page of the site named it. Each of
// its pages names the same style sheets, so who would read its own page's names gains
// nothing by them over who knows the site's; and so it is enough to read some pages, at
// a bounded rate, and nothing is kept for each visitor. Who writes pages of the site
// may name targets of his choice, which is why the answer must have a part's type, too.
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
