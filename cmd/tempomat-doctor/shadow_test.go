package main

import (
	"encoding/json"
	"strings"
	"testing"

	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
)

// serveShadow runs a real admin API that tells what would have been.
func serveShadow(t *testing.T, shadow func(hours int) api.ShadowReply) (path string) {
	t.Helper()
	return servePast(t, func(o *admin.Options) { o.Shadow = shadow })
}

// wouldBe is what would have been of a crawl, by somebody with a hostile name.
func wouldBe(hours int) api.ShadowReply {
	done := api.ShadowDone{CPU: 12.5, Delayed: 7, Refused: 30, Redirected: 2, P50: 1.25, P95: 9.5}
	sum := api.ShadowSum{
		Requests: 1000, Lost: 250, Late: 3,
		Groups: []api.ShadowGroup{{Name: "known"}, {Name: "robots", Requests: 1000, Was: api.ShadowDone{CPU: 100}, Would: done}},
		Causes: []api.ShadowCause{{Name: hostileName, ShadowDone: done}},
	}
	return api.ShadowReply{Version: api.Version, Mode: "fair", Until: float64(lastHour.Unix() + int64(hours)), Modes: []api.ShadowMode{{
		Mode: "cap", ShadowSum: sum, Hours: []api.ShadowHour{{At: float64(lastHour.Unix()), ShadowSum: sum}},
		Classes: []api.ShadowClass{{Class: "userAgent", Keys: []api.ShadowKey{{Name: hostileName, Delayed: 7, Refused: 30, CPU: 87.5, Longest: 9}}}},
	}}}
}

func TestShadow(t *testing.T) {
	path := serveShadow(t, wouldBe)
	code, text, stderr := call(t, nil, "shadow", "--socket", path, "--hours", "48")
	for _, want := range []string{
		"In shadow now: fair.", "until Sun 2026-11-22 12:00:48 UTC", "What cap would have done with 1,000 requests in 1 hour of the last 48 hours",
		"250 more (20", "3 took more than a minute", "robots, in truth", "robots, with cap", "userAgent  whom it would have met",
	} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("status %d, without %q: %s%s", code, want, text, stderr)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e\u009b\r\a") || strings.Contains(text, "known") {
		t.Errorf("%q", text)
	}
	code, text, stderr = call(t, nil, "shadow", "--socket", path, "--json")
	var reply api.ShadowReply
	if err := json.Unmarshal([]byte(text), &reply); code != 0 || err != nil || strings.ContainsAny(text, "\x1b\u202e\u009b") {
		t.Fatalf("status %d, %v: %s%s", code, err, text, stderr)
	}
	if m := reply.Modes[0]; m.Hours[0].Groups[1].Would.Refused != 30 || m.Classes[0].Keys[0].Name != hostileName {
		t.Errorf("%+v", reply)
	}
}

// TestShadowHasNothing: who has nothing in shadow learns how to put something there.
// TestShadowOfEarlierDays: a report of what was in shadow before is not taken for one of what is.
func TestShadowOfEarlierDays(t *testing.T) {
	path := serveShadow(t, func(hours int) api.ShadowReply {
		reply := wouldBe(hours)
		reply.Until, reply.Window = 0, 60
		return reply
	})
	if code, text, stderr := call(t, nil, "shadow", "--socket", path); code != 0 || !strings.Contains(text, "No request is yet: it is told of them as much as 60s later") {
		t.Errorf("status %d: %s%s", code, text, stderr)
	}
}

func TestShadowHasNothing(t *testing.T) {
	none := func(int) api.ShadowReply {
		return api.ShadowReply{Version: api.Version, Window: 60, Modes: []api.ShadowMode{}}
	}
	for _, c := range []struct {
		name   string
		shadow func(int) api.ShadowReply
		args   []string
		code   int
		want   string
	}{
		{"no history", nil, nil, 1, "history.hours is 0"},
		{"nothing", none, nil, 0, "throttle.shadow, or shadow: true of a class"},
		{"too many hours", none, []string{"--hours", "169"}, 2, "must be 1 to 168"},
		{"no rows", none, []string{"--limit", "0"}, 2, "at least 1"},
	} {
		code, stdout, stderr := call(t, nil, append([]string{"shadow", "--socket", serveShadow(t, c.shadow)}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: status %d, %s%s", c.name, code, stdout, stderr)
		}
	}
}
