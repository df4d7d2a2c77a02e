package redis

import "testing"

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Addresses: []string{"a:1"}}, ""},
		{Options{Addresses: []string{"/run/redis.sock"}}, ""},
		{Options{Addresses: []string{"a:1", "b:2"}, Cluster: true}, ""},
		{Options{Addresses: []string{"a:1", "b:2"}, SentinelMaster: "m", Database: 3}, ""},
		{Options{}, "redis: no address"},
		{Options{Addresses: []string{"a"}}, "redis: address a: missing port in address"},
		{Options{Addresses: []string{"a:1", "b:2"}}, "redis: more than one address, and neither a cluster nor sentinels"},
		{Options{Addresses: []string{"a:1"}, Cluster: true, SentinelMaster: "m"}, "redis: either a cluster or sentinels"},
		{Options{Addresses: []string{"a:1"}, Cluster: true, Database: 1}, "redis: a cluster has only the database 0"},
		{Options{Addresses: []string{"a:1"}, Database: -1}, "redis: the database is below 0"},
		{Options{Addresses: []string{"a:1"}, Timeout: -1, Prefix: "{x}"}, "redis: braces in the prefix, all keys would be in one slot of a cluster\nredis: the timeout is below 0"},
	} {
		got := ""
		if err := c.o.validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
	if _, err := NewChecker(Options{}); err == nil {
		t.Error("a checker without an address")
	}
	if _, err := NewSharer(Options{}, testPolicy()); err == nil {
		t.Error("a sharer without an address")
	}
}
