package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/limiter"
)

// sleeper is a backend that takes a second.
var sleeper = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })

// indebted makes the mode refuse a client after one of the sleeper's answers.
func indebted(m limiter.Mode) func(*setup) {
	return func(s *setup) {
		s.limits.Mode = m
		s.limits.Classes[0].Budget.CPUs = 0.01
		s.limits.MaxHold = 10 * time.Second
	}
}

func TestRefusedForDebt(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
		t.Run(m.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					asked++
					sleeper(w, q)
				}), indebted(m))
				r.do(r.client, request(t, nil, "GET /"))
				ids := map[string]bool{}
				for accept, json := range accepts {
					for _, c := range []*http.Client{r.client, r.h2c} {
						res, body := r.do(c, request(t, nil, "GET /", "Accept: "+accept))
						id := checkProblem(t, res, body, 429, json)
						ids[id] = true
						after, err := strconv.Atoi(res.Header.Get("Retry-After"))
						if err != nil || after < 1 {
							t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
						}
						for _, want := range []string{"Your address, 192.0.2.1, used more than its share", "try again in " + strconv.Itoa(after) + " s", id} {
							if !strings.Contains(body, want) {
								t.Errorf("%q is not in %q", want, body)
							}
						}
					}
				}
				if asked != 1 || r.handler.Policy().Meter.Running() != 0 {
					t.Errorf("the backend was asked %d times", asked)
				}
				for _, line := range r.lines()[1:] {
					if !ids[line["request"].(string)] || line["verdict"] != "refuse" || line["reason"] != "debt" || line["key"] != "192.0.2.1" || line["cost_ms"] != 0.0 {
						t.Errorf("access log: %v", line)
					}
				}
				if n := r.errors.Len(); n != 0 {
					t.Errorf("%d log lines: %v", n, r.errors.All())
				}
			})
		})
	}
}

// TestRefusedAsByOthers: in a domain with other gatekeepers a refusal may have their status;
// what clients are told, and when to come back, is as ever.
func TestRefusedAsByOthers(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			r := startVirtual(t, sleeper, fairly, func(s *setup) {
				s.classify.Classes = append(s.classify.Classes, classify.Class{Name: "api", By: classify.MappedAddress})
				s.limits.Classes = append(s.limits.Classes, limiter.ClassInfo{Name: "api", Budget: limiter.Budget{External: true, MaxHold: 5 * time.Second}})
			})
			p := *r.handler.Policy()
			p.Unavailable = map[string]bool{"api": status == 503}
			r.handler.SetPolicy(&p)
			r.do(r.client, request(t, nil, "GET /"))
			r.limiter.Raise(time.Now(), limiter.Key{Class: "api", ID: "::ffff:192.0.2.1"}, time.Now().Add(time.Minute))
			res, body := r.do(r.client, request(t, nil, "GET /", "Accept: application/json"))
			checkProblem(t, res, body, status, true)
			if after, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || after < 60 || !strings.Contains(body, `"class":"api"`) {
				t.Errorf("Retry-After %q, %s", res.Header.Get("Retry-After"), body)
			}
		})
	}
}

// TestRoomIsFull fills the waiting room.
func TestRoomIsFull(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
		t.Run(m.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, sleeper, mode(m), func(s *setup) {
					s.limits.Classes[0].Budget.CPUs, s.limits.MaxHold, s.limits.MaxHeld = 0.1, time.Minute, 2
				})
				// The second and the third are held for 10 s or more.
				done := make(chan int, 3)
				for range 3 {
					go func() {
						res, _ := r.do(r.client, request(t, nil, "GET /"))
						done <- res.StatusCode
					}()
					synctest.Wait() // one after the other: of a client that nobody knows two may slip in together
				}
				time.Sleep(1500 * time.Millisecond)
				if r.limiter.Held() < 2 {
					t.Fatalf("%d are held, want a full room", r.limiter.Held())
				}
				res, body := r.do(r.client, request(t, nil, "GET /"))
				if res.StatusCode != 503 || !strings.Contains(body, "This server has as many requests waiting as it can hold.") || res.Header.Get("Retry-After") == "" {
					t.Errorf("got %d %q, %v", res.StatusCode, body, res.Header)
				}
				for range 3 {
					if status := <-done; status != 200 {
						t.Errorf("one of those before got %d", status)
					}
				}
			})
		})
	}
}

// TestRefusedUpload checks that a refusal is not behind a body that never comes.
func TestRefusedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, indebted(limiter.Cap))
		r.do(r.client, request(t, nil, "GET /"))
		c := r.dial()
		go func() { send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf of it") }()
		from := time.Now()
		res := answerOn(t, c)
		if res.StatusCode != 429 || !res.Close || time.Since(from) != 0 {
			t.Errorf("got %d, close %t after %s", res.StatusCode, res.Close, time.Since(from))
		}
	})
}

func TestShadowAndObserveActOnNothing(t *testing.T) {
	for name, change := range map[string]func(*setup){
		"observe":            indebted(limiter.Observe),
		"shadow cap":         func(s *setup) { indebted(limiter.Cap)(s); s.limits.Shadow = true },
		"shadow cooperative": func(s *setup) { indebted(limiter.Cooperative)(s); s.limits.Shadow = true },
		"exempt cap":         func(s *setup) { indebted(limiter.Cap)(s); exempt("/free/*")(s) },
		"exempt cooperative": func(s *setup) { indebted(limiter.Cooperative)(s); exempt("/free/*")(s) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, sleeper, change)
				for range 5 {
					from := time.Now()
					res, _ := r.do(r.client, request(t, nil, "GET /free/x"))
					if took := time.Since(from); res.StatusCode != 200 || took != time.Second {
						t.Errorf("got %d after %s", res.StatusCode, took)
					}
				}
				var charged []float64
				r.limiter.Dump(time.Now(), "", func(row limiter.Row) bool { charged = append(charged, row.Level); return true })
				if exempt := strings.HasPrefix(name, "exempt"); exempt != (len(charged) == 0) {
					t.Errorf("levels %v", charged)
				}
				for i, line := range r.lines() {
					if shadow, _ := line["shadow"].(bool); shadow != (i > 0 && strings.HasPrefix(name, "shadow")) {
						t.Errorf("line %d: %v", i, line)
					}
				}
			})
		})
	}
}

// TestJitter checks that Retry-After is never too early, nor more than a quarter
// and a second too late, and that it differs.
func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))
		s := jitter(wait)
		got := time.Duration(s) * time.Second
		if s < 1 || got < wait || got > wait+wait/4+time.Second {
			t.Fatalf("%s became %d s", wait, s)
		}
	})
	seen := map[int]bool{}
	for range 100 {
		seen[jitter(100*time.Second)] = true
	}
	if len(seen) < 2 {
		t.Error("100 clients return in the same second")
	}
}
