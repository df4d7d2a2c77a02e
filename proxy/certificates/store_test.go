package certificates

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"runtime"
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

// site is a Store whose files are in a directory of the test.
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

// put writes a certificate, valid for the given number of days, and its key.
func (s *site) put(certificate, key string, days int, names ...string) {
	s.t.Helper()
	c, k := s.ca.Issue(s.t, s.now.Add(time.Duration(days)*24*time.Hour), names...)
	testkit.WriteCertificate(s.t, c, k, filepath.Join(s.dir, certificate), filepath.Join(s.dir, key))
}

func (s *site) load(sources ...Source) {
	s.t.Helper()
	testkit.Must(s.t, s.Load(sources))
}

func (s *site) pair(name string) Source {
	return Source{Certificate: filepath.Join(s.dir, name+".crt"), Key: filepath.Join(s.dir, name+".key")}
}

// shown returns the name of the certificate that a client gets.
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
	s.put("old.crt", "old.key", -1, "two.example", "gone.example", "x.b.example")
	s.put("two.crt", "two.key", 90, "two.example")
	s.load(s.pair("a"), s.pair("b"), s.pair("old"), s.pair("two"))
	for server, want := range map[string]string{
		"a.example": "a.example", "WWW.A.example": "a.example", "a.example.": "a.example",
		"b.example": "b.example", "x.b.example": "b.example", "x.y.b.example": "a.example",
		"two.example":  "two.example",
		"gone.example": "two.example", // an expired certificate for the name helps the user more than another site's certificate
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
		testkit.Same(t, want, got, "%q is shown", server)
	}
	testkit.Same(t, ErrNone.Error(), newSite(t).shown("a.example"), "without certificates")
}

