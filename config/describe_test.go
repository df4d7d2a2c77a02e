package config

import (
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestDescribe(t *testing.T) {
	for file, want := range map[string]string{
		"": `listen         :8888
backend.url    http://127.0.0.1:80
cpuCount       0 (this machine's: 2)
throttle.mode  fair
admin.listen   unix:/run/tempomat/admin.sock
all other keys have their defaults

shares
  slash32    0.2 CPU-s/s per key (share 0.1 of 2 CPUs), burst 30s
  slash24    0.5 CPU-s/s per key (share 0.25 of 2 CPUs), burst 30s
  slash16    1 CPU-s/s per key (share 0.5 of 2 CPUs), burst 30s
  userAgent  0.2 CPU-s/s per key (share 0.1 of 2 CPUs), burst 2m
`,
		"{listen: [':80', ':81'], backend: 'unix:/run/a', throttle: {mode: observe, maxHold: 5s}, cpuCount: 2, admin: {listen: off}, " +
			"classes: {slash16: off, a: {path: true, share: 1, cap: true}}, gate: {light: 1s}}": `listen            :80, :81
backend.url       unix:/run/a
cpuCount          2
throttle.mode     observe
admin.listen      off
throttle.maxHold  5s                             (default: 30s)
classes.slash16   off                            (default: share 0.5, burst 30s)
classes.a         share 1, burst 30s, cap, path  (default: off)

shares
  slash32    0.2 CPU-s/s per key (share 0.1 of 2 CPUs), burst 30s
  slash24    0.5 CPU-s/s per key (share 0.25 of 2 CPUs), burst 30s
  slash16    off
  userAgent  0.2 CPU-s/s per key (share 0.1 of 2 CPUs), burst 2m
  a          2 CPU-s/s per key (share 1 of 2 CPUs), burst 30s, cap, path

warning: t.yaml:1: gate.light: has no effect any more; remove it: tempomat learns the value
`,
	} {
		var b strings.Builder
		parse(t, file).Describe(&b, 2, false)
		testkit.Same(t, want, b.String(), "%s", file)
	}
}

// TestDescriptionIsShort: the description stays short if many keys are set, and if their values are long.
func TestDescriptionIsShort(t *testing.T) {
	var b strings.Builder
	c, err := Load("../testdata/config/good/full.yaml", nil)
	testkit.Must(t, err)
	c.State = "/" + strings.Repeat("x", 3000) + "\x1b[2J"
	c.Describe(&b, 2, false)
	keys, _, _ := strings.Cut(b.String(), "\n\n")
	if lines := strings.Count(keys, "\n"); lines != 5+mostDifferences || !strings.HasSuffix(keys, " more keys") {
		t.Errorf("%d lines:\n%s", lines, &b)
	}
	c = Default()
	c.State = "/" + strings.Repeat("x", 3000) + "\x1b[2J"
	b.Reset()
	c.Describe(&b, 2, false)
	if !strings.Contains(b.String(), "\nstate          /xxx") || b.Len() > 1000 {
		t.Errorf("%d bytes:\n%s", b.Len(), &b)
	}
}
