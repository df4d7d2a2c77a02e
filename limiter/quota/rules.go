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

// Rules are those in force. The methods may be called concurrently.
type Rules struct {
	rules    []Rule
	own      Store
	shared   Store
	accounts Accounts
	headers  Headers
}

// Options are what Rules need.
type Options struct {
	Rules    []Rule   // a request is held against them in this order
	Own      Store    // of this process
	Shared   Store    // of all processes together, for the rules that are Shared; nil: Own
	Accounts Accounts // for WithCredit; nil: clients are not told
	Headers  Headers
}

// Accounts tell how a client's account in CPU time stands; false: it has none. Its method
// may be called concurrently.
type Accounts interface {
	Balance(now time.Time, k limiter.Key) (limiter.Balance, bool)
}

// New makes rules ready.
func New(o Options) *Rules {
	r := &Rules{rules: o.Rules, own: o.Own, shared: o.Shared, accounts: o.Accounts, headers: o.Headers}
	if r.shared == nil {
		r.shared = o.Own
	}
	return r
}

// Request is one, as rules see it.
type Request struct {
	Path string // decoded, as the client wrote it
	From Client
}

// Counted is how the rules stand after a request.
type Counted struct {
	Blocked bool          // it is one too many
	Last    bool          // the next one would be, at once
	Limit   string        // the name of the rule that says so
	Wait    time.Duration // until it would not be
	// Fields are for the response's header, as they are to be written; nil: none. Retry-After
	// is not among them.
	Fields map[string][]string
}

// Count counts a request against each rule that is for it. If one of them blocks the request, it
// counts against none. It may wait for a shared store, and no longer than the context. A rule whose
// store fails lets it pass.
func (r *Rules) Count(ctx context.Context, now time.Time, of Request) Counted {
	where := spellings(of.Path)
	var stand standings
	last := false
	var room [8]int
	counted := room[:0] // the rules, by their places
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
			r.addCredit(now, of.From, &stand)
			return Counted{Blocked: true, Limit: rule.Name, Wait: status.Reset, Fields: stand.fields(r.headers)}
		}
		counted = append(counted, i)
	}
	r.addCredit(now, of.From, &stand)
	return Counted{Last: last, Fields: stand.fields(r.headers)}
}

// takeBack counts a request against some rules no more, as another one blocks it.
func (r *Rules) takeBack(ctx context.Context, now time.Time, of *Request, where *[4]string, counted []int) {
	for _, i := range counted {
		rule := &r.rules[i]
		if actor, ok := rule.actor(where, of.From); ok {
			_, _ = r.storeOf(rule).Check(ctx, now, actor, rule.Name, rule.Bucket, -1) // what fails limits nobody for long
		}
	}
}

func (r *Rules) storeOf(l *Rule) Store {
	if l.Shared {
		return r.shared
	}
	return r.own
}

// addCredit adds the client's own account, as it is before the request.
func (r *Rules) addCredit(now time.Time, of Client, to *standings) {
	keys := of.Keys()
	if r.headers != WithCredit || len(keys) == 0 || r.accounts == nil {
		return
	}
	if b, ok := r.accounts.Balance(now, keys[0]); ok {
		to.any = true
		to.quotas = append(to.quotas, creditQuota(keys[0].Class, b))
	}
}

// Rule says how many requests each key of a class may make, and to where.
type Rule struct {
	Name    string // in refusals, header fields and the log
	Bucket         // of each key
	Path    string // /a, or /a/* for /a/ and all below it; empty: every path
	Class   string // whose keys are counted
	Shared  bool   // counted together with other processes, in Options.Shared
	Matched func() // is called, concurrently, for each request that the rule is for; nil: nobody is told
}

