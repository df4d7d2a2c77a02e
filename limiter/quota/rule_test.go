package quota

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
)

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		rule, where string
		want        bool
	}{
		{"", "/a", true}, {"/a", "/a", true}, {"/a", "/ab", false}, {"/a*", "/ab", true},
		{"/a/*", "/a", true}, {"/a/*", "/a/b", true}, {"/a/*", "/ab", false}, {"/*", "/", true},
		{"/a.php", "/a.php/b", true}, {"/a.php", "/a.phpx", false}, {"/a", "/a/b", false}, {"/a.d/b", "/a.d/b/c", false},
	} {
		if got := covers(c.rule, c.where); got != c.want {
			t.Errorf("%q covers %q: %v", c.rule, c.where, got)
		}
	}
}

func TestSpellings(t *testing.T) {
	for where, want := range map[string][4]string{
		"/a": {"/a", "/a", "/a", "/a"}, "*": {"/*", "/*", "/*", "/*"},
		"/a//b/../c/": {"/a/c", "/a/c", "/a//b/../c/", "/a/c"},
		`/\../a`:      {`/\../a`, "/a", `/\../a`, "/a"},
		`\a`:          {`/\a`, "/a", `/\a`, "/a"},
		"/a;b/..;/c;": {"/a;b/..;/c;", "/a;b/..;/c;", "/a;b/..;/c;", "/c"},
		";a;b/c;d/":   {"/;a;b/c;d", "/;a;b/c;d", "/;a;b/c;d/", "/c"},
	} {
		if got := spellings(where); got != want {
			t.Errorf("%q may be %q, want %q", where, got, want)
		}
	}
}

func TestDraftFields(t *testing.T) {
	b := Bucket{Size: 10, DripRate: 1500, DripSize: 4}
	h := http.Header{}
	setDraftFields(h,
		b.quota(`log "in"`, Status{Remaining: 3, FullReset: 2500 * time.Millisecond}),
		Bucket{}.quota("none", Bucket{}.Status(BucketState{}, 0, 1, false)),
		creditQuota("cpu\né", limiter.Balance{Rate: 0.5, Burst: 30, Level: -2}),
	)
	want := http.Header{
		"RateLimit-Policy": {`"log \"in\"";q=10;qu="requests";w=5, "cpu??";q=30000;qu="cpu-milliseconds";w=60`},
		"RateLimit":        {`"log \"in\"";r=3;t=3, "cpu??";r=0;t=64`},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h = http.Header{}
	if setDraftFields(h, quota{name: "none"}); len(h) != 0 {
		t.Errorf("%v", h)
	}
}
