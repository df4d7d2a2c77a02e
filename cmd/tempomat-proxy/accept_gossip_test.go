//go:build accept

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAcceptGossipRequests compares what requests take at a sidecar that is alone,
// at two that gossip, and at another one that is alone: how far the two that are
// alone differ is what can not be told apart.
func TestAcceptGossipRequests(t *testing.T) {
	sayLoad(t)
	addresses := []string{"127.0.0.1:" + freePort(t), "127.0.0.1:" + freePort(t)}
	further := [4]string{}
	for i, a := range addresses {
		further[1+i] = fmt.Sprintf("listen: 127.0.0.1:0\ncoordination: {kind: gossip, gossip: {listen: %q, join: [%s]}}\n", a, strings.Join(addresses, ", "))
	}
	r := newAwayRig(t, further)
	stop := make(chan struct{})
	all := r.load(stop)
	_ = r.back("linked", func() {})
	f := newFigures(strings.Split(strings.ReplaceAll(strings.Join(awayColumns, ","), "strict", "alone too"), ",")...)
	r.measure(f, "pages of 10 ms", 20*time.Second)
	r.measure(f, "the same", 20*time.Second)
	r.settle(stop, all, awayBurst/2)
	r.page = "/nothing"
	stop = make(chan struct{})
	all = r.load(stop)
	r.measure(f, "pages of nothing", 20*time.Second)
	r.measure(f, "the same", 20*time.Second)
	close(stop)
	all.Wait()
	t.Log(f)
}
