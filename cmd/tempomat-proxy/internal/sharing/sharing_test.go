package sharing

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry/metrics"
)

// TestEveryKindHasASharer: what coordination.kind may be, this program can do, and nothing
// else.
func TestEveryKindHasASharer(t *testing.T) {
	var b bytes.Buffer
	if err := config.Schema(&b); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Coordination struct {
				Properties struct {
					Kind struct{ AnyOf []struct{ Enum []string } }
				}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &schema); err != nil {
		t.Fatal(err)
	}
	got := append(slices.Collect(maps.Keys(makers())), config.SharesNothing)
	want := schema.Properties.Coordination.Properties.Kind.AnyOf[0].Enum
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the configuration's (-) and the program's (+):\n%s", diff)
	}
}

// TestTroubleIsTold: a Sharer that cannot be made leaves the sidecar alone, which says why
// to the doctor, and by metrics that it is not there.
func TestTroubleIsTold(t *testing.T) {
	c := config.Default()
	c.Coordination.Kind, c.Coordination.Secret = "gossip", "/nowhere/secret"
	s, err := New(c, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s.Run(context.Background(), nil)
	if r := s.Reply(); r.Kind != "gossip" || !strings.Contains(r.Trouble, "/nowhere/secret") || r.State != nil {
		t.Errorf("the doctor is told %+v", r)
	}
	want := metrics.Sharing{Kind: "gossip", SharingStatus: limiter.SharingStatus{Up: map[string]bool{"gossip": false}}}
	if diff := cmp.Diff(want, s.Numbers()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestAloneThereIsNothingToTell: who shares nothing has no Sharer, and no trouble.
func TestAloneThereIsNothingToTell(t *testing.T) {
	s, err := New(config.Default(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s.Run(context.Background(), nil)
	s.Reload(limiter.Policy{})
	if diff := cmp.Diff(api.ShareReply{Kind: "none"}, s.Reply()); s.Sharer() != nil || diff != "" {
		t.Errorf("%v, %s", s.Sharer(), diff)
	}
}

// TestRedisOptions: files that cannot be read are told of by their keys.
func TestRedisOptions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/password", []byte("pass word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
