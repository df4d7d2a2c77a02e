package quota

import (
	"context"
	"time"

	"tempomat/limiter"
)

// Rules are those in force. The methods may be called concurrently.
type Rules struct {
	rules    []rule
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

// New makes rules ready. The error is the *Invalid of the first rule that makes no sense.
func New(o Options) (*Rules, error) {
	r := &Rules{own: o.Own, shared: o.Shared, accounts: o.Accounts, headers: o.Headers}
	if r.shared == nil {
		r.shared = o.Own
	}
	for _, given := range o.Rules {
		made, err := newRule(given)
		if err != nil {
			return nil, err
		}
		r.rules = append(r.rules, made)
	}
	return r, nil
}

// Request is one, as rules see it.
type Request struct {
	Path string // decoded, as the client wrote it
	Kind Kind
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
		bucket := rule.buckets[of.Kind]
		status, err := r.storeOf(rule).Check(ctx, now, actor, rule.Name, bucket, 1)
		if err != nil || !bucket.Limits() {
			continue
		}
		if r.headers != NoHeaders {
			stand.add(rule.Name, bucket, status)
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
			_, _ = r.storeOf(rule).Check(ctx, now, actor, rule.Name, rule.buckets[of.Kind], -1) // what fails limits nobody for long
		}
	}
}

func (r *Rules) storeOf(l *rule) Store {
	if l.Shared {
		return r.shared
	}
	return r.own
}

// addCredit adds the client's own account, as it stands before the request.
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
