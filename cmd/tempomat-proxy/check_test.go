package main

import (
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestCheckReadsCertificates: -check reports an error for faults that would prevent the proxy from starting, and a
// warning for faults that the proxy would only log.
func TestCheckReadsCertificates(t *testing.T) {
	dir := t.TempDir()
	authority := testkit.NewAuthority(t)
	write := func(name string, until time.Duration) {
		certificate, key := authority.Issue(t, time.Now().Add(until), name+".example")
		testkit.WriteCertificate(t, certificate, key, filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	}
	write("good", 24*time.Hour)
	write("other", 24*time.Hour)
	write("old", -time.Hour)
	pair := func(certificate, key string) string {
		return fmt.Sprintf("{certificate: %s/%s, key: %s/%s}", dir, certificate, dir, key)
	}
	for name, c := range map[string]struct {
		certificates, rest string
		status             int
		out, errs          string
	}{
		"good":         {certificates: pair("good.crt", "good.key"), out: "good.crt for good.example, until 2"},
		"directory":    {certificates: dir, out: "other.crt for other.example"},
		"expired":      {certificates: pair("old.crt", "old.key"), out: "warning: tls.certificates: " + dir + "/old.crt has expired\n"},
		"wrong key":    {certificates: pair("good.crt", "other.key"), status: 1, errs: "private key does not match public key"},
		"none":         {certificates: "/nowhere", status: 1, errs: "no such file or directory"},
		"one of two":   {certificates: pair("good.crt", "good.key") + ", " + pair("good.crt", "other.key"), out: "warning: tls.certificates: " + dir + "/good.crt with "},
		"database":     {certificates: dir, rest: "databases: {asn: /nowhere/asn.mmdb}\nclasses: {asn: {share: 0.1}}\n", out: "warning: databases.asn: /nowhere/asn.mmdb"},
		"exemption":    {certificates: dir, rest: "exempt: [{header: X-A, secret: /absent}]\n", status: 1, errs: "exempt[0].secret: open /absent"},
		"redis":        {certificates: dir, rest: "coordination: {redis: {addresses: [127.0.0.1:1], password: /absent}}\n", status: 1, errs: "coordination.redis.password: open /absent"},
		"token":        {certificates: dir, rest: "admin: {web: \"127.0.0.1:1\", token: /absent}\n", out: "warning: admin.token: "},
		"gossip":       {certificates: dir, rest: "coordination: {kind: gossip, gossip: {join: [10.0.0.1:7946], keyFile: /absent}}\n", out: "warning: coordination.secret: stat /absent"},
		"error pages":  {certificates: dir, rest: "errorPages: {directory: /absent}\n", status: 1, errs: "errorPages.directory: open /absent"},
		"both at once": {certificates: "/nowhere", rest: "errorPages: {directory: /absent}\n", status: 1, errs: "/absent: no such file or directory\ntls.certificates: no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tempomat.yaml")
			testkit.ReplaceFile(t, file, fmt.Sprintf("backend: http://127.0.0.1:80\nlisten: [{address: \":443\", tls: true}]\ntls: {certificates: [%s]}\n%s", c.certificates, c.rest))
			var out, errs strings.Builder
			status := run(t.Context(), []string{"-check", "-config", file}, nil, &out, &errs)
			if status != c.status || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) || (status == 1) != (out.Len() == 0) {
				t.Errorf("status %d\n%s%s", status, &out, &errs)
			}
		})
	}
}

// TestCheckAsTheService: -check reports files that the service's user can't read, although root can read
// them.
func TestCheckAsTheService(t *testing.T) {
	testkit.Root(t, "only root can be somebody else")
	nobody, err := osuser.Lookup("nobody")
	testkit.Must(t, err)
	dir := testkit.ShortDir(t)
	testkit.Must(t, os.Chmod(dir, 0o755)) // lets all users enter the directory
	program := copyOf(t, program(t, "tempomat-proxy"), filepath.Join(dir, "tempomat-proxy"))
	certificate, key := testkit.NewAuthority(t).Issue(t, time.Now().Add(time.Hour), "www.example")
	file := filepath.Join(dir, "tempomat.yaml")
	for name, c := range map[string]struct {
		yaml      string
		keyMode   os.FileMode
		err, says string
		groups    []string // of the unit
	}{
		"all may be read":     {"", 0o644, "", "is valid", nil},
		"not the key":         {"", 0o600, "(user nobody) can't start with this configuration:\n", "", nil},
		"and why":             {"", 0o600, "permission denied", "", nil},
		"a group's key":       {"", 0o640, "permission denied", "", nil},
		"a group of the unit": {"", 0o640, "", "is valid", []string{"root"}},
		"not the secret":      {"exempt: [{header: X-Monitor, secret: " + dir + "/key.pem}]\n", 0o600, "chgrp tempomat " + dir + "/key.pem", "", nil},
		"only a warning":      {"databases: {asn: " + dir + "/key.pem}\nclasses: {asn: {share: 0.1}}\n", 0o600, "", "warning: databases.asn: ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.WriteCertificate(t, certificate, key, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
			err := errors.Join(os.Chmod(filepath.Join(dir, "cert.pem"), 0o644), os.Chmod(filepath.Join(dir, "key.pem"), c.keyMode))
			testkit.Must(t, err)
			yaml := "listen: [{address: \":443\", tls: true}]\ntls: {certificates: [{certificate: " + dir + "/cert.pem, key: " + dir + "/key.pem}]}\n"
			if c.yaml != "" {
				yaml = c.yaml
			}
			testkit.WriteFile(t, file, "backend: http://127.0.0.1:80\n"+yaml, 0o644)
			var out strings.Builder
			checked, err := (source{file: file}).checkAs(t.Context(), program, nobody, c.groups, &out, false)
			if !checked || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(out.String(), c.says) || (out.Len() == 0) != (c.says == "") {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
	testkit.Must(t, os.Chmod(program, 0o700))
	var out strings.Builder
	if checked, err := (source{file: file}).checkAs(t.Context(), program, nobody, nil, &out, false); checked || err != nil || !strings.HasPrefix(out.String(), "warning: checked as root") {
		t.Errorf("what cannot be tried: %v\n%s", err, &out)
	}
}
