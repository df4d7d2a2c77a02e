package certificates

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
)

// site is a Store of files in a directory of the test.
type site struct {
	*Store
	t    *testing.T
	dir  string
	ca   *testkit.Authority
	logs *observer.ObservedLogs
	now  time.Time
}

func newSite(t *testing.T) *site {
	core, logs := observer.New(zapcore.InfoLevel)
	return &site{Store: New(zap.New(core)), t: t, dir: t.TempDir(), ca: testkit.NewAuthority(t), logs: logs, now: time.Now()}
}

// put writes a certificate and its key, valid for so many days.
func (s *site) put(certificate, key string, days int, names ...string) {
	s.t.Helper()
	c, k := s.ca.Issue(s.t, s.now.Add(time.Duration(days)*24*time.Hour), names...)
	testkit.WriteCertificate(s.t, c, k, filepath.Join(s.dir, certificate), filepath.Join(s.dir, key))
}

func (s *site) load(sources ...Source) {
	s.t.Helper()
	if err := s.Load(sources); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) pair(name string) Source {
	return Source{Certificate: filepath.Join(s.dir, name+".crt"), Key: filepath.Join(s.dir, name+".key")}
}

// shown is the name of the certificate that a client is shown.
func (s *site) shown(server string) string {
	s.t.Helper()
	c, err := s.choose(s.now, &tls.ClientHelloInfo{
		ServerName: server, SupportedVersions: []uint16{tls.VersionTLS13},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
	}, nil)
	if err != nil {
		return err.Error()
	}
	return c.Leaf.Subject.CommonName
}

func TestChoice(t *testing.T) {
	s := newSite(t)
	s.put("a.crt", "a.key", 90, "a.example", "www.a.example")
	s.put("b.crt", "b.key", 90, "b.example", "*.b.example")
	s.put("old.crt", "old.key", -1, "two.example", "gone.example")
	s.put("two.crt", "two.key", 90, "two.example")
	s.put("ip.crt", "ip.key", 90, "203.0.113.5", "127.0.0.1")
	s.load(s.pair("a"), s.pair("b"), s.pair("old"), s.pair("two"), s.pair("ip"))
	for server, want := range map[string]string{
		"a.example": "a.example", "WWW.A.example": "a.example", "a.example.": "a.example",
		"b.example": "b.example", "x.b.example": "b.example", "x.y.b.example": "a.example",
		"two.example":  "two.example",
		"gone.example": "two.example", // of that name: an expired one tells more than another site's
		"c.example":    "a.example", "": "a.example", "example": "a.example", "*.b.example": "b.example",
	} {
		got := s.shown(server)
		if server == "gone.example" {
			c, _ := s.Certificate(s.now, &tls.ClientHelloInfo{ServerName: server})
			if !slices.Contains(c.Leaf.DNSNames, server) {
				t.Errorf("%s: %v", server, c.Leaf.DNSNames)
			}
			continue
		}
		if got != want {
			t.Errorf("%q is shown %s, want %s", server, got, want)
		}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for address, want := range map[string]string{"203.0.113.5": "203.0.113.5", "203.0.113.6": "a.example"} {
		c, err := s.choose(s.now, &tls.ClientHelloInfo{Conn: at{near, address}}, nil)
		if err != nil || c.Leaf.Subject.CommonName != want {
			t.Errorf("at %s: %v, %v", address, c, err)
		}
	}
	if got := newSite(t).shown("a.example"); got != ErrNone.Error() {
		t.Errorf("without certificates: %s", got)
	}
}

// at is a connection to an address.
type at struct {
	net.Conn
	address string
}

func (a at) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.address), Port: 443} }

