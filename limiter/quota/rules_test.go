package quota_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// client is a list of keys: the address first, and possibly a session.
type client []limiter.Key

func from(address string, session ...string) client {
	c := client{{Class: "address", ID: address}}
	for _, s := range session {
		c = append(c, limiter.Key{Class: "session", ID: s})
	}
	return c
}

func (c client) Key(class string) (limiter.Key, bool) {
	for _, k := range c {
		if k.Class == class {
			return k, true
		}
	}
	return limiter.Key{}, false
}

// once lets one request of each key pass per hour, whatever its path.
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

// TestPaths checks which paths a rule covers: those where a second request is blocked.
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
		{"/a", "/ab", false}, {"/a*", "/ab", true}, {"/a/*", "/a", true}, {"/a/*", "/ab", false}, {"/*", "/", true},
		{"/a.php", "/a.php/b", true}, {"/a.php", "/a.phpx", false}, {"/a.d/b", "/a.d/b/c", false},
		{`/\../a`, `/\../a`, true}, {"/a", `/\../a`, true}, {"/a;b/..;/c;", "/a;b/..;/c;", true}, {"/;a;b/c;d", ";a;b/c;d/", true},
		{"/c", ";a;b/c;d/", true}, {"/a//b/../c/", "/a//b/../c/", true}, {"/a/c", "/a//b/../c/", true},
	} {
		r := rules(t, quota.Options{Rules: []quota.Rule{once("r", c.rule, "address")}})
		ask := func() quota.Counted {
			return r.Count(t.Context(), noon, quota.Request{Path: c.path, From: from("a")})
		}
		if first := ask(); first.Blocked || first.Last != c.covered {
			t.Errorf("%q of %q, at first: %+v", c.path, c.rule, first)
		}
		testkit.Same(t, c.covered, ask().Blocked, "path %q, rule %q: blocked", c.path, c.rule)
	}
}

// TestNoKey: a client without a key of the rule's class isn't limited, and the rule doesn't count as matched.
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

// TestBlockedCountsNowhere: a request that one rule blocks takes no room in the other rules, whether they are
// earlier or later.
func TestBlockedCountsNowhere(t *testing.T) {
	twice := once("all", "", "address")
	twice.Size = 2
	r := rules(t, quota.Options{Rules: []quota.Rule{twice, once("login", "/login", "address")}})
	for i, c := range []struct {
		path  string
		limit string
	}{{"/login", ""}, {"/login", "login"}, {"/login", "login"}, {"/", ""}, {"/", "all"}} {
		testkit.Same(t, c.limit, r.Count(t.Context(), noon, quota.Request{Path: c.path, From: from("a")}).Limit, "request %d for %s: limit", i, c.path)
	}
}

// failing is a store that can't be reached.
type failing struct{ asked int }

func (f *failing) Check(context.Context, time.Time, string, string, quota.Bucket, int64) (quota.Status, error) {
	f.asked++
	return quota.Status{Blocked: true}, errors.New("away")
}

// TestSharedRules: shared rules count in the shared store. If the store fails, they let requests pass; other
// rules still apply.
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
		testkit.Same(t, `["own";q=1;qu="requests";w=3600]`, fmt.Sprint(got.Fields["RateLimit-Policy"]), "request %d", i)
	}
	alone := rules(t, quota.Options{Rules: []quota.Rule{shared}})
	for i, blocked := range []bool{false, true} {
		testkit.Same(t, blocked, alone.Count(t.Context(), noon, quota.Request{From: from("a")}).Blocked, "without a shared store, request %d: blocked", i)
	}
}

// TestFirstBlocks: a request is checked against rules in their order, and rules after the one that blocks it
// aren't charged.
func TestFirstBlocks(t *testing.T) {
	wide := once("wide", "", "address")
	wide.Size = 3
	r := rules(t, quota.Options{Rules: []quota.Rule{once("login", "/login", "address"), wide}, Headers: quota.Classic})
	for _, c := range []struct{ path, limit, left string }{
		{"/login", "", "0"}, {"/login", "login", "0"}, {"/login", "login", "0"}, {"/", "", "1"}, {"/", "", "0"}, {"/", "wide", "0"},
	} {
		got := r.Count(t.Context(), noon, quota.Request{Path: c.path, From: from("a")})
		if got.Limit != c.limit || got.Fields["X-RateLimit-Remaining"][0] != c.left || got.Fields["Retry-After"] != nil { // the proxy sets Retry-After
			t.Errorf("%s: %+v, want %s", c.path, got, c.limit)
		}
	}
}

// TestFields checks the header fields that inform clients, for each kind of Headers.
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
	} {
		r := rules(t, quota.Options{Rules: []quota.Rule{wide, narrow}, Headers: how})
		got := r.Count(t.Context(), noon, quota.Request{Path: "/", From: from("a")})
		if diff := cmp.Diff(want, got.Fields); diff != "" || got.Last {
			t.Errorf("way %d: -want +got:\n%s", how, diff)
		}
	}
	if got := rules(t, quota.Options{Headers: quota.Draft}).Count(t.Context(), noon, quota.Request{From: client{}}); got.Fields != nil {
		t.Errorf("without a rule, the fields are %v", got.Fields)
	}
}
