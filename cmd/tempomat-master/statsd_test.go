package main

import (
	"testing"

	"tempomat/config"
	"tempomat/limiter/smockron/master"
)

func TestStatsdLines(t *testing.T) {
	type counts = master.DomainCounts
	both := config.Statsd{Prefix: "a.", Suffix: ".z"}
	for _, c := range []struct {
		name        string
		to          config.Statsd
		before, now counts
		want        string
	}{
		{"nothing", both, counts{}, counts{}, ""},
		{"nothing new", both, counts{Accepted: 5, Delayed: 1, Delay: 2}, counts{Accepted: 5, Delayed: 1, Delay: 2}, ""},
		{"accepted", config.Statsd{}, counts{Accepted: 5}, counts{Accepted: 8}, "request.total:3|c\nrequest.status.ACCEPTED:3|c"},
		{
			"delayed: the mean, with the rate that has it count twice", config.Statsd{Prefix: "m."},
			counts{Delayed: 1, Delay: 10}, counts{Delayed: 3, Delay: 11.5},
			"m.request.total:2|c\nm.request.status.DELAYED:2|c\nm.request.delayed_by:750|ms|@0.500000",
		},
		{
			"all, with prefix and suffix", both, counts{}, counts{Accepted: 1, Delayed: 1, Throttled: 4, Rejected: 7, Delay: 0.25},
			"a.request.total.z:2|c\na.request.status.ACCEPTED.z:1|c\na.request.status.DELAYED.z:1|c\n" +
				"a.request.throttled.z:4|c\na.request.delayed_by.z:250|ms|@1.000000",
		},
		{"a domain is gone: less than before is told as nothing", both, counts{Accepted: 5, Delayed: 2, Throttled: 3, Delay: 9}, counts{Accepted: 4}, ""},
	} {
		if got := statsdLines(&c.to, c.before, c.now); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}
