package testkit

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartRedisCluster starts a cluster of three masters, each with so many replicas,
// until the test ends.
func StartRedisCluster(t testing.TB, replicas int) (nodes []*Redis) {
	t.Helper()
	cli := Program(t, "redis-cli")
	command := []string{"--cluster", "create"}
	for range 3 + 3*replicas {
		_, bus, _ := net.SplitHostPort(FreeAddress(t))
		r := StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "500",
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		nodes = append(nodes, r)
		command = append(command, r.Address)
	}
	command = append(command, "--cluster-yes", "--cluster-replicas", strconv.Itoa(replicas))
	if out, err := exec.Command(cli, command...).CombinedOutput(); err != nil { //nolint:gosec,noctx // a test's own
		t.Fatalf("redis-cli: %v\n%s", err, out)
	}
	for _, r := range nodes {
		Eventually(t, "the cluster agrees", func() bool { return r.Info("cluster")["cluster_state"] == "ok" })
	}
	return nodes
}

// Info reads a section of INFO, or CLUSTER INFO; nothing if the server is away.
func (r *Redis) Info(section string) map[string]string {
	r.t.Helper()
	host, port, _ := net.SplitHostPort(r.Address)
	command := []string{"-h", host, "-p", port, "info", section}
	if section == "cluster" {
		command = []string{"-h", host, "-p", port, "cluster", "info"}
	}
	out, err := exec.Command("redis-cli", command...).CombinedOutput() //nolint:gosec,noctx // a test's own
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

// KillMaster kills a master of a cluster, and waits until a replica has taken its
// place.
func KillMaster(t testing.TB, nodes []*Redis) {
	t.Helper()
	masters := func() (list []*Redis) {
		time.Sleep(50 * time.Millisecond) // each look starts processes
		for _, r := range nodes {
			if r.Info("replication")["role"] == "master" && r.Info("cluster")["cluster_state"] == "ok" {
				list = append(list, r)
			}
		}
		return list
	}
	killed := masters()[0]
	killed.Kill()
	Eventually(t, "a replica has taken over", func() bool { return len(masters()) == 3 })
}
