package quota_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// client has its address as its first key, and a session where there is one.
type client []limiter.Key

func from(address string, session ...string) client {
	c := client{{Class: "address", ID: address}}
	for _, s := range session {
		c = append(c, limiter.Key{Class: "session", ID: s})
	}
	return c
}

func (c client) Keys() []limiter.Key { return c }

func (c client) Key(class string) (limiter.Key, bool) {
	for _, k := range c {
		if k.Class == class {
			return k, true
		}
	}
	return limiter.Key{}, false
}

// once lets one request of each key pass an hour, wherever it goes.
func once(name, path, class string) quota.Rule {
	return quota.Rule{
		Name: name, Bucket: quota.Bucket{Size: 1, DripRate: 3.6e6, DripSize: 1}, Path: path, Class: class,
	}
}

func rules(t *testing.T, o quota.Options) *quota.Rules {
	t.Helper()
	if o.Own == nil {
		o.Own = quota.NewMemoryStore(1 << 10)
	}
	return quota.New(o)
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestPaths: which paths a rule is for. A second request is blocked where it is.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		rule, path string
		covered    bool
	}{
		{"", "/", true}, {"", "", true}, {"", "*", true},
		{"/login", "/login", true}, {"/login", "/login/", true}, {"/login", "/login/a", false}, {"/login", "/Login", false},
		{"/login", "/x/../login", true}, {"/login", "//login", true}, {"/login", "/./login", true}, {"/login", "login", true},
		{"/login", `\login`, true}, {"/login", `/x\..\login`, true}, {"/a/*", `/a\b`, true}, {"/a/*", "/a/../b", true},
		{"/a/*", "/a/b/../..", true}, {"/a/*", "/b/../a/", true}, {"/a/*", "/b/..", false}, {"/login", "/login;a=b", true},
		{"/login", "/x;a/..;b/login;", true}, {"/a/*", "/a;b/c", true}, {"/login", "/log;in", false}, {"/login", "/;/login", true},
	} {
		r := rules(t, quota.Options{Rules: []quota.Rule{once("r", c.rule, "address")}})
		ask := func() quota.Counted {
			return r.Count(t.Context(), noon, quota.Request{Path: c.path, From: from("a")})
		}
		if first := ask(); first.Blocked || first.Last != c.covered {
			t.Errorf("%q of %q, at first: %+v", c.path, c.rule, first)
		}
		if second := ask(); second.Blocked != c.covered {
			t.Errorf("%q of %q: %+v, want blocked %v", c.path, c.rule, second, c.covered)
		}
	}
}

// TestNoKey: who has no key of the rule's class is not limited, and the rule is not for it.
func TestNoKey(t *testing.T) {
	rule, matched := once("r", "", "session"), 0
	rule.Matched = func() { matched++ }
	r := rules(t, quota.Options{Rules: []quota.Rule{rule}})
	for i := range 3 {
		got := r.Count(t.Context(), noon, quota.Request{Path: "/", From: from("a", "s")})
		if want := i >= 1; got.Blocked != want || want && (got.Limit != "r" || got.Wait != time.Hour) || got.Last != (i == 0) {
			t.Errorf("request %d: %+v", i, got)
		}
	}
	if got := r.Count(t.Context(), noon, quota.Request{Path: "/", From: from("a")}); got.Blocked || matched != 3 {
		t.Errorf("without a key: %+v, matched %d", got, matched)
	}
}

// TestBlockedCountsNowhere: a request that one rule blocks takes no room in the others, before it or after
// it.
func TestBlockedCountsNowhere(t *testing.T) {
	twice := once("all", "", "address")
	twice.Size = 2
	r := rules(t, quota.Options{Rules: []quota.Rule{twice, once("login", "/login", "address")}})
	for i, c := range []struct {
		path  string
		limit string
	}{{"/login", ""}, {"/login", "login"}, {"/login", "login"}, {"/", ""}, {"/", "all"}} {
		if got := r.Count(t.Context(), noon, quota.Request{Path: c.path, From: from("a")}); got.Limit != c.limit {
			t.Errorf("request %d, for %s: blocked by %q, want %q", i, c.path, got.Limit, c.limit)
		}
	}
}

// failing is a store that is away.
type failing struct{ asked int }

func (f *failing) Check(context.Context, time.Time, string, string, quota.Bucket, int64) (quota.Status, error) {
	f.asked++
	return quota.Status{Blocked: true}, errors.New("away")
}

