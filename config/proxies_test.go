package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// loadProxies loads a configuration that trusts the prefixes in a file.
func loadProxies(t *testing.T, file string) (*Config, error) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "t.yaml")
	testkit.WriteFile(t, conf, fmt.Sprintf("listen: \":8888\"\ntrustedProxies: [192.0.2.1, \"file:%s\"]\n", file), 0o600)
	return Load(conf, []string{"TEMPOMAT_BACKEND=http://127.0.0.1:80"})
}

func TestProxiesFile(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"Cloudflare's":        {"173.245.48.0/20\n103.21.244.0/22", "[192.0.2.1/32 173.245.48.0/20 103.21.244.0/22]"},
		"comments and blanks": {"# ours\n\n 10.0.0.1 # the balancer\r\n\t\n2001:db8::/32\n", "[192.0.2.1/32 10.0.0.1/32 2001:db8::/32]"},
		"mapped":              {"::ffff:10.0.0.0/104\n", "[192.0.2.1/32 10.0.0.0/8]"},
	} {
		file := filepath.Join(t.TempDir(), "list.txt")
		testkit.WriteFile(t, file, c.text, 0o600)
		got, err := loadProxies(t, file)
		if err != nil || fmt.Sprint(got.Trusted()) != c.want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, c.want)
		}
	}
}

func TestBadProxiesFile(t *testing.T) {
	many := func(n int, line string) string { return strings.Repeat(line, n) }
	for name, c := range map[string]struct{ text, want string }{
		"no prefix":      {"10.0.0.1\nhttp://x@y/\n", "list.txt:2: trustedProxies: http://***@y/: must be an address or a prefix"},
		"an error page":  {"<html>\n<b>503</b>\n", "list.txt:1: trustedProxies: <html>: must be"},
		"everybody":      {"# all\n0.0.0.0/0\n", "list.txt:2: trustedProxies: 0.0.0.0/0: would trust every client"},
		"empty":          {"", "list.txt: trustedProxies: contains no address"},
		"comments":       {"# nothing\n\n", "list.txt: trustedProxies: contains no address"},
		"escapes":        {"\x1b[2J\u202e1\n", `list.txt:1: trustedProxies: "\x1b[2J\u202e1": must be`},
		"too many":       {many(mostInFile+1, "10.0.0.1\n"), "list.txt:8193: trustedProxies: 10.0.0.1: is one prefix too many"},
		"too large":      {many(mostFileBytes, "#") + "\n", "t.yaml:2: trustedProxies: file:DIR/list.txt: is larger than 512 KiB"},
		"wrong all over": {many(1000, "x\n"), "list.txt:10: trustedProxies: x: must be"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "list.txt")
		testkit.WriteFile(t, file, c.text, 0o600)
		got, err := loadProxies(t, file)
		if err == nil || got != nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), c.want) {
			t.Fatalf("%s: %v, %v, want %s", name, got, err, c.want)
		}
		if n := strings.Count(err.Error(), "\n") + 1; n > mostFileFaults {
			t.Errorf("%s: %d lines of faults", name, n)
		}
	}
}

// TestNoProxiesFile tries files that can't be read, and names that aren't allowed.
func TestNoProxiesFile(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "none: no such file",
		dir:                        "isn't a regular file",
		"/dev/zero":                "isn't a regular file",
		"list.txt":                 "trustedProxies[1]: file:list.txt: must be \"file:\" and an absolute path",
		"":                         "trustedProxies[1]: file:: must be",
	} {
		if got, err := loadProxies(t, file); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", file, got, err, want)
		}
	}
}
