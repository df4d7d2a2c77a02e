//go:build world

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestWorldFleetBehindHAProxy has a visitor with a cookie of the site come to three sidecars in turn. All know it,
// also while what they share through hangs, and one that was killed knows it again.
func TestWorldFleetBehindHAProxy(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if len(r.Cookies()) == 0 {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "0123456789abcdef0123456789abcdef"})
		}
	}))
	t.Cleanup(backend.Close)
	redis := testkit.StartRedis(t)
	yaml := fmt.Sprintf("trustedProxies: 127.0.0.1\ncoordination: {kind: redis, secret: %q, redis: {addresses: [%q]}}\n", newSecret(t), redis.Address)
	var cars []*sidecarProcess
	front := testkit.FreeAddress(t)
	config := fmt.Sprintf("listen www\n    mode http\n    balance roundrobin\n    bind %s\n    retries 3\n    option redispatch\n", front)
	for i := range 3 {
		cars = append(cars, startProxy(t, backend.URL, yaml+"listen: "+testkit.FreeAddress(t)+"\n"))
		config += fmt.Sprintf("    server s%d %s check inter 200ms\n", i, strings.TrimPrefix(cars[i].url, "http://"))
	}
	file := filepath.Join(tempDir(t), "haproxy.cfg")
	writeFile(t, file, haproxyHead+config)
	startProcess(t, nil, testkit.Program(t, "haproxy"), "-db", "-f", file)
	const person = "198.51.100.1"
	h := from(person)
	visit := func() bool { // that of a browser
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = h.Clone()
		res, err := newClient(t).Do(r)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		for _, c := range res.Cookies() {
			h.Set("Cookie", c.Name+"="+c.Value)
		}
		return res.StatusCode == http.StatusOK
	}
	known := func(s *sidecarProcess) bool {
		_, out, _ := s.doctor("explain", person)
		return strings.Contains(out, "a known client")
	}
	testkit.Eventually(t, "HAProxy finds the sidecars", visit)
	testkit.Eventually(t, "all know the visitor", func() bool {
		time.Sleep(200 * time.Millisecond)
		return visit() && known(cars[0]) && known(cars[1]) && known(cars[2])
	})
	redis.Pause()
	for range 12 {
		if !visit() {
			t.Error("while Redis hangs it is not served")
		}
	}
	for i, s := range cars {
		if !known(s) {
			t.Errorf("while Redis hangs sidecar %d has forgotten it", i)
		}
	}
	redis.Resume()
	testkit.Eventually(t, "they share again", func() bool {
		_, out, _ := cars[0].doctor("status")
		return strings.Contains(strings.Join(strings.Fields(out), " "), "connected true")
	})
	cars[0].signal(syscall.SIGKILL)
	cars[0].exit()
	again := startProxy(t, backend.URL, yaml+"listen: "+strings.TrimPrefix(cars[0].url, "http://")+"\n") // with nothing saved
	testkit.Eventually(t, "one that begins knows it", func() bool {
		time.Sleep(200 * time.Millisecond)
		return visit() && known(again)
	})
}
