package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/admintest"
)

// asDoctor is a variable that makes the test program run as the doctor, for tests that need a process.
const asDoctor = "TEMPOMAT_TEST_AS_DOCTOR"

// openTerminal runs the doctor with args in a terminal of the given size. env contains NAME=value pairs.
func openTerminal(t *testing.T, width, height int, env []string, args ...string) *testkit.Terminal {
	t.Helper()
	self, err := os.Executable()
	testkit.Must(t, err)
	return testkit.OpenTerminal(t, width, height, append(env, asDoctor+"=1"), append([]string{self}, args...)...)
}

// serveDocuments serves the documents of an attack on a socket.
func serveDocuments(t *testing.T) (s *admintest.Server, path string) {
	t.Helper()
	s, path = admintest.New(), socketPath(t)
	serveSocket(t, path, s)
	return s, path
}

// TestTopInATerminal: a real terminal shows the frames in the golden files.
func TestTopInATerminal(t *testing.T) {
	_, path := serveDocuments(t)
	x := openTerminal(t, 80, 24, nil, "top", "--socket", path)
	for i, pane := range []string{"overview", "keys", "pages", "queue", "verdicts"} {
		x.Press(strconv.Itoa(i + 1))
		x.Shows("[" + pane + "]")
		sameAs(t, x, "top-"+pane+"-80x24.golden")
	}
	x.UntilColoured("a green bar of the known", func(screen string) bool { return strings.Contains(screen, "\x1b[30m\x1b[42mkkk") })
	x.Press("q")
	x.Shows("ended with 0")
}

// sameAs waits until the terminal shows the frame in a golden file.
func sameAs(t *testing.T, x *testkit.Terminal, name string) {
	t.Helper()
	want := testkit.ReadFile(t, filepath.Join("..", "..", "testdata", "doctor", name))
	x.Until(name+":\n"+want, func(screen string) bool { return strings.TrimSpace(screen) == strings.TrimSpace(want) })
}

// TestTopLives: top explains a row, adapts to a different size, reports that the proxy doesn't answer, continues when
// the proxy answers again, pauses, and restores the terminal.
func TestTopLives(t *testing.T) {
	s, path := admintest.New(), socketPath(t)
	stop := serveSocket(t, path, s)
	x := openTerminal(t, 80, 24, []string{"NO_COLOR=1"}, "top", "-socket", path, "-interval", "200ms", "-pane", "keys")
	x.Shows("10.1.0.7")
	x.Press("Down", "Down", "Enter")
	x.Shows(`\x1b]0;owned\a\x1b[2J\u009b31m\u202egpj.\r\n検索`)
	x.Press("q")
	x.Tmux("resize-window", "-x", "140", "-y", "40")
	x.Shows("10.1.0.25")
	colours := x.UntilColoured("shows 10.1.0.25", func(screen string) bool { return strings.Contains(screen, "10.1.0.25") })
	for _, code := range []string{"\x1b[3", "\x1b[4", "\x1b[9"} {
		for digit := '0'; digit <= '8'; digit++ {
			if strings.Contains(colours, code+string(digit)+"m") {
				t.Errorf("a colour %q with NO_COLOR in %q", code+string(digit)+"m", colours)
			}
		}
	}
	stop()
	x.Shows("No answer since")
	x.Shows("there is no such socket")
	serveSocket(t, path, s)
	x.Shows("CPU 7.41 of 8 [kkk")
	x.Press("p")
	x.Shows("PAUSED")
	x.Press("C-c")
	x.Shows("ended with 0")
}

// TestTopInAPipe: without a terminal, or with a dumb one, top prints a single frame without colours.
func TestTopInAPipe(t *testing.T) {
	_, path := serveDocuments(t)
	env := []string{"LANG=C.UTF-8", "TERM=xterm-256color"}
	code, stdout, stderr := call(t, env, "top", "--socket", path)
	if code != 0 || stderr != "" || strings.ContainsAny(stdout, "\x1b\a") {
		t.Fatalf("status %d, %q, %q", code, stdout, stderr)
	}
	golden(t, "top-once.golden", stdout)
	x := openTerminal(t, 120, 60, []string{"TERM=dumb"}, "top", "--socket", path)
	got := x.Shows("ended with 0")
	if !strings.Contains(got, "CPU 7.41 of 8 [kkk") || strings.Contains(got, "? help") {
		t.Errorf("a dumb terminal got %q", got)
	}
}