// TestDirectories finds the pairs of those who make them.
func TestDirectories(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string // certificate and key in turn
		more  []string // other files, with nothing of use
		below string   // the directory that is named
		want  []string // certificates
		fails string
	}{
		"certbot": {
			files: []string{"live/b/fullchain.pem", "live/b/privkey.pem", "live/a/fullchain.pem", "live/a/privkey.pem"},
			more:  []string{"live/README", "live/a/cert.pem", "live/a/chain.pem", "live/a/README"}, below: "live",
			want: []string{"live/a/fullchain.pem", "live/b/fullchain.pem"},
		},
		"one of certbot": {
			files: []string{"live/a/fullchain.pem", "live/a/privkey.pem"}, more: []string{"live/a/cert.pem"}, below: "live/a",
			want: []string{"live/a/fullchain.pem"},
		},
		"pairs": {
			files: []string{"b.crt", "b.key", "a.pem", "a.key"}, more: []string{"b.issuer.crt", "b.json", ".hidden.crt", ".hidden.key", "c.key"},
			want: []string{"a.pem", "b.crt"},
		},
		"Kubernetes": {
			files: []string{"..2026/tls.crt", "..2026/tls.key", "tls.crt", "tls.key"}, want: []string{"tls.crt"},
		},
		"nothing": {more: []string{"a.pem", "b.txt"}, fails: "no certificate with its key"},
		"missing": {below: "nowhere", fails: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			for i := 0; i < len(tc.files); i += 2 {
				s.put(tc.files[i], tc.files[i+1], 90, "a.example")
			}
			for _, f := range tc.more {
				if err := os.WriteFile(filepath.Join(s.dir, f), []byte("no certificate"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := s.Load([]Source{{Path: filepath.Join(s.dir, tc.below)}})
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want %s", err, tc.fails)
				}
				return
			}
			var got []string
			for _, state := range s.States() {
				rel, _ := filepath.Rel(s.dir, state.Certificate)
				got = append(got, rel)
			}
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestRenewal has files change, also in parts.
func TestRenewal(t *testing.T) {
	s := newSite(t)
	s.put("a.crt", "a.key", 90, "old.example", "a.example")
	s.load(s.pair("a"))
	show := func(when, want string) {
		t.Helper()
		s.now = s.now.Add(every)
		s.Look()
		if got := s.shown("a.example"); got != want {
			t.Errorf("%s: %s is shown, want %s", when, got, want)
		}
	}
	show("unchanged", "old.example")
	s.put("new.crt", "new.key", 90, "new.example", "a.example")
	certificate, key := filepath.Join(s.dir, "a.crt"), filepath.Join(s.dir, "a.key")
	data, _ := os.ReadFile(filepath.Join(s.dir, "new.crt"))
	secret, _ := os.ReadFile(filepath.Join(s.dir, "new.key"))
	for what, part := range map[string][]byte{"half": data[:len(data)/2], "empty": nil, "garbage": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "whole, without its key": data} {
		if err := os.WriteFile(certificate, part, 0o600); err != nil {
			t.Fatal(err)
		}
		show(what, "old.example")
		faults := taken(s.logs, "the one before stays")
		if len(faults) != 1 || faults[0].ContextMap()["certificate"] != certificate || faults[0].ContextMap()["error"] == "" {
			t.Errorf("%s: logged %v", what, faults)
		}
		if state := s.States()[0]; state.Fault == "" || state.Expires.IsZero() {
			t.Errorf("%s: %+v", what, state)
		}
		show(what+", again", "old.example")
		if again := taken(s.logs, "the one before stays"); len(again) != 0 {
			t.Errorf("%s: logged again", what)
		}
	}
	_ = os.Remove(certificate)
	show("missing", "old.example")
	_ = os.WriteFile(certificate, data, 0o600)
	_ = os.WriteFile(key, secret, 0o600)
	show("whole", "new.example")
	if state := s.States()[0]; state.Fault != "" {
		t.Errorf("%+v", state)
	}
}

// taken are the lines since the last call that have a text.
func taken(logs *observer.ObservedLogs, text string) []observer.LoggedEntry {
	return slices.DeleteFunc(logs.TakeAll(), func(e observer.LoggedEntry) bool { return !strings.Contains(e.Message, text) })
}

// TestDirectoryChanges has certificates come and go, and links led elsewhere as certbot does.
func TestDirectoryChanges(t *testing.T) {
	s := newSite(t)
	live := filepath.Join(s.dir, "live")
	link := func(version string) {
		t.Helper()
		s.put("archive/a/fullchain"+version+".pem", "archive/a/privkey"+version+".pem", 90, version+".example", "a.example")
		_ = os.MkdirAll(filepath.Join(live, "a"), 0o700)
		for _, f := range []string{"fullchain", "privkey"} {
			_ = os.Remove(filepath.Join(live, "a", f+".pem"))
			if err := os.Symlink(filepath.Join("../../archive/a", f+version+".pem"), filepath.Join(live, "a", f+".pem")); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func() { s.now = s.now.Add(every); s.Look() }
	link("1")
	s.load(Source{Path: live})
	link("2")
	look()
	if got := s.shown("a.example"); got != "2.example" {
		t.Errorf("renewed: %s", got)
	}
	s.put("live/b/fullchain.pem", "live/b/privkey.pem", 90, "b.example")
	look()
	if got := s.shown("b.example"); got != "b.example" {
		t.Errorf("another one: %s", got)
	}
	hidden := filepath.Join(s.dir, "hidden")
	_ = os.Rename(filepath.Join(live, "b"), hidden)
	look()
	if got := s.shown("b.example"); got != "b.example" {
		t.Errorf("missing for a moment: %s", got)
	}
	_ = os.Rename(hidden, filepath.Join(live, "b"))
	look()
	_ = os.RemoveAll(filepath.Join(live, "b"))
	look()
	look()
	if got := s.shown("b.example"); got != "2.example" {
		t.Errorf("removed: %s", got)
	}
	_ = os.Rename(live, hidden)
	for range 3 {
		look()
	}
	if got := s.shown("a.example"); got != "2.example" {
		t.Errorf("the directory is missing: %s", got)
	}
	if n := s.logs.FilterMessage("certificates cannot be read").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestPublicKey: a key that everybody can read is told of as it is read.
func TestPublicKey(t *testing.T) {
	s := newSite(t)
	s.put("b.crt", "b.key", 400, "b.example")
	if err := os.Chmod(filepath.Join(s.dir, "b.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.load(s.pair("b"))
	s.Look()
	if n := s.logs.FilterMessageSnippet("can read a private key").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// TestOneBroken has the others be in force.
func TestOneBroken(t *testing.T) {
	s := newSite(t)
	s.put("a.crt", "a.key", 90, "a.example")
	err := s.Load([]Source{s.pair("missing"), s.pair("a"), s.pair("a")})
	if err == nil || !strings.Contains(err.Error(), "missing.crt") {
		t.Errorf("got %v", err)
	}
	if got := s.shown("a.example"); got != "a.example" || len(s.States()) != 2 {
		t.Errorf("%s is shown, of %+v", got, s.States())
	}
	if err := s.Load([]Source{s.pair("missing")}); err == nil {
		t.Error("no error")
	}
	if got := s.shown("a.example"); got != "a.example" {
		t.Errorf("after sources without any: %s", got)
	}
}

// TestPipe has a pipe in the place of a key: nobody waits for somebody to write to it.
func TestPipe(t *testing.T) {
	s := newSite(t)
	s.put("a.crt", "a.key", 90, "a.example")
	key := filepath.Join(s.dir, "a.key")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Load([]Source{{Path: s.dir}}); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Errorf("got %v", err)
	}
}
