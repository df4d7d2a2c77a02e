package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadProxies loads a configuration that trusts what is in a file.
func loadProxies(t *testing.T, file string) (*Config, error) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "t.yaml")
	write(t, conf, fmt.Sprintf("listen: \":8888\"\ntrustedProxies: [192.0.2.1, \"file:%s\"]\n", file))
	return Load(conf, []string{"TEMPOMAT_BACKEND=http://127.0.0.1:80"})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestProxiesFile(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"Cloudflare's":        {"173.245.48.0/20\n103.21.244.0/22", "[192.0.2.1/32 173.245.48.0/20 103.21.244.0/22]"},
		"comments and blanks": {"# ours\n\n 10.0.0.1 # the balancer\r\n\t\n2001:db8::/32\n", "[192.0.2.1/32 10.0.0.1/32 2001:db8::/32]"},
		"mapped":              {"::ffff:10.0.0.0/104\n", "[192.0.2.1/32 10.0.0.0/8]"},
	} {
		file := filepath.Join(t.TempDir(), "list.txt")
		write(t, file, c.text)
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
		"empty":          {"", "list.txt: trustedProxies: has no address"},
		"comments":       {"# nothing\n\n", "list.txt: trustedProxies: has no address"},
		"escapes":        {"\x1b[2J\u202e1\n", `list.txt:1: trustedProxies: "\x1b[2J\u202e1": must be`},
		"too many":       {many(mostInFile+1, "10.0.0.1\n"), "list.txt:8193: trustedProxies: 10.0.0.1: is one too many"},
		"too large":      {many(mostFileBytes, "#") + "\n", "t.yaml:2: trustedProxies: file:DIR/list.txt: is larger than 512 KiB"},
		"wrong all over": {many(1000, "x\n"), "list.txt:10: trustedProxies: x: must be"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "list.txt")
		write(t, file, c.text)
		got, err := loadProxies(t, file)
		if err == nil || got != nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), c.want) {
			t.Fatalf("%s: %v, %v, want %s", name, got, err, c.want)
		}
		if n := strings.Count(err.Error(), "\n") + 1; n > mostFileFaults {
			t.Errorf("%s: %d lines of faults", name, n)
		}
	}
}

// TestNoProxiesFile has files that cannot be read, and that cannot be named.
func TestNoProxiesFile(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "none: no such file",
		dir:                        "is no file",
		"/dev/zero":                "is no file",
		"list.txt":                 "trustedProxies[1]: file:list.txt: must be \"file:\" and an absolute path",
		"":                         "trustedProxies[1]: file:: must be",
	} {
		if got, err := loadProxies(t, file); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", file, got, err, want)
		}
	}
}

// TestProxiesFileChanged tells that a file has other prefixes than before, and not which.
func TestProxiesFileChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list.txt")
	write(t, file, "10.0.0.0/8\n")
	before, err := loadProxies(t, file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "10.0.0.0/8\n172.16.0.0/12\n")
	after, err := loadProxies(t, file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(Changed(before, after)), fmt.Sprintf("[{trustedProxies 192.0.2.1/32, file:%s (1) 192.0.2.1/32, file:%[1]s (2) false}]", file); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := Changed(after, after); len(got) != 0 {
		t.Errorf("nothing has changed: %v", got)
	}
}
