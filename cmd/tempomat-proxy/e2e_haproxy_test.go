//go:build world

package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// regular is a browser with cookies that visits a fleet's site again and again.
type regular struct {
	address string

	mu        sync.Mutex // guards the fields below
	visits    int
	redirects int
	slowest   time.Duration // since the last check
	failures  []string      // since the last check
}

// browse visits the site until the context ends.
func (v *regular) browse(ctx context.Context, c *http.Client, site string) {
	h := clicked(v.address)
	for path := "/page.php?ms=1"; ctx.Err() == nil; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, site+path, nil)
		if err != nil {
			panic(err)
		}
		r.Header = h.Clone()
		began := time.Now()
		res, err := c.Do(r)
		if ctx.Err() != nil {
			return
		}
		v.mu.Lock()
		v.visits++
		v.slowest = max(v.slowest, time.Since(began))
		if err != nil {
			v.failures = append(v.failures, err.Error())
		} else if res.StatusCode == http.StatusFound {
			v.redirects++
		} else if res.StatusCode != http.StatusOK {
			v.failures = append(v.failures, res.Status)
		}
		v.mu.Unlock()
		if err == nil {
			for _, c := range res.Cookies() {
				h.Set("Cookie", c.Name+"="+c.Value)
			}
			_ = res.Body.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// count returns the number of the browser's visits.
func (v *regular) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.visits
}

// siege is a fleet behind HAProxy whose queue robots always keep full.
type siege struct {
	t        *testing.T
	site     string
	cars     []*sidecarProcess
	visitors []*regular
}

// pass waits until each visitor has made enough new visits, and checks them. None may fail except those on the way to
// an instance that ended, of which there may be lost.
func (s *siege) pass(what string, lost int) {
	s.t.Helper()
	var failures []string
	var slowest time.Duration
	from := make(map[*regular]int)
	for _, v := range s.visitors {
		from[v] = v.count()
	}
	for _, v := range s.visitors {
		testkit.Eventually(s.t, v.address+" visits", func() bool { return v.count() > from[v]+4 })
		v.mu.Lock()
		failures, slowest = append(failures, v.failures...), max(slowest, v.slowest)
		v.failures, v.slowest = nil, 0
		v.mu.Unlock()
	}
	s.t.Logf("%s: the slowest visit took %v, %d failed", what, slowest, len(failures))
	if len(failures) > lost {
		s.t.Errorf("%s: %q", what, failures)
	}
}

// known waits until all instances know all visitors, or reports which instance doesn't.
func (s *siege) known(wait bool) {
	s.t.Helper()
	for _, v := range s.visitors {
		for i, car := range s.cars {
			if wait {
				testkit.Eventually(s.t, v.address+" is known", func() bool {
					time.Sleep(100 * time.Millisecond)
					return car.knows(v.address)
				})
			} else if !car.knows(v.address) {
				s.t.Errorf("instance %d has forgotten %s", i, v.address)
			}
		}
	}
}

// TestWorldFleetBehindHAProxy: HAProxy sends visitors to three instances in turn, in front of an Apache that robots keep
// busy. All instances know the visitors, even while sharing hangs, is split or was killed. An instance that was killed
// knows them again. Each browser is redirected once, even if the secret is replaced in the meantime, and an instance
// with a different secret disturbs none of them.
func TestWorldFleetBehindHAProxy(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	for kind, open := range fleetWays() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			way, secret := open(t), newSecret(t)
			front := testkit.FreeAddress(t)
			config := fmt.Sprintf("listen www\n    mode http\n    balance roundrobin\n    bind %s\n    retries 3\n    option redispatch\n", front)
			start := func(n int, address, secret string) *sidecarProcess {
				return startProxyWith(t, []string{"TEMPOMAT_BACKEND_WORKERS=1"}, nil, backend.url, oneWorker+fmt.Sprintf(
					"listen: %q\ntrustedProxies: 127.0.0.1\ncoordination: {secret: %q, %s}\n", address, secret, way.of(n)))
			}
			s := &siege{t: t, site: "http://" + front}
			for i := range 3 {
				s.cars = append(s.cars, start(i, testkit.FreeAddress(t), secret))
				config += fmt.Sprintf("    server s%d %s check inter 200ms\n", i, strings.TrimPrefix(s.cars[i].url, "http://"))
			}
			file := filepath.Join(tempDir(t), "haproxy.cfg")
			testkit.ReplaceFile(t, file, haproxyHead+config)
			testkit.Start(t, nil, testkit.Program(t, "haproxy"), "-db", "-f", file).Listens(front)
			s.begin()

			s.known(true)
			s.pass("calm", 0)
			reads := s.logs()
			way.fail()
			s.await(reads, "can't share accounts; this instance")
			s.pass("cut off", 0)
			s.known(false)
			reads = s.logs()
			way.mend()
			s.await(reads, "sharing accounts")
			s.pass("together again", 0)
			address := strings.TrimPrefix(s.cars[0].url, "http://")
			s.cars[0].Signal(syscall.SIGKILL)
			s.cars[0].Exit()
			s.pass("one was killed", 2*len(s.visitors))
			s.cars[0] = start(0, address, secret) // without saved state
			s.known(true)
			s.pass("it is back", 0)
			replaceSecret(t, secret, s.cars...)
			s.pass("the secret was replaced", 0)
			s.known(false)
			reads = s.logs()
			began := time.Now()
			start(3, testkit.FreeAddress(t), newSecret(t)).Stderr.Await(t, 0, "a different coordination.secret")
			s.await(reads, "a different coordination.secret")
			t.Logf("another secret is told after %v", time.Since(began))
			s.pass("one has another secret", 0)
			s.known(false)
			for _, v := range s.visitors {
				if v.mu.Lock(); v.redirects > 1 {
					t.Errorf("%s was redirected %d times in %d visits", v.address, v.redirects, v.visits)
				}
				v.mu.Unlock()
			}
		})
	}
}

// begin starts the robots and visitors, which run until the test ends.
func (s *siege) begin() {
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	s.t.Cleanup(func() {
		end()
		all.Wait()
	})
	c := newClient(s.t)
	for i := range 6 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.site+"/sleep.php?ms=100", nil)
				r.Header = from(fmt.Sprintf("203.%d.%d.%d", i, n/200, n%200))
				if res, err := c.Do(r); err == nil {
					_ = res.Body.Close()
				} else {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	for i := range 3 {
		v := &regular{address: fmt.Sprintf("198.51.%d.1", i)}
		s.visitors = append(s.visitors, v)
		all.Go(func() { v.browse(ctx, c, s.site) })
	}
}

// logs returns the current lengths of the instances' logs.
func (s *siege) logs() (reads []int) {
	for _, car := range s.cars {
		reads = append(reads, car.Stderr.Len())
	}
	return reads
}

// await waits until all instances have logged a text after these lengths.
func (s *siege) await(reads []int, what string) {
	s.t.Helper()
	for i, car := range s.cars {
		car.Stderr.Await(s.t, reads[i], what)
	}
}