// TestDirectories: the pairs in the directories of various programs are found.
func TestDirectories(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string // certificates and keys, alternating
		more  []string // other files, which hold no usable certificates
		below string   // configured directory
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
				testkit.Must(t, os.WriteFile(filepath.Join(s.dir, f), []byte("no certificate"), 0o600))
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

// TestRenewal: changed files are read again, even if only parts of them have changed.
func TestRenewal(t *testing.T) {
	s := newSite(t)
	s.put("a.crt", "a.key", 90, "old.example", "a.example")
	s.load(s.pair("a"))
	show := func(when, want string) {
		t.Helper()
		s.now = s.now.Add(every)
		s.Look()
		testkit.Same(t, want, s.shown("a.example"), "%s: shown", when)
	}
	show("unchanged", "old.example")
	s.put("new.crt", "new.key", 90, "new.example", "a.example")
	certificate, key := filepath.Join(s.dir, "a.crt"), filepath.Join(s.dir, "a.key")
	data, _ := os.ReadFile(filepath.Join(s.dir, "new.crt"))
	secret, _ := os.ReadFile(filepath.Join(s.dir, "new.key"))
	for what, part := range map[string][]byte{"half": data[:len(data)/2], "garbage": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "whole, without its key": data} {
		testkit.Must(t, os.WriteFile(certificate, part, 0o600))
		show(what, "old.example")
		faults := taken(s.logs, "the previous one stays in use")
		if len(faults) != 1 || faults[0].ContextMap()["certificate"] != certificate || faults[0].ContextMap()["error"] == "" {
			t.Errorf("%s: logged %v", what, faults)
		}
		if state := s.States()[0]; state.Fault == "" || state.Expires.IsZero() {
			t.Errorf("%s: %+v", what, state)
		}
		show(what+", again", "old.example")
		testkit.Same(t, 0, len(taken(s.logs, "the previous one stays in use")), "%s: logged again", what)
	}
	_ = os.Remove(certificate)
	show("missing", "old.example")
	_ = os.WriteFile(certificate, data, 0o600)
	_ = os.WriteFile(key, secret, 0o600)
	show("whole", "new.example")
	testkit.Same(t, "", s.States()[0].Fault, "fault")
}

// taken returns the log lines since the last call that contain a text.
func taken(logs *observer.ObservedLogs, text string) []observer.LoggedEntry {
	return slices.DeleteFunc(logs.TakeAll(), func(e observer.LoggedEntry) bool { return !strings.Contains(e.Message, text) })
}

// TestDirectoryChanges: certificates appear and disappear, and links change as certbot changes them.
func TestDirectoryChanges(t *testing.T) {
	s := newSite(t)
	live := filepath.Join(s.dir, "live")
	link := func(version string) {
		t.Helper()
		s.put("archive/a/fullchain"+version+".pem", "archive/a/privkey"+version+".pem", 90, version+".example", "a.example")
		_ = os.MkdirAll(filepath.Join(live, "a"), 0o700)
		for _, f := range []string{"fullchain", "privkey"} {
			_ = os.Remove(filepath.Join(live, "a", f+".pem"))
			testkit.Must(t, os.Symlink(filepath.Join("../../archive/a", f+version+".pem"), filepath.Join(live, "a", f+".pem")))
		}
	}
	look := func() { s.now = s.now.Add(every); s.Look() }
	link("1")
	s.load(Source{Path: live})
	link("2")
	look()
	testkit.Same(t, "2.example", s.shown("a.example"), "renewed")
	s.put("live/b/fullchain.pem", "live/b/privkey.pem", 90, "b.example")
	look()
	testkit.Same(t, "b.example", s.shown("b.example"), "another one")
	hidden := filepath.Join(s.dir, "hidden")
	_ = os.Rename(filepath.Join(live, "b"), hidden)
	look()
	testkit.Same(t, "b.example", s.shown("b.example"), "missing for a moment")
	_ = os.Rename(hidden, filepath.Join(live, "b"))
	look()
	_ = os.RemoveAll(filepath.Join(live, "b"))
	look()
	look()
	testkit.Same(t, "2.example", s.shown("b.example"), "removed")
	_ = os.Rename(live, hidden)
	for range 3 {
		look()
	}
	testkit.Same(t, "2.example", s.shown("a.example"), "the directory is missing")
	testkit.Same(t, 1, s.logs.FilterMessage("certificates can't be read").Len(), "times logged")
}

// TestUnreadableSubdirectory: while a subdirectory can't be listed, the pairs outside it and those found in it
// earlier are used.
func TestUnreadableSubdirectory(t *testing.T) {
	if os.Geteuid() == 0 { // root can list every directory
		runtime.LockOSThread() // never unlocked, so the thread ends with the test
		testkit.Must(t, syscall.Setfsuid(65534))
	}
	s := newSite(t)
	s.put("b.crt", "b.key", 90, "b.example")
	s.put("a/a.crt", "a/a.key", 90, "a.example")
	closed := filepath.Join(s.dir, "a")
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	closes := func(mode os.FileMode) { testkit.Must(t, os.Chmod(closed, mode)) }
	closes(0o300)
	testkit.Same(t, true, s.Load([]Source{{Path: s.dir}}) != nil, "an error")
	testkit.Same(t, "b.example", s.shown("a.example"), "at first")
	closes(0o700)
	s.Look()
	closes(0o300)
	s.put("c.crt", "c.key", 90, "c.example")
	s.Look()
	s.Look()
	testkit.Same(t, "a.example c.example", s.shown("a.example")+" "+s.shown("c.example"), "shown")
	testkit.Same(t, 3, len(s.States()), "pairs")
}

// TestPublicKey: when a key is read that every user can read, a warning is logged.
func TestPublicKey(t *testing.T) {
	s := newSite(t)
	s.put("b.crt", "b.key", 400, "b.example")
	testkit.Must(t, os.Chmod(filepath.Join(s.dir, "b.key"), 0o644))
	s.load(s.pair("b"))
	s.Look()
	testkit.Same(t, 1, s.logs.FilterMessageSnippet("can read a private key").Len(), "times logged")
}

// TestOneBroken: if one pair is broken, the other pairs are used.
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
	testkit.Same(t, "a.example", s.shown("a.example"), "after sources without any")
}

// TestPipe: reading a key never waits for a writer, even if its file is a named pipe.
func TestPipe(t *testing.T) {
	s := newSite(t)
	s.put("a.crt", "a.key", 90, "a.example")
	key := filepath.Join(s.dir, "a.key")
	testkit.Must(t, os.Remove(key))
	testkit.Must(t, syscall.Mkfifo(key, 0o600))
	if err := s.Load([]Source{{Path: s.dir}}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("got %v", err)
	}
}
