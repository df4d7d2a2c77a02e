package inspect

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// TestConditions: each fault causes a condition with an action, the worst first. A server without faults has no
// conditions.
func TestConditions(t *testing.T) {
	day := 24 * time.Hour
	certificate := func(left time.Duration, fault string) []api.Certificate {
		return []api.Certificate{{File: "/etc/a.pem", Expires: noon.Add(left), Fault: fault}}
	}
	waits := func(h *Health, busy, queued int, use, longest float64) {
		h.Overview.Gate = limiter.GateState{Workers: 10, Busy: busy, Queued: queued, Utilisation: use}
		h.Overview.Use, h.Overview.Groups = use, []api.GroupRow{{Name: "strangers", Longest: longest}}
	}
	for name, c := range map[string]struct {
		make func(*Health)
		want string // names of the conditions; bad ones end with !
		says string // part of the first condition
	}{
		"well":                    {func(h *Health) {}, "", ""},
		"all get 502":             {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 40, Down: 40} }, "backend-down!", "The backend is down: 40 of 40 requests in the last 10 s got 502."},
		"some get 502":            {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 40, Down: 3} }, "backend-drops!", "3 of 40 requests"},
		"no answers":              {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 60, Requests: 2, Slow: 1} }, "backend-slow!", "1 of 2 requests in the last 60 s got 504"},
		"half pages":              {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 2, Broke: 1} }, "backend-breaks!", "an incomplete page"},
		"errors":                  {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 40, Errors: 12} }, "errors!", "12 of 40 requests"},
		"one error":               {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 2, Errors: 1} }, "", ""},
		"few errors of many":      {func(h *Health) { h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 400, Errors: 4} }, "", ""},
		"ended certificate":       {func(h *Health) { h.Certificates = certificate(-3*day, "") }, "certificate-ended!", "expired 3 days ago."},
		"no certificate":          {func(h *Health) { h.Certificates = []api.Certificate{{File: "a.example", Fault: "no DNS"}} }, "certificate-missing!", "for a.example: no DNS."},
		"certificate of tomorrow": {func(h *Health) { h.Certificates = certificate(day, "") }, "certificate-ends!", "expires in 24 h."},
		"certificate of ten days": {func(h *Health) { h.Certificates = certificate(10*day, "") }, "certificate-ends", "expires in 10 days."},
		"certificate of a month":  {func(h *Health) { h.Certificates = certificate(30*day, "") }, "", ""},
		"new certificate, faulty": {func(h *Health) { h.Certificates = certificate(30*day, "no key") }, "certificate-faulty", "not in use: no key."},
		"connections full":        {func(h *Health) { h.Connections, h.MostOpen = 90, 90 }, "connections-full!", "All 90 connections"},
		"workers held":            {func(h *Health) { waits(h, 10, 40, 0.05, 9) }, "workers-held!", "40 requests are waiting for workers, not for CPUs (5 % in use): all 10 workers are in use."},
		"some workers held":       {func(h *Health) { waits(h, 3, 40, 0.05, 9) }, "workers-held!", "3 of 10 workers are in use"},
		"waits for CPUs":          {func(h *Health) { waits(h, 10, 40, 0.95, 9) }, "", ""},
		"waits for a moment":      {func(h *Health) { waits(h, 10, 1, 0.05, 0.3) }, "", ""},
		"waits for debts":         {func(h *Health) { waits(h, 1, 40, 0.05, 9); h.Overview.Mode = "cap" }, "", ""},
		"lost lines":              {func(h *Health) { h.LostLines, h.WhyLost = 7, errors.New("no space left on device") }, "log-lost", "7 so far: no space left on device."},
		"master away":             {func(h *Health) { h.Up = map[string]bool{"master tcp://a": true, "master tcp://b": false} }, "sharing", "Only the other master shares accounts: master tcp://b can't be reached"},
		"no master":               {func(h *Health) { h.Up = map[string]bool{"master tcp://b": false} }, "sharing", "not shared: master tcp://b can't be reached"},
		"drift":                   {func(h *Health) { h.Drift = []api.Condition{{Name: "drift", What: "Instances differ.", Do: "Copy."}} }, "drift", "Instances differ."},
		"another secret":          {func(h *Health) { h.OtherSecret = true }, "sharing", "a different coordination.secret"},
		"strict limits":           {func(h *Health) { h.Strict = "refused" }, "strict-limits", "Redis can't be reached: refused"},
		"no sharing":              {func(h *Health) { h.Trouble, h.Up = "no keys", map[string]bool{"gossip": false} }, "sharing", "no keys"},
		"rejected":                {func(h *Health) { h.Rejected = true }, "reload-rejected", "The last reload was rejected"},
		"all at once": {func(h *Health) {
			h.Overview.Backend = api.BackendRow{Seconds: 10, Requests: 40, Down: 30, Slow: 1, Errors: 5}
			h.Certificates, h.Rejected, h.WhyLost = append(certificate(10*day, ""), certificate(-day, "")...), true, errors.New("x")
		}, "backend-down! errors! certificate-ended! backend-slow log-lost certificate-ends reload-rejected", "The backend is down"},
	} {
		h := &Health{Overview: &api.OverviewReply{Mode: "fair", Gate: limiter.GateState{Utilisation: -1}, Use: -1}, Backend: "http://127.0.0.1:8080"}
		c.make(h)
		var names []string
		bad := true
		for i, x := range Conditions(noon, h) {
			name := x.Name
			if x.Bad {
				name += "!"
			}
			names = append(names, name)
			if x.What == "" || !strings.HasSuffix(x.What, ".") || !strings.HasSuffix(x.Do, ".") {
				t.Errorf("%s: no sentences: %+v", name, x)
			}
			if i == 0 && !strings.Contains(x.What, c.says) {
				t.Errorf("%s: %q is not in %q", name, c.says, x.What)
			}
			if x.Bad && !bad {
				t.Errorf("%s: what is bad comes behind what is not", name)
			}
			bad = x.Bad
		}
		testkit.Same(t, c.want, strings.Join(names, " "), "%s", name)
	}
}
