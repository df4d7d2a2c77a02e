//go:build world

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tempomat/config"
	"tempomat/internal/testkit"
)

// TestWorldTLSManual does what docs/tls.md says: its configurations are sound, so is HAProxy's, and its
// commands make a certificate that is served.
func TestWorldTLSManual(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/tls.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(language string) (all []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
		return all
	}
	yamls := blocks("yaml")
	for _, y := range yamls {
		if !strings.Contains(y, "listen:") { // it is about tls alone
			y += "listen: \":443 tls\"\n"
		}
		if _, err := config.Parse([]byte(y), "docs/tls.md", []string{"TEMPOMAT_BACKEND=http://127.0.0.1:8088"}); err != nil {
			t.Errorf("%v:\n%s", err, y)
		}
	}
	if len(yamls) < 4 {
		t.Errorf("%d configurations", len(yamls))
	}
	dir := tempDir(t)
	certificate, key := testkit.NewAuthority(t).Issue(t, time.Now().AddDate(0, 0, 1), "site.example")
	writeFile(t, filepath.Join(dir, "site.pem"), string(certificate)+string(key))
	for _, cfg := range blocks("haproxy") {
		file := filepath.Join(dir, "haproxy.cfg")
		writeFile(t, file, haproxyHead+strings.ReplaceAll(cfg, "/etc/haproxy", dir))
		if out, err := exec.Command(testkit.Program(t, "haproxy"), "-c", "-f", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	commands := strings.Split(strings.ReplaceAll(strings.ReplaceAll(blocks("sh")[0], "\\\n", ""), "/etc/tempomat", dir), "\n")
	backend, _, _ := pageBackend(t)
	for _, command := range commands {
		switch {
		case strings.HasPrefix(command, "curl "):
			s := startProxy(t, backend, fmt.Sprintf("listen: 127.0.0.1:0 tls\ntls: {certificates: %s}\n", dir))
			command = strings.Replace(command, "curl ", "curl -sS --noproxy '*' --connect-to localhost:443:"+strings.TrimPrefix(s.url, "http://")+" ", 1)
			if _, out, errs := execute(t, nil, "sh", "-c", command); out != "page" {
				t.Errorf("%s: %q\n%s", command, out, errs)
			}
		default:
			command = regexp.MustCompile(`chown root:tempomat \S+ && `).ReplaceAllString(command, "") // there may be no such group
			if status, _, errs := execute(t, nil, "sh", "-c", command); status != 0 {
				t.Errorf("%s: %s", command, errs)
			}
		}
	}
}
