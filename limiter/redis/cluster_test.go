package redis

import (
	"fmt"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

func clusterOptions(nodes []*testkit.Redis) Options {
	o := Options{Cluster: true}
	for _, s := range nodes {
		o.Addresses = append(o.Addresses, s.Address)
	}
	return o
}

// TestCluster makes checks in a cluster both ways, and kills a master under load:
// its replica takes over, and the sidecars go on.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := testkit.StartRedisCluster(t, 1)
	o := clusterOptions(nodes)
	o.Timeout = 10 * time.Second
	c := checker(t, o)
	b := quota.Bucket{Size: 2, DripRate: quota.Most, DripSize: 1}
	for i := range 40 {
		for n := range 3 {
			info, err := c.Check(ctx, time.Time{}, fmt.Sprint(i), "limit", b, 1)
			if err != nil || info.Blocked != (n == 2) {
				t.Fatalf("check %d of actor %d: %+v, %v", n, i, info, err)
			}
		}
	}
	o.Timeout = 0
	cars := [2]*sidecar{startSidecar(t, o), startSidecar(t, o)}
	linked(t, cars[0], cars[1])
	l := startLoad(cars)
	for i := range 32 { // in most of the shards
		linked(t, cars[i%2], cars[1-i%2])
	}
	t.Logf("with all masters: %s", l.quantiles())
	testkit.KillMaster(t, nodes)
	worst := linked(t, cars[0], cars[1])
	for i := range 64 {
		worst = max(worst, linked(t, cars[i%2], cars[1-i%2]))
	}
	t.Logf("one killed: %s; the slowest link afterwards %v", l.quantiles(), worst)
	l.end(t)
	t.Logf("%+v", cars[0].sharer.State())
}
