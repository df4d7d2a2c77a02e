package telemetry

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// mostParameters is how many parameters are remembered, and mostValues how many values
	// of each. A parameter with more of them is one that people write into.
	mostParameters = 1024
	mostValues     = 16
	// fewAddresses is how many addresses of known people must have used a name or a value
	// before it is shown, and enough how many of their requests it takes before a parameter
	// counts as one with few values.
	fewAddresses = 3
	enough       = 64
	// forgotten is after what time without a request a parameter is.
	forgotten = 24 * time.Hour
	// longestWord and longestName bound what is shown, in bytes.
	longestWord = 16
	longestName = 32
	longestPath = 120
	// mostPaths is how many paths are remembered, and longestURL how much of what a URL is called.
	mostPaths  = 4096
	longestURL = 160
)

// Words learns which values of parameters are words of the site, as action=history, and not of
// a person, as search=anything: a value is shown if all that known people gave for that
// parameter of that path were at most mostValues different ones in at least enough requests, if
// those of fewAddresses did, and if it is a short word in lower-case letters. The name of a
// parameter is shown if those of fewAddresses used it, and a path where it is kept for long if
// those of fewAddresses asked for it and it looks like no secret: links in mails are opened by
// several people as well. Strangers teach it nothing; otherwise a crawler could get any text
// into the log, or hide everything.
//
// It implements Sink. Its methods may be called concurrently.
type Words struct {
	seed maphash.Seed

	mu         sync.RWMutex // guards the following
	parameters map[parameterName]*parameter
	paths      *simplelru.LRU[uint64, people] // by hash
	swept      time.Time
}

// parameterName is a parameter of a path.
type parameterName struct{ path, name string }

// parameter is what is known of it.
type parameter struct {
	used     time.Time // last
	requests int
	open     bool // it has more than mostValues values
	by       people
	values   map[string]*people
}

// people are the hashes of the first addresses that used a name or value.
type people struct {
	hashes [fewAddresses]uint64
	n      int
}

func (p *people) add(hash uint64) {
	if p.n < len(p.hashes) && !slices.Contains(p.hashes[:p.n], hash) {
		p.hashes[p.n] = hash
		p.n++
	}
}

func (p *people) several() bool { return p.n == len(p.hashes) }

// NewWords makes Words that know none.
func NewWords() *Words {
	paths, err := simplelru.NewLRU[uint64, people](mostPaths, nil)
	if err != nil {
		panic(err) // mostPaths is above 0
	}
	return &Words{seed: maphash.MakeSeed(), parameters: make(map[parameterName]*parameter), paths: paths}
}

// Take implements Sink.
func (w *Words) Take(now time.Time, b *Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b.Entries {
		if e := &b.Entries[i]; e.Group == Known && e.Outcome == Answered && e.Status < 400 {
			w.learn(now, e)
		}
	}
	if now.Sub(w.swept) > time.Hour {
		w.swept = now
		for name, p := range w.parameters {
			if now.Sub(p.used) > forgotten {
				delete(w.parameters, name)
			}
		}
	}
}

// learn takes in the path and the parameters of a request.
func (w *Words) learn(now time.Time, e *Entry) {
	target := e.Target()
	if len(target) == mostText { // it is cut off, so its rest is unknown
		return
	}
	asked, query, _ := strings.Cut(target, "?")
	address := e.Client.As16()
	head := address[:]
	if !e.Client.Is4() {
		head = address[:8] // a client with one address of a /64 has all of them
	}
	hash := maphash.Bytes(w.seed, head)
	by, _ := w.paths.Get(maphash.String(w.seed, asked))
	by.add(hash)
	w.paths.Add(maphash.String(w.seed, asked), by)
	path := pathOf(e.Shape)
	for name, value := range parametersOf(query) {
		if !isName(name) {
			continue
		}
		p := w.parameters[parameterName{path, name}]
		if p == nil {
			if len(w.parameters) == mostParameters && !w.makeRoom() {
				continue
			}
			p = &parameter{values: make(map[string]*people)}
			w.parameters[parameterName{strings.Clone(path), strings.Clone(name)}] = p
		}
		p.learn(now, hash, value)
	}
}