// TestSharedRules: those that are shared are counted in the shared store, whose failures let
// requests pass; the others go on.
func TestSharedRules(t *testing.T) {
	shared, own := once("shared", "", "address"), once("own", "", "address")
	shared.Shared = true
	away := &failing{}
	r := rules(t, quota.Options{Rules: []quota.Rule{shared, own}, Shared: away, Headers: quota.Draft})
	for i, limit := range []string{"", "own", "own"} {
		got := r.Count(t.Context(), noon, quota.Request{Path: "/", From: from("a")})
		if got.Limit != limit || got.Blocked != (limit != "") || away.asked != i+1 {
			t.Errorf("request %d: %+v, the store was asked %d times", i, got, away.asked)
		}
		if got := fmt.Sprint(got.Fields["RateLimit-Policy"]); got != `["own";q=1;qu="requests";w=3600]` {
			t.Errorf("request %d: %s", i, got)
		}
	}
	alone := rules(t, quota.Options{Rules: []quota.Rule{shared}})
	for i, blocked := range []bool{false, true} {
		if got := alone.Count(t.Context(), noon, quota.Request{From: from("a")}); got.Blocked != blocked {
			t.Errorf("without a shared store, request %d: %+v", i, got)
		}
	}
}

// TestFirstBlocks: a request is held against rules in their order, and those behind the one
// that blocks it are not charged.
func TestFirstBlocks(t *testing.T) {
	wide := once("wide", "", "address")
	wide.Size = 3
	r := rules(t, quota.Options{Rules: []quota.Rule{once("login", "/login", "address"), wide}, Headers: quota.Classic})
	for _, c := range []struct{ path, limit, left string }{
		{"/login", "", "0"}, {"/login", "login", "0"}, {"/login", "login", "0"}, {"/", "", "1"}, {"/", "", "0"}, {"/", "wide", "0"},
	} {
		got := r.Count(t.Context(), noon, quota.Request{Path: c.path, From: from("a")})
		if got.Limit != c.limit || got.Fields["X-RateLimit-Remaining"][0] != c.left {
			t.Errorf("%s: %+v, want %s", c.path, got, c.limit)
		}
	}
}

type accounts map[limiter.Key]limiter.Balance

func (a accounts) Balance(_ time.Time, k limiter.Key) (limiter.Balance, bool) {
	b, ok := a[k]
	return b, ok
}

// TestFields: what clients are told, by the way that is chosen.
func TestFields(t *testing.T) {
	narrow, wide := once("narrow", "", "address"), once("wide", "", "address")
	narrow.Size, wide.Size = 2, 5
	for how, want := range map[quota.Headers]map[string][]string{
		quota.NoHeaders: nil,
		quota.Classic:   {"X-RateLimit-Remaining": {"1"}, "X-RateLimit-Clear": {"3600.000"}},
		quota.Draft: {
			"RateLimit-Policy": {`"wide";q=5;qu="requests";w=18000, "narrow";q=2;qu="requests";w=7200`},
			"RateLimit":        {`"wide";r=4;t=3600, "narrow";r=1;t=3600`},
		},
		quota.WithCredit: {
			"RateLimit-Policy": {`"wide";q=5;qu="requests";w=18000, "narrow";q=2;qu="requests";w=7200, "address";q=10000;qu="cpu-milliseconds";w=20`},
			"RateLimit":        {`"wide";r=4;t=3600, "narrow";r=1;t=3600, "address";r=2500;t=15`},
		},
	} {
		r := rules(t, quota.Options{
			Rules: []quota.Rule{wide, narrow}, Headers: how,
			Accounts: accounts{{Class: "address", ID: "a"}: {Level: 2.5, Rate: 0.5, Burst: 10}},
		})
		got := r.Count(t.Context(), noon, quota.Request{Path: "/", From: from("a")})
		if diff := cmp.Diff(want, got.Fields); diff != "" {
			t.Errorf("way %d: -want +got:\n%s", how, diff)
		}
	}
	r := rules(t, quota.Options{Headers: quota.WithCredit, Accounts: accounts{}})
	if got := r.Count(t.Context(), noon, quota.Request{From: client{}}); got.Fields != nil {
		t.Errorf("who has no account is told %v", got.Fields)
	}
}
