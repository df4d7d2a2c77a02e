package sharing

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry/metrics"
)

// TestEveryKindHasASharer: this program supports the allowed values of coordination.kind.
func TestEveryKindHasASharer(t *testing.T) {
	_, err := config.Parse([]byte("coordination: {kind: x}"), "", nil)
	_, list, _ := strings.Cut(err.Error(), "must be ")
	kinds := strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
	testkit.Same(t, 4, len(kinds), "kinds in the error %v", err)
	for _, kind := range kinds {
		c := config.Default()
		c.Coordination.Kind = kind
		if s, err := New(c, zap.NewNop()); err != nil || (s.Sharer() == nil) != (kind == config.SharesNothing) {
			t.Errorf("%s: %v, %v", kind, s.Sharer(), err)
		}
	}
}

// TestTroubleIsTold: if a Sharer can't be made, the sidecar works alone, and the doctor and the metrics show
// why.
func TestTroubleIsTold(t *testing.T) {
	c := config.Default()
	c.Coordination.Kind, c.Coordination.Secret = "gossip", "/nowhere/secret"
	s, err := New(c, zap.NewNop())
	testkit.Must(t, err)
	s.Run(context.Background(), nil)
	if r := s.Reply(); r.Kind != "gossip" || !strings.Contains(r.Trouble, "/nowhere/secret") || r.State != nil {
		t.Errorf("the doctor is told %+v", r)
	}
	want := metrics.Sharing{Kind: "gossip", SharingStatus: limiter.SharingStatus{Up: map[string]bool{"gossip": false}}}
	testkit.Same(t, want, s.Numbers(), "metrics")
}

// TestAloneThereIsNothingToTell: an instance that shares nothing has no Sharer and reports no trouble.
func TestAloneThereIsNothingToTell(t *testing.T) {
	s, err := New(config.Default(), zap.NewNop())
	testkit.Must(t, err)
	s.Run(context.Background(), nil)
	s.Reload(limiter.Policy{})
	if diff := cmp.Diff(api.ShareReply{Kind: "none"}, s.Reply()); s.Sharer() != nil || diff != "" {
		t.Errorf("%v, %s", s.Sharer(), diff)
	}
}

// TestRedisOptions: the error for a file that can't be read names the key of the configuration.
func TestRedisOptions(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, dir+"/password", "pass word\n", 0o600)
	if o, err := RedisOptions(config.Coordination{Redis: config.Redis{Password: dir + "/password", Addresses: []string{"rediss://redis:6379"}}}); err != nil || o.Password != "pass word" || o.TLS == nil {
		t.Errorf("%+v, %v", o, err)
	}
	for _, c := range []config.Redis{
		{Password: dir + "/none"}, {Salt: dir + "/none"}, {Addresses: []string{"rediss://redis:6379?ca=" + dir + "/none"}}, {Addresses: []string{"rediss://redis:6379?ca=" + dir + "/password"}},
	} {
		if _, err := RedisOptions(config.Coordination{Redis: c}); err == nil || !strings.HasPrefix(err.Error(), "coordination.redis.") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
