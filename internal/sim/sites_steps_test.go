package sim

import (
	"testing"
)

// TestPeopleOfACrawledSite: whoever crawls a site cannot have its people share the CPUs with the crawl by asking
// another site for a page now and then, so that the crawled one has more than its share.
func TestPeopleOfACrawledSite(t *testing.T) {
	play := func(name string, clients ...[]*Client) *World {
		s := sited(name, shares(1, 1), func() []*Client {
			return join(append(clients, of(0, asking(thinking(called("own", people(10))), flat())), of(0, lone(20)))...)
		})
		s.Steps = true
		return playSites(t, s)
	}
	rare := called("rare", of(1, apart(1<<23, people(1))))
	rare[0].Think = 20
	alone, beside := play("crawled"), play("beside another", rare)
	was, is := alone.Percentile("own", .95), beside.Percentile("own", .95)
	t.Logf("p95 %.0f ms; where another site is there %.0f ms", was, is)
	if is > 1.2*was || beside.Good("own") < 1 {
		t.Error("its people wait for the crawl as soon as another site is there")
	}
}
