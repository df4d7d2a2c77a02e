package sharing

import (
	"bytes"
	"encoding/base64"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

var dawn = time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)

// TestSecretFile: errors name the file and the line, and say what to do.
func TestSecretFile(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		fault      string
	}{
		{"one", good, 0o600, ""},
		{"with a comment and a time", "# x\n\n" + good + " 2026-11-25T08:00:00Z\n", 0o640, ""},
		{"readable by others", good, 0o644, "chmod 640"},
		{"writable by the group", good, 0o660, "chmod 640"},
		{"too short", base64.StdEncoding.EncodeToString(make([]byte, 31)), 0o600, "file:1: the secret must be at least 32"},
		{"not base64", "\npassword", 0o600, "file:2: the secret must be at least 32"},
		{"not a time", good + " tomorrow", 0o600, "file:1: tomorrow: must be the time"},
		{"empty", "", 0o600, "contains no secret"},
		{"only a comment", "# nothing\n", 0o600, "contains no secret"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		testkit.WriteFile(t, file, c.text, c.mode)
		_ = os.Chmod(file, c.mode) // whatever the umask is
		s, err := readSecret(file)
		if (err == nil) != (c.fault == "") || err != nil && (!strings.Contains(err.Error(), c.fault) || !strings.HasPrefix(err.Error(), "coordination.secret: "+file)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && !bytes.Equal(s.current, bytes.Repeat([]byte{1}, 32)) {
			t.Errorf("%s: %x", c.name, s.current)
		}
	}
	for _, file := range []string{"/nowhere/secret", t.TempDir()} {
		if _, err := readSecret(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSecretCommand creates a secret and rotates it again and again. The new one signs some minutes later, the previous
// one is accepted for a day, and the hashes stay the same.
func TestSecretCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	var out bytes.Buffer
	read := func() *Secret {
		t.Helper()
		s, err := readSecret(file)
		testkit.Must(t, err)
		return s
	}
	if err := MakeSecret(file, dawn, &out); err != nil || !strings.Contains(out.String(), fingerprint(read().current)) {
		t.Fatal(err, out.String())
	}
	if err := MakeSecret(file, dawn, &out); err == nil || !strings.Contains(err.Error(), "secret rotate") {
		t.Errorf("the file is replaced: %v", err)
	}
	if err := RotateSecret(file, dawn.Add(settle-time.Second), &out); err == nil || !strings.Contains(err.Error(), "was made or rotated") {
		t.Errorf("a new secret is rotated: %v", err)
	}
	first, hashes, now := read(), read().hashKey("clients"), dawn
	for range 3 {
		before := read()
		now = now.Add(48 * time.Hour)
		out.Reset()
		if err := RotateSecret(file, now, &out); err != nil || !strings.Contains(out.String(), "systemctl reload") {
			t.Fatal(err, out.String())
		}
		s := read()
		for _, c := range []struct {
			at             time.Duration
			signing, other []byte
		}{
			{0, before.current, s.current},
			{rollOut - time.Second, before.current, s.current},
			{rollOut, s.current, before.current},
			{rollOut + former - time.Second, s.current, before.current},
			{rollOut + former, s.current, s.current},
		} {
			if signing, other := s.at(now.Add(c.at)); !bytes.Equal(signing, c.signing) || !bytes.Equal(other, c.other) {
				t.Errorf("%v after the rotation %s signs, and %s verifies", c.at, fingerprint(signing), fingerprint(other))
			}
		}
		if bytes.Equal(s.current, before.current) || s.hashKey("clients") != hashes || s.salt() != first.salt() {
			t.Error("nothing was replaced, or the hashes were")
		}
		for at, want := range map[time.Duration]string{0: "until then", rollOut: "The previous one, " + fingerprint(before.current)} {
			out.Reset()
			if err := ShowSecret(file, now.Add(at), &out); err != nil || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), fingerprint(s.current)) {
				t.Errorf("%v later it shows %s, %v", at, out.String(), err)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
			t.Error(info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestTickets: tickets of both secrets, and those of the day before, are accepted.
func TestTickets(t *testing.T) {
	s := &Secret{current: []byte{1}, previous: []byte{2}, first: []byte{2}, from: dawn}
	today, tomorrow := s.tickets(dawn), s.tickets(dawn.Add(24*time.Hour-time.Second))
	if len(today) != 4 || today[0] == today[2] || tomorrow[1] != today[0] || tomorrow[3] != today[2] {
		t.Errorf("%x, %x", today, tomorrow)
	}
}

// TestReload: instances share known clients and accept each other's passes. A reload makes a rotated secret take effect,
// but an invalid secret, or that of another fleet, changes nothing.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "secret"), filepath.Join(dir, "other")
	var out bytes.Buffer
	now := time.Now()
	testkit.Must(t, MakeSecret(file, now.Add(-time.Hour), &out))
	testkit.Must(t, MakeSecret(other, now, &out))
	c := config.Default()
	c.Coordination.Secret = file
	core, logs := observer.New(zap.WarnLevel)
	s, err := New(c, zap.New(core))
	testkit.Must(t, err)
	judge := standing.New([16]byte{}, standing.Config{})
	var tickets [][32]byte
	clients := limiter.New(now, limiter.Policy{}, 1, nil).Known()
	own, others := newcomer.New(), newcomer.New()
	s.Trust(now, Trusted{clients, judge, own, func(keys [][32]byte) { tickets = keys }, nil})
	before, encrypts := s.Fingerprint(), tickets[0]
	if r := s.Reply(); before == "" || r.Known == nil {
		t.Errorf("%q, %+v", before, r)
	}
	clients.Add(0, "198.51.100.1")
	if s.exchange.Pack(now); s.exchange.State().Told != 1 {
		t.Error("the others are not told of a known client")
	}
	signing, otherKey := s.secret.at(now)
	others.SetKeys(derive(signing, passes), derive(otherKey, passes))
	request, redirect, visitor := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder(), classify.Result{Client: netip.MustParseAddr("198.51.100.2")}
	others.Redirect(now, redirect, request, &visitor)
	request.AddCookie(redirect.Result().Cookies()[0])
	testkit.Same(t, true, own.Verify(now, request, &visitor), "another instance's pass is valid")
	testkit.Must(t, RotateSecret(file, now, &out))
	s.Reload(limiter.Policy{})
	if s.Fingerprint() != before || tickets[0] != encrypts || logs.Len() > 0 {
		t.Errorf("the new secret signs before all can have it: %v", logs.All())
	}
	s.mu.Lock()
	s.deriveLocked(now.Add(rollOut))
	s.mu.Unlock()
	testkit.Same(t, true, own.Verify(now, request, &visitor), "another instance's pass is valid after a rotation")
	after := s.Fingerprint()
	if after == before || !strings.Contains(out.String(), after) || tickets[0] == encrypts || tickets[2] != encrypts {
		t.Errorf("%s, and then %s; %s", before, after, out.String())
	}
	for _, text := range []string{"nonsense", testkit.ReadFile(t, other)} {
		testkit.WriteFile(t, file, text, 0o600)
		n := logs.Len()
		if s.Reload(limiter.Policy{}); s.Fingerprint() != after || logs.Len() != n+1 {
			t.Errorf("%s: %s, %v", text, s.Fingerprint(), logs.All())
		}
	}
}
