package proxy

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// counts is limits that say always the same.
type counts quota.Counted

func (c counts) Count(context.Context, time.Time, quota.Request) quota.Counted {
	return quota.Counted(c)
}

// limited puts limits in requests into a rig's policy.
func (r *rig) limited(c counts, shadow bool) {
	p := *r.handler.Policy()
	p.Requests, p.Limits.Shadow, p.Limits.Mode = c, shadow, limiter.Fair
	r.handler.SetPolicy(&p)
}

func TestRefusedForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }), exempt("/healthz"))
		r.limited(counts{
			Blocked: true, Limit: "login", Wait: 1500 * time.Millisecond,
			Fields: http.Header{"X-RateLimit-Remaining": {"0"}},
		}, false)
		for accept, json := range accepts {
			res, body := r.do(r.client, request(t, nil, "GET /", "Accept: "+accept))
			checkProblem(t, res, body, 429, json)
			if got := res.Header.Get("Retry-After"); got != "2" || res.Header.Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("%v", res.Header)
			}
			if !strings.Contains(body, "You made more requests than the limit login allows. Please try again in 2 s.") {
				t.Error(body)
			}
		}
		if asked != 0 {
			t.Errorf("the backend was asked %d times", asked)
		}
		if res, _ := r.do(r.client, request(t, nil, "GET /healthz")); res.StatusCode != 200 || res.Header.Get("X-RateLimit-Remaining") != "" {
			t.Errorf("exempt: %v %v", res.Status, res.Header)
		}
		r.limited(counts{Blocked: true, Limit: "login"}, true)
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
			t.Errorf("in shadow: %v", res.Status)
		}
		p := *r.handler.Policy()
		p.Limits.Shadow, p.Limits.Mode = false, limiter.Observe
		r.handler.SetPolicy(&p)
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
			t.Errorf("observed: %v", res.Status)
		}
		for i, line := range r.lines() {
			if refused := i < len(accepts); refused != (line["outcome"] == "refused") || refused != (line["verdict"] == "refuse") || refused && line["limit"] != "login" {
				t.Errorf("access log: %v", line)
			}
		}
	})
}

// TestFieldsOfRequests: what limits tell goes with the response, but not beside
// what the backend tells itself.
func TestFieldsOfRequests(t *testing.T) {
	for name, c := range map[string]struct{ backend, want http.Header }{
		"silent": {nil, http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Clear": {"1.500"}}},
		"speaks": {http.Header{"X-RATELIMIT-CLEAR": {"9"}}, http.Header{"X-Ratelimit-Clear": {"9"}}},
		"other":  {http.Header{"X-Other": {"1"}}, http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Clear": {"1.500"}, "X-Other": {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					maps.Copy(w.Header(), c.backend)
				}))
				r.limited(counts{Fields: http.Header{"X-RateLimit-Remaining": {"3"}, "X-RateLimit-Clear": {"1.500"}}}, false)
				for _, client := range []*http.Client{r.client, r.h2c} {
					res, _ := r.do(client, request(t, nil, "GET /"))
					got := http.Header{}
					for k, v := range res.Header {
						if strings.HasPrefix(k, "X-") {
							got[k] = v
						}
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("%s: -want +got:\n%s", res.Proto, diff)
					}
				}
			})
		})
	}
}

func TestKindOf(t *testing.T) {
	for e, want := range map[classify.Evidence]quota.Kind{
		0: quota.Anonymous, classify.Parts | classify.Contradiction: quota.Anonymous, classify.Cookie: quota.Session,
		classify.Cookie | classify.Attested: quota.Trusted,
	} {
		if got := kindOf(&classify.Result{Evidence: e}); got != want {
			t.Errorf("%v: %d, want %d", e, got, want)
		}
	}
}
