package quota_test

import (
	"context"
	"fmt"
	"time"

	"tempomat/limiter/quota"
)

// Two attempts to log in pass at once, and one more each ten seconds; a client that the site
// knows by its cookie has twice as many.
func ExampleRules_Count() {
	rules, err := quota.New(quota.Options{
		Rules: []quota.Rule{{
			Limit:   quota.Limit{Name: "login", Type: "bucket", Size: new(2.0), DripRate: new(10_000.0)},
			Path:    "/login/*",
			Class:   "address",
			Factors: quota.Factors{quota.Anonymous: 1, quota.Session: 0.5, quota.Trusted: 0},
		}},
		Own:     quota.NewMemoryStore(1 << 16),
		Headers: quota.Draft,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ask := func(path string, kind quota.Kind) {
		c := rules.Count(context.Background(), now, quota.Request{Path: path, Kind: kind, From: from("203.0.113.7")})
		if c.Blocked {
			fmt.Println(path, "is refused by", c.Limit, "for", c.Wait)
			return
		}
		fmt.Println(path, "passes", c.Fields["RateLimit"])
	}
	ask("/login", quota.Anonymous)
	ask("/login/again", quota.Anonymous)
	ask("/login", quota.Anonymous)
	ask("/elsewhere", quota.Anonymous)
	ask("/login", quota.Session)
	now = now.Add(20 * time.Second)
	ask("/login", quota.Anonymous)
	// Output:
	// /login passes ["login";r=1;t=10]
	// /login/again passes ["login";r=0;t=20]
	// /login is refused by login for 10s
	// /elsewhere passes []
	// /login passes ["login";r=1;t=30]
	// /login passes ["login";r=0;t=20]
}
