package quota

import (
	"path"
	"slices"
	"strings"

	"tempomat/limiter"
)

// Kind is what is known of a client, for the factors of rules.
type Kind int

// The kinds of clients that rules tell apart.
const (
	Anonymous Kind = iota // nothing is known
	Session               // it brought the site's cookie back
	Trusted               // of a trusted network, or attested by the backend
	kinds
)

// Factors divide the size of a rule's limit, by Kind: 0.5 allows twice as much at once; 0
// is no limit.
type Factors [kinds]float64

// Rule says how many requests each key of a class may make, and to where.
type Rule struct {
	Limit           // its name is the rule's: in refusals, header fields and the log
	Path    string  // /a, or /a/* for /a/ and all below it; empty: every path
	Class   string  // whose keys are counted
	Factors Factors // by the kind of client
	Shared  bool    // counted together with other processes, in Options.Shared
	Matched func()  // is called, concurrently, for each request that the rule is for; nil: nobody is told
}

// rule is a Rule, ready for requests.
type rule struct {
	Rule
	buckets [kinds]Bucket
}

func newRule(r Rule) (made rule, err error) {
	made.Rule = r
	for kind, factor := range r.Factors {
		if made.buckets[kind], err = r.Bucket(factor); err != nil {
			return made, err
		}
	}
	return made, nil
}

// actor is whose bucket a request to a path goes to, if the rule is for it.
func (r *rule) actor(where *[4]string, of Client) (string, bool) {
	if !slices.ContainsFunc(where[:], func(w string) bool { return covers(r.Path, w) }) {
		return "", false
	}
	k, ok := of.Key(r.Class)
	return k.ID, ok
}

// Client is who asks, as its keys. The first one is the client itself.
type Client interface {
	Key(class string) (limiter.Key, bool)
	Keys() []limiter.Key
}

// spellings are what a backend may take a path for: without dot segments; so with each \ a
// slash, as some have it; as it is, which many go by that find out by themselves what is to be
// done; and without dot segments and what some know as parameters (/a;b for /a).
func spellings(where string) [4]string {
	if !strings.HasPrefix(where, "/") {
		where = "/" + where
	}
	slashed := strings.ReplaceAll(where, `\`, "/")
	return [...]string{path.Clean(where), path.Clean(slashed), where, path.Clean(withoutParameters(slashed))} // no copies of one that is clean
}

// withoutParameters cuts off what follows a ; in each segment of a path.
func withoutParameters(where string) string {
	if strings.IndexByte(where, ';') < 0 {
		return where
	}
	var b strings.Builder
	for segment := range strings.SplitAfterSeq(where, "/") {
		name, _, cut := strings.Cut(segment, ";")
		b.WriteString(name)
		if cut && strings.HasSuffix(segment, "/") {
			b.WriteByte('/')
		}
	}
	return b.String()
}

// covers tells whether a rule's path is that of a request, in one spelling: /a/*
// covers /a/ and all below it, and empty is every path. A script is what is below it,
// too (PATH_INFO of RFC 3875, 4.1.5).
func covers(pattern, where string) bool {
	prefix, all := strings.CutSuffix(pattern, "*")
	switch {
	case pattern == "", where == pattern:
		return true
	case all:
		return strings.HasPrefix(where+"/", prefix)
	}
	return strings.Contains(path.Base(pattern), ".") && strings.HasPrefix(where, pattern) && where[len(pattern)] == '/'
}
