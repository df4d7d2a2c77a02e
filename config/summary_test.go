package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSummary(t *testing.T) {
	for file, want := range map[string]string{
		"": `listens on  :8888
backend     http://127.0.0.1:80
mode        fair
CPUs        2, as many as this machine has
a client    0.2 CPU-s/s per key (share 0.1 of 2 CPUs), burst 30s
admin API   unix:/run/tempomat/admin.sock
all other keys have their defaults
`,
		"{listen: [':80', ':81'], backend: 'unix:/run/a', throttle: {mode: observe, maxHold: 5s}, cpuCount: 2, admin: {listen: off}, " +
			"classes: {slash16: off}, via: me, gate: {light: 1s}}": `listens on  :80, :81
backend     unix:/run/a
mode        observe, delays nobody
CPUs        2
a client    0.2 CPU-s/s per key (share 0.1 of 2 CPUs), burst 30s
admin API   off
other than by default
  via               me   (default: none)
  throttle.maxHold  5s   (default: 30s)
  classes.slash16   off  (default: share 0.5, burst 30s)
warning: t.yaml:1: gate.light: has no effect any more; sizes are learnt
`,
	} {
		var b strings.Builder
		parse(t, file).Summary(&b, 2)
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestSummaryIsShort: however much is given, and however long it is.
func TestSummaryIsShort(t *testing.T) {
	var b strings.Builder
	c, err := Load("../testdata/config/good/full.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.State = "/" + strings.Repeat("x", 3000) + "\x1b[2J"
	c.Summary(&b, 2)
	if lines := strings.Count(b.String(), "\n"); lines != 6+1+mostDifferences+1 || !strings.HasSuffix(b.String(), " more\n") {
		t.Errorf("%d lines:\n%s", lines, &b)
	}
	c = Default()
	c.State = "/" + strings.Repeat("x", 3000) + "\x1b[2J"
	b.Reset()
	c.Summary(&b, 2)
	if !strings.Contains(b.String(), "  state  /xxx") || b.Len() > 1000 {
		t.Errorf("%d bytes:\n%s", b.Len(), &b)
	}
}
