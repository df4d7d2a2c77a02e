package telemetry

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tempomat/proxy/connlimit"
)

const (
	// mostParameters is the number of parameters that are remembered, and mostValues the number of values of
	// each. A parameter with more values is probably a field into which people type text.
	mostParameters = 1024
	mostValues     = 16
	// fewAddresses is the number of known clients' addresses that must have used a name or a value before it is
	// shown. enough is the number of requests that a parameter needs before it counts as one with few values.
	fewAddresses = 3
	enough       = 64
	// forgotten is the time without a request after which a parameter is forgotten.
	forgotten = 24 * time.Hour
	// longestWord and longestName are the longest values and names that are shown, in bytes.
	longestWord = 16
	longestName = 32
	longestPath = 120
	// mostPaths is the number of paths that are remembered. longestURL is the longest name of a URL, in bytes.
	mostPaths  = 4096
	longestURL = 160
)

// Words decides which parts of URLs may be logged and kept. It learns which values of parameters are words of
// the site, such as action=history, and which are texts that people typed, such as search=anything.
//
// A value is shown if it is a short word in lower-case letters that known clients at fewAddresses addresses
// used, and if its parameter had at most mostValues values in at least enough requests. A parameter's name is
// shown if known clients at fewAddresses addresses used it. The history shows a path under the same condition,
// unless the path looks like a secret, because several people may open the same secret link from an email.
// Words learns only from known clients. Otherwise a crawler could get any text into the log, or use so many
// values that all of them are hidden.
//
// It implements Sink. Its methods may be called concurrently.
type Words struct {
	seed maphash.Seed

	mu         sync.RWMutex // guards the fields below
	parameters map[parameterName]*parameter
	paths      *simplelru.LRU[uint64, people] // people who used each path, by the path's hash
	swept      time.Time
}

// parameterName is a parameter of a path.
type parameterName struct{ path, name string }

// parameter is what Words has learned about a parameter.
type parameter struct {
	used     time.Time // time of the last request with this parameter
	requests int
	open     bool // whether the parameter has more than mostValues values
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

// NewWords makes Words that have learned nothing yet.
func NewWords() *Words {
	paths, err := simplelru.NewLRU[uint64, people](mostPaths, nil)
	if err != nil {
		panic(err) // fails only if mostPaths isn't positive
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

// learn records the path and the parameters of a request.
func (w *Words) learn(now time.Time, e *Entry) {
	target := e.Target()
	if len(target) == mostText { // the target is cut off, so the rest is unknown
		return
	}
	asked, query, _ := strings.Cut(target, "?")
	hash := maphash.Comparable(w.seed, connlimit.ClientOf(e.Client))
	by, _ := w.paths.Get(maphash.String(w.seed, asked))
	by.add(hash)
	w.paths.Add(maphash.String(w.seed, asked), by)
	path := pathOf(e.Shape)
	for one := range ParametersOf(query) {
		name, value, _ := strings.Cut(one, "=")
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

// makeRoom forgets a parameter that few clients use, chosen from a small sample. Otherwise one client could
// invent so many names that there is no room to learn others.
func (w *Words) makeRoom() bool {
	const looks = 32
	n := 0
	for name, p := range w.parameters { // map order is random
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

// Reduce returns a query without texts that people typed. Each parameter becomes name=value, name=* if its
// value isn't shown, or * if its name isn't shown either.
func (w *Words) Reduce(shape, query string) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	var out strings.Builder
	w.reduceLocked(&out, shape, query)
	return out.String()
}

// URL returns the name of a request's target in the history: its path with the query as Reduce returns it.
// Until several known clients have requested the path, it is the shape's path instead.
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
	for one := range ParametersOf(query) {
		name, value, _ := strings.Cut(one, "=")
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

// mostShown is the largest number of a request's parameters that are shown.
const mostShown = 8

// shows reports whether a value may be shown, because it is a short word that several people used.
func (p *parameter) shows(value string) bool {
	if p.open || p.requests < enough || !isWord(value) {
		return false
	}
	v := p.values[value]
	return v != nil && v.several()
}

// pathOf returns the path of a shape, without the parameters' names.
func pathOf(shape string) string {
	path, _, _ := strings.Cut(shape, "?")
	return path
}

// ParametersOf yields the parameters of a query, not decoded. Some sites separate parameters with semicolons.
func ParametersOf(query string) iter.Seq[string] {
	return strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' })
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

// isName reports whether a parameter's name consists of characters that programmers use in names.
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

// isSecret reports whether a path is too long to judge, or seems to contain a mail address, a telephone
// number or a random token.
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
