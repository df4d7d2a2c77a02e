package quota

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"tempomat/limiter"
)

// Rules checks requests against limits. Its methods may be called concurrently.
type Rules struct {
	rules   []Rule
	own     Store
	shared  Store
	headers Headers
	byPath  bool // whether any rule has a path
}

// Options are the settings of Rules.
type Options struct {
	Rules   []Rule // checked in this order
	Own     Store  // counts for this process alone
	Shared  Store  // counts for all processes together, for rules that are Shared; nil: Own
	Headers Headers
}

// New makes Rules from options.
func New(o Options) *Rules {
	r := &Rules{rules: o.Rules, own: o.Own, shared: o.Shared, headers: o.Headers}
	r.byPath = slices.ContainsFunc(o.Rules, func(l Rule) bool { return l.Path != "" })
	if r.shared == nil {
		r.shared = o.Own
	}
	return r
}

// Request is the part of a request that rules need.
type Request struct {
	Path string // decoded, but otherwise as the client sent it
	From Client
}

// Counted is the result of Count.
type Counted struct {
	Blocked bool          // the request exceeds a limit
	Last    bool          // the next request would exceed a limit if it arrived now
	Limit   string        // the name of the rule that blocks the request
	Wait    time.Duration // time until the request would pass
	// Fields are header fields to add to the response, spelled as they must be sent, or nil if there are none.
	// They don't include Retry-After.
	Fields map[string][]string
}

// Count counts a request against each rule that matches it. If one rule blocks the request, no rule counts it.
// Count may wait for a shared store, but not after the context ends. If a store fails, the rule that uses the
// store lets the request pass.
func (r *Rules) Count(ctx context.Context, now time.Time, of Request) Counted {
	var where [4]string
	if r.byPath {
		where = spellings(of.Path)
	}
	var stand standings
	last := false
	var room [8]int
	counted := room[:0] // indices of the rules that counted the request
	for i := range r.rules {
		rule := &r.rules[i]
		actor, ok := rule.actor(&where, of.From)
		if !ok {
			continue
		}
		if rule.Matched != nil {
			rule.Matched()
		}
		status, err := r.storeOf(rule).Check(ctx, now, actor, rule.Name, rule.Bucket, 1)
		if err != nil {
			continue
		}
		if r.headers != NoHeaders {
			stand.add(rule.Name, rule.Bucket, status)
		}
		last = last || status.Remaining < 1
		if status.Blocked {
			r.takeBack(ctx, now, &of, &where, counted)
			return Counted{Blocked: true, Limit: rule.Name, Wait: status.Reset, Fields: stand.fields(r.headers)}
		}
		counted = append(counted, i)
	}
	return Counted{Last: last, Fields: stand.fields(r.headers)}
}

// takeBack undoes the counts of a request that another rule blocks.
func (r *Rules) takeBack(ctx context.Context, now time.Time, of *Request, where *[4]string, counted []int) {
	for _, i := range counted {
		rule := &r.rules[i]
		if actor, ok := rule.actor(where, of.From); ok {
			_, _ = r.storeOf(rule).Check(ctx, now, actor, rule.Name, rule.Bucket, -1) // if this fails, the count drips out
		}
	}
}

func (r *Rules) storeOf(l *Rule) Store {
	if l.Shared {
		return r.shared
	}
	return r.own
}

// Rule limits how many requests each key of a class may make, and to which paths.
type Rule struct {
	Name    string // shown in refusals, header fields and the log
	Bucket         // the limit for each key
	Path    string // /a, or /a/* for /a and everything below it; empty: every path
	Class   string // the class whose keys are counted
	Shared  bool   // counted together with other processes, in Options.Shared
	Matched func() // called for each request that the rule matches, concurrently; may be nil
}

// actor returns the key whose bucket counts the request, or false if the rule doesn't match the request.
func (r *Rule) actor(where *[4]string, of Client) (string, bool) {
	if !slices.ContainsFunc(where[:], func(w string) bool { return covers(r.Path, w) }) {
		return "", false
	}
	k, ok := of.Key(r.Class)
	return k.ID, ok
}

// Client provides the keys of a request's client.
type Client interface {
	Key(class string) (limiter.Key, bool)
}

// spellings returns four ways in which a backend may interpret a path: without dot segments; also with each \
// as a slash; unchanged, because many applications interpret the raw path; and also without the parameters that
// some servers remove (/a;b becomes /a).
func spellings(where string) [4]string {
	if !strings.HasPrefix(where, "/") {
		where = "/" + where
	}
	slashed := strings.ReplaceAll(where, `\`, "/")
	return [...]string{path.Clean(where), path.Clean(slashed), where, path.Clean(withoutParameters(slashed))} // path.Clean doesn't copy a clean path
}

// withoutParameters removes everything from the first semicolon in each segment of a path.
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

// covers reports whether a rule's path matches one spelling of a request's path. /a/* matches /a and all paths
// below it, and an empty rule matches every path. The path of a script also matches paths below it, because
// they run the same script (PATH_INFO of RFC 3875, 4.1.5).
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

// Headers selects the header fields that inform clients about their limits.
type Headers int

// The values of Headers.
const (
	NoHeaders Headers = iota
	Classic           // X-RateLimit-Remaining and -Clear, and -Reset if the request is blocked
	Draft             // RateLimit and RateLimit-Policy of the IETF draft
)

// standings are the results of all rules that matched a request.
type standings []standing

type standing struct {
	name   string // the rule's name
	bucket Bucket
	is     Status
}

// add adds the result of a rule.
func (s *standings) add(name string, b Bucket, is Status) { *s = append(*s, standing{name, b, is}) }

// fields returns the header fields. The proxy sets Retry-After itself.
func (s standings) fields(how Headers) map[string][]string {
	if len(s) == 0 {
		return nil
	}
	h := map[string][]string{}
	if how == Draft {
		s.setDraft(h)
		return h
	}
	worst := s[0].is // the status of the rule with the least room
	for _, x := range s[1:] {
		if x.is.Blocked || x.is.Remaining < worst.Remaining {
			worst = x.is
		}
	}
	worst.SetFields(h)
	return h
}

// setDraft sets the fields of draft-ietf-httpapi-ratelimit-headers-10.
func (s standings) setDraft(h map[string][]string) {
	var policy, state []string
	for _, x := range s {
		name, b := quoted(x.name), x.bucket
		policy = append(policy, fmt.Sprintf(`%s;q=%d;qu="requests";w=%d`, name, b.Size, seconds(milliseconds(b.drips(b.Size)))))
		state = append(state, fmt.Sprintf(`%s;r=%d;t=%d`, name, x.is.Remaining, seconds(x.is.FullReset)))
	}
	h["RateLimit-Policy"], h["RateLimit"] = []string{strings.Join(policy, ", ")}, []string{strings.Join(state, ", ")}
}

// SetFields adds the state of a bucket to a response's headers: X-RateLimit-Remaining and -Clear always, -Reset
// only if the request was blocked. Times are in seconds, with three decimals.
func (s Status) SetFields(h map[string][]string) {
	// The names are spelled as documented, not in canonical form. Clients ignore case.
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(s.Remaining, 10)}
	h["X-RateLimit-Clear"] = []string{decimals(s.FullReset)}
	if s.Blocked {
		h["X-RateLimit-Reset"] = []string{decimals(s.Reset)}
	}
}

func decimals(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// quoted formats a String of RFC 9651. Characters that such a string can't contain become question marks.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r < ' ' || r > '~':
			b.WriteByte('?')
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