// makeRoom forgets a parameter that few people use, among some that it looks at. Otherwise,
// once one client had made up enough names, no other name could be learned.
func (w *Words) makeRoom() bool {
	const looks = 32
	n := 0
	for name, p := range w.parameters { // from anywhere
		if !p.by.several() {
			delete(w.parameters, name)
			return true
		}
		if n++; n == looks {
			break
		}
	}
	return false
}

func (p *parameter) learn(now time.Time, hash uint64, value string) {
	p.used = now
	p.requests++
	p.by.add(hash)
	if p.open {
		return
	}
	v := p.values[value]
	if v == nil {
		if len(p.values) == mostValues {
			p.open, p.values = true, nil
			return
		}
		v = new(people)
		p.values[strings.Clone(value)] = v
	}
	v.add(hash)
}

// Reduce returns a query without what may be a person's: each parameter as name=value, as
// name=* if its value is not to be shown, or as * if nothing of it is.
func (w *Words) Reduce(shape, query string) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var out strings.Builder
	w.reduceLocked(&out, shape, query)
	return out.String()
}

// URL is what a request's target is called where it is kept for long: its path, or its shape's until
// several people have asked for it, and its query as Reduce has it.
func (w *Words) URL(shape, target string) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	path, query, asks := strings.Cut(target, "?")
	if by, _ := w.paths.Peek(maphash.String(w.seed, path)); !by.several() || isSecret(path) {
		path = pathOf(shape)
	}
	var out strings.Builder
	out.WriteString(path)
	if asks && query != "" {
		out.WriteByte('?')
		w.reduceLocked(&out, shape, query)
	}
	if out.Len() > longestURL {
		return strings.ToValidUTF8(out.String()[:longestURL-1], "") + "*"
	}
	return out.String()
}

func (w *Words) reduceLocked(out *strings.Builder, shape, query string) {
	path, n := pathOf(shape), 0
	for name, value := range parametersOf(query) {
		if n++; n > 1 {
			out.WriteByte('&')
		}
		if n > mostShown {
			out.WriteString("…")
			break
		}
		p := w.parameters[parameterName{path, name}]
		if p == nil || !p.by.several() {
			out.WriteByte('*')
			continue
		}
		out.WriteString(name)
		if value == "" {
			continue
		}
		out.WriteByte('=')
		if p.shows(value) {
			out.WriteString(value)
		} else {
			out.WriteByte('*')
		}
	}
}

// mostShown is how many parameters of a request are shown.
const mostShown = 8

// shows reports whether a value is a word of the site.
func (p *parameter) shows(value string) bool {
	if p.open || p.requests < enough || !isWord(value) {
		return false
	}
	v := p.values[value]
	return v != nil && v.several()
}

// pathOf is the part of a shape before its parameters' names.
func pathOf(shape string) string {
	path, _, _ := strings.Cut(shape, "?")
	return path
}

// parametersOf yields names and values as they came; some sites write a;b for a&b.
func parametersOf(query string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for parameter := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
			if name, value, _ := strings.Cut(parameter, "="); !yield(name, value) {
				return
			}
		}
	}
}

// isWord reports whether a value is a short word in lower-case letters.
func isWord(s string) bool {
	if s == "" || len(s) > longestWord {
		return false
	}
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return true
}

// isName reports whether a parameter's name is one that programmers give.
func isName(s string) bool {
	if s == "" || len(s) > longestName {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("_-.:[]", c) < 0:
			return false
		}
	}
	return true
}

// isSecret reports whether a path looks like it has an address of mail, a telephone number or a
// random token, or is too long to tell.
func isSecret(path string) bool {
	if len(path) > longestPath || strings.Contains(path, "@") || strings.Contains(path, "%40") {
		return true
	}
	letters, digits := 0, 0
	for i := range len(path) {
		switch c := path[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		case c >= '0' && c <= '9':
			digits++
		default:
			letters, digits = 0, 0
		}
		if digits > 8 || letters > 0 && digits > 0 && letters+digits >= 8 {
			return true
		}
	}
	return false
}
