package acme

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/certificates"
)

// TestWithoutAuthority starts, and ends, where the authority does not answer: what is asked for
// has no certificate, and nothing waits for it.
func TestWithoutAuthority(t *testing.T) {
	s := listen(t)
	dir := storage(t)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.serve(t, Options{Hosts: []string{"site.example"}, Directory: "https://" + testkit.FreeAddress(t) + "/dir", Storage: dir, HTTP: s.port(s.plain)})
	for _, host := range []string{"site.example", "other.example"} {
		if _, err := s.ask(nil, host); err == nil {
			t.Errorf("%s: no error", host)
		}
		if c := s.issuer.Certificate(&tls.ClientHelloInfo{ServerName: host}); c != nil {
			t.Errorf("%s has a certificate", host)
		}
		q := httptest.NewRequest(http.MethodGet, "http://"+host+":80/.well-known/acme-challenge/token", nil)
		if w := httptest.NewRecorder(); s.issuer.Challenge(w, q) {
			t.Errorf("%s: a challenge that nobody has is answered: %s", host, w.Body)
		}
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		if c := s.issuer.Certificate(&tls.ClientHelloInfo{ServerName: host, SupportedProtos: []string{certificates.ChallengeProtocol}, Conn: near}); c != nil {
			t.Errorf("%s: a challenge that nobody has is shown", host)
		}
	}
	if all := s.issuer.States(); len(all) != 1 || all[0].Fault == "" || !all[0].Expires.IsZero() {
		t.Errorf("%+v", all)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
}

// TestUnfit has what cannot be.
func TestUnfit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Storage: file, HTTP: net.TCPAddr{Port: 80}}); err == nil {
		t.Error("a file is no directory")
	}
	if _, err := New(Options{Storage: t.TempDir()}); err == nil {
		t.Error("nobody can see that a host is this one")
	}
}