// actor is whose bucket a request to a path goes to, if the rule is for it.
func (r *Rule) actor(where *[4]string, of Client) (string, bool) {
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

// covers reports whether a rule's path is that of a request, in one spelling: /a/*
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

// Headers says which fields tell clients how rules stand.
type Headers int

// The ways to tell clients.
const (
	NoHeaders  Headers = iota
	Classic            // X-RateLimit-Remaining, -Clear, and -Reset of who is blocked
	Draft              // RateLimit and RateLimit-Policy of the IETF's draft
	WithCredit         // as Draft, and in them the client's own account in CPU time
)

// The units of a quota in the draft's fields.
const (
	requests        = "requests"
	cpuMilliseconds = "cpu-milliseconds"
)

// standings is how the rules stand that a request was held against.
type standings struct {
	worst  Status // the one with the least room
	quotas []quota
	any    bool
}

func (s *standings) add(name string, b Bucket, is Status) {
	if !s.any || is.Blocked || is.Remaining < s.worst.Remaining {
		s.worst = is
	}
	s.any = true
	s.quotas = append(s.quotas, b.quota(name, is))
}

// fields tell a client of them. Retry-After is the proxy's to give.
func (s *standings) fields(how Headers) map[string][]string {
	if !s.any {
		return nil
	}
	h := map[string][]string{}
	if how == Draft || how == WithCredit {
		setDraftFields(h, s.quotas...)
	} else {
		s.worst.SetFields(h)
		delete(h, "Retry-After")
	}
	return h
}

// SetFields writes how a bucket stands into a response's header: X-RateLimit-
// Remaining and -Clear always; -Reset and Retry-After only if the request was
// blocked. Seconds have three decimals, except for Retry-After, which is rounded up.
func (s Status) SetFields(h map[string][]string) {
	// Field names are compared without case; these are written as they are known.
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(s.Remaining, 10)}
	h["X-RateLimit-Clear"] = []string{decimals(s.FullReset)}
	if s.Blocked {
		h["X-RateLimit-Reset"] = []string{decimals(s.Reset)}
		h["Retry-After"] = []string{strconv.FormatInt(s.ResetSeconds(), 10)}
	}
}

func decimals(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// quota is what the fields RateLimit and RateLimit-Policy of the IETF's draft
// draft-ietf-httpapi-ratelimit-headers-10 tell of one limit.
type quota struct {
	name      string
	unit      string
	quota     int64         // units in a window
	window    time.Duration // in which a quota that was used up is there again
	remaining int64         // units left
	reset     time.Duration // until the whole quota is there again
}

// quota is how a bucket stands, for the draft's fields. That of the zero Bucket
// has no window.
func (b Bucket) quota(name string, s Status) quota {
	if !b.Limits() {
		return quota{name: name, unit: requests}
	}
	return quota{
		name: name, unit: requests,
		quota: b.Size, window: milliseconds(b.drips(b.Size)),
		remaining: s.Remaining, reset: s.FullReset,
	}
}

// creditQuota is how an account in CPU time stands, for the draft's fields: the quota is
// what can be saved up, and debt leaves nothing of it.
func creditQuota(name string, b limiter.Balance) quota {
	burst, level := asDuration(b.Burst), asDuration(b.Level)
	return quota{
		name: name, unit: cpuMilliseconds,
		quota: burst.Milliseconds(), window: milliseconds(float64(burst.Milliseconds()) / b.Rate),
		remaining: max(0, level.Milliseconds()),
		reset:     milliseconds(float64((burst - level).Milliseconds()) / b.Rate),
	}
}

func asDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// setDraftFields writes quotas into a response's header, in the order given. One
// without a window is left out.
func setDraftFields(h map[string][]string, quotas ...quota) {
	var policy, state []string
	for _, q := range quotas {
		if q.window <= 0 {
			continue
		}
		name := quoted(q.name)
		policy = append(policy, fmt.Sprintf(`%s;q=%d;qu=%s;w=%d`, name, q.quota, quoted(q.unit), seconds(q.window)))
		state = append(state, fmt.Sprintf(`%s;r=%d;t=%d`, name, q.remaining, seconds(q.reset)))
	}
	if policy != nil {
		h["RateLimit-Policy"] = []string{strings.Join(policy, ", ")}
		h["RateLimit"] = []string{strings.Join(state, ", ")}
	}
}

// quoted writes a String of RFC 9651. What it cannot hold becomes a question mark.
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
