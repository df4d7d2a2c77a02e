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

// TestGossip has two sidecars share accounts, encrypted, and rotates the secret while they do.
func TestGossip(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(backend.Close)
	former, latter := strings.Repeat("a", 43)+"=", strings.Repeat("b", 43)+"="
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(lines ...string) { writeFile(t, secret, strings.Join(lines, "\n")) }
	write(former)
	addresses := []string{"127.0.0.1:" + freePort(t), "127.0.0.1:" + freePort(t)}
	var cars []*sidecarProcess
	for _, a := range addresses {
		cars = append(cars, startProxy(t, backend.URL, slowly+fmt.Sprintf(`
listen: 127.0.0.1:0
coordination:
  kind: gossip
  secret: %q
  gossip: {listen: %q, join: [%s]}
`, secret, a, strings.Join(addresses, ", "))))
	}
	for i, s := range cars {
		testkit.Eventually(t, "the doctor shows both sidecars", func() bool {
			_, out, _ := s.doctor("status")
			return strings.Contains(out, "sidecars") && strings.Contains(out, addresses[1-i])
		})
	}
	read := make([]int, len(cars)) // of their logs
	at := func(d time.Duration) string { return latter + " " + time.Now().Add(d).UTC().Format(time.RFC3339) }
	for step, lines := range [][]string{{former}, {at(time.Hour), former}, {at(-time.Minute), former}, {at(-48 * time.Hour), former}} {
		write(lines...)
		for i, s := range cars {
			s.signal(syscall.SIGHUP)
			_, read[i] = s.stderr.Await(t, read[i], reloaded)
		}
		for i, s := range cars {
			client := fmt.Sprintf("198.51.100.%d", 10*step+i)
			s.get(client, "/")
			testkit.Eventually(t, "the other sidecar charges the same", func() bool {
				here, ok := s.account("slash32", client)
				there, known := cars[1-i].account("slash32", client)
				return ok && known && (here.Level-there.Level < 1e-4) && (there.Level-here.Level < 1e-4)
			})
		}
	}
	if strings.Contains(cars[0].stderr.String(), "stays as it was") {
		t.Error("the secret was not changed")
	}
	write()
	cars[0].signal(syscall.SIGHUP)
	cars[0].stderr.Await(t, read[0], "stays as it was")
}
