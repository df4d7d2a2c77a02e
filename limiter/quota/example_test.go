package quota_test

import (
	"context"
	"fmt"
	"time"

	"tempomat/limiter/quota"
)

// Two login attempts pass at once, and one more every ten seconds.
func ExampleRules_Count() {
	rules := quota.New(quota.Options{
		Rules: []quota.Rule{{
			Name:   "login",
			Bucket: quota.Bucket{Size: 2, DripRate: 10_000, DripSize: 1},
			Path:   "/login/*",
			Class:  "address",
		}},
		Own:     quota.NewMemoryStore(1 << 16),
		Headers: quota.Draft,
	})
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ask := func(path string) {
		c := rules.Count(context.Background(), now, quota.Request{Path: path, From: from("203.0.113.7")})
		if c.Blocked {
			fmt.Println(path, "is refused by", c.Limit, "for", c.Wait)
			return
		}
		fmt.Println(path, "passes", c.Fields["RateLimit"])
	}
	ask("/login")
	ask("/login/again")
	ask("/login")
	ask("/elsewhere")
	now = now.Add(20 * time.Second)
	ask("/login")
	// Output:
	// /login passes ["login";r=1;t=10]
	// /login/again passes ["login";r=0;t=20]
	// /login is refused by login for 10s
	// /elsewhere passes []
	// /login passes ["login";r=1;t=10]
}
