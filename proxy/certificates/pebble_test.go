//go:build world

package certificates_test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/certificates"
	"tempomat/proxy/certificates/pebbletest"
)

// TestWorldRenewalUnderLoad gets certificates from a real authority with both challenges, and renews them
// again and again. No client that connects in the meantime fails.
func TestWorldRenewalUnderLoad(t *testing.T) {
	for challenge, plain := range map[string]bool{"http-01": true, "tls-alpn-01": false} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			// In the whole process, the library renews a name only once at a time and remembers its failures.
			// If sites had names in common, one would skip the work of another.
			for site := 0; ; site++ {
				domain := fmt.Sprintf("%s-%d.example", challenge, site)
				if renewsUnderLoad(t, []string{domain, "www." + domain}, plain) {
					return
				}
				t.Logf("Pebble does not renew a certificate of %s: once more", domain)
			}
		})
	}
}

// renewsUnderLoad renews the certificates of two hosts twice. It returns false if Pebble can't renew a
// certificate that it issued.
func renewsUnderLoad(t *testing.T, hosts []string, plain bool) bool {
	t.Helper()
	// A certificate that is valid for less than five more checks is renewed at the next check, which is the
	// first one here.
	const valid, check = 40 * time.Second, 8 * time.Second
	s := listen(t)
	p := pebbletest.Start(t, s.port(s.plain).Port, s.port(s.secure).Port, valid)
	o := certificates.Authority{
		Hosts: hosts, Directory: p.Directory, Storage: storage(t), TLS: s.port(s.secure),
	}
	certificates.Set(&o, p.Roots, check)
	if plain {
		o.HTTP, o.TLS = s.port(s.plain), net.TCPAddr{}
	}
	s.serve(t, o)
	defer s.stop()
	testkit.Eventually(t, "there are certificates", func() bool {
		return !slices.ContainsFunc(s.issuer.States(), func(c certificates.State) bool { return c.Expires.IsZero() })
	})
	asked := 0
	renewed := map[string]map[string]bool{hosts[0]: {}, hosts[1]: {}} // serial numbers of each host
	pace := time.NewTicker(100 * time.Millisecond)                    // limits the clients, because other tests run at the same time
	defer pace.Stop()
	for len(renewed[hosts[0]]) < 3 || len(renewed[hosts[1]]) < 3 {
		for _, host := range hosts {
			c, err := s.ask(p.Issuers, host)
			if asked++; err != nil {
				t.Fatalf("%d handshakes, then: %v", asked, err)
			}
			if !pebbletest.Renews(c) {
				return false
			}
			renewed[host][c.SerialNumber.String()] = true
		}
		<-pace.C
	}
	if _, err := s.ask(p.Issuers, "other.example"); err == nil || strings.Contains(err.Error(), "EOF") {
		t.Errorf("a host that nobody has configured: %v", err)
	}
	if info, err := os.Stat(o.Storage); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	t.Logf("%d handshakes, none failed", asked)
	return true
}
