package redis

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"tempomat/limiter/limitertest"
)

// startCluster starts a cluster of three masters with a replica each.
func startCluster(t testing.TB) (nodes []*server) {
	t.Helper()
	var addresses []string
	for range 6 {
		_, bus, _ := net.SplitHostPort(limitertest.FreeAddress(t))
		s := startServer(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "500",
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		nodes = append(nodes, s)
		addresses = append(addresses, s.Address)
	}
	args := append([]string{"--cluster", "create", "--cluster-yes", "--cluster-replicas", "1"}, addresses...)
	if out, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	for _, s := range nodes {
		eventually(t, "the cluster agrees", func() bool { return s.info("cluster")["cluster_state"] == "ok" })
	}
	return nodes
}

// info reads a section of INFO, or CLUSTER INFO.
func (s *server) info(section string) map[string]string {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.Address)
	command := []string{"-h", host, "-p", port, "info", section}
	if section == "cluster" {
		command = []string{"-h", host, "-p", port, "cluster", "info"}
	}
	out, err := exec.Command("redis-cli", command...).CombinedOutput()
	if err != nil {
		return nil
	}
	values := map[string]string{}
	for line := range strings.SplitSeq(string(out), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[name] = value
		}
	}
	return values
}

func clusterOptions(nodes []*server) Options {
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
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("no redis-cli")
	}
	nodes := startCluster(t)
	o := clusterOptions(nodes)
	bothWays(t, func(t *testing.T, noScripts bool) {
		o := o
		o.Timeout, o.NoScripts = nodes[0].options().Timeout, noScripts
		c := checker(t, o)
		b := Bucket{Size: 2, DripRate: most, DripSize: 1}
		for i := range 40 {
			for n := range 3 {
				info, err := c.Check(ctx, fmt.Sprint(i, noScripts), "limit", b, 1)
				if err != nil || info.Blocked != (n == 2) {
					t.Fatalf("check %d of actor %d: %+v, %v", n, i, info, err)
				}
			}
		}
	})
	o.Timeout = 0
	cars := [2]*sidecar{startSidecar(t, o), startSidecar(t, o)}
	linked(t, cars[0], cars[1])
	l := startLoad(cars)
	for i := range 32 { // in most of the shards
		linked(t, cars[i%2], cars[1-i%2])
	}
	t.Logf("with all masters: %s", l.quantiles())
	var killed *server
	for _, s := range nodes {
		if s.info("replication")["role"] == "master" {
			killed = s
			break
		}
	}
	killed.Kill()
	eventually(t, "a replica has taken over", func() bool {
		masters := 0
		for _, s := range nodes {
			if s != killed && s.info("replication")["role"] == "master" && s.info("cluster")["cluster_state"] == "ok" {
				masters++
			}
		}
		return masters == 3
	})
	worst := linked(t, cars[0], cars[1])
	for i := range 64 {
		worst = max(worst, linked(t, cars[i%2], cars[1-i%2]))
	}
	t.Logf("one killed: %s; the slowest link afterwards %v", l.quantiles(), worst)
	l.end(t)
	t.Logf("%+v", cars[0].sharer.State())
}
