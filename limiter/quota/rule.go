package quota

import (
	"path"
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
func (r *rule) actor(where *[2]string, of Client) (string, bool) {
	if !covers(r.Path, where[0]) && !covers(r.Path, where[1]) {
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

// spellings are what a backend may take a path for, without dot segments: as it is, and
// with each \ a slash, as some have it.
func spellings(where string) (all [2]string) {
	for i := range all {
		if !strings.HasPrefix(where, "/") {
			where = "/" + where
		}
		all[i] = path.Clean(where) // no copy of one that is clean
		where = strings.ReplaceAll(where, `\`, "/")
	}
	return all
}

// covers tells whether a rule's path is that of a request, a clean one: /a/*
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
