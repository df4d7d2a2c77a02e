package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestLogCommandsNoTerminal: what a client chose is in the log, and does nothing there.
func TestLogCommandsNoTerminal(t *testing.T) {
	for _, text := range []string{
		"/plain", "/é/世界/😀", "/\u009b31mred", "/\u202egnp.exe", "/a\x7fb\x1b[31m", "/\r\n\",\"fake\":1", "/\U000e0041\u2028", "/\ufeff\ufffd",
	} {
		var out bytes.Buffer
		l := NewLog(zapcore.AddSync(&out), zap.InfoLevel)
		l.Info("first", zap.String("path", text))
		l.Named("access").Info("second", zap.String("path", text))
		lines := strings.SplitAfter(out.String(), "\n")
		if len(lines) != 3 {
			t.Fatalf("%q makes %d lines", text, len(lines)-1)
		}
		for _, line := range lines[:2] {
			if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q: not printable at %d of %q", text, i, line)
			}
			var said struct{ Path string }
			if err := json.Unmarshal([]byte(line), &said); err != nil || said.Path != text {
				t.Errorf("%q became %q: %v", text, said.Path, err)
			}
		}
	}
}
