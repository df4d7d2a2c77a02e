package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/cmd/tempomat-doctor/internal/view/toptest"
	"tempomat/internal/testkit"
)

// asDoctor has the test program be the doctor, for tests that need a process of it.
const asDoctor = "TEMPOMAT_TEST_AS_DOCTOR"

// openTerminal runs the doctor with args in a terminal of a size. env is name=value.
func openTerminal(t *testing.T, width, height int, env []string, args ...string) *testkit.Terminal {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return testkit.OpenTerminal(t, width, height, append(env, asDoctor+"=1"), append([]string{self}, args...)...)
}

// serveDocuments serves the documents of an attack on a socket.
func serveDocuments(t *testing.T) (s *toptest.Server, path string) {
	t.Helper()
	s, path = toptest.New(), socketPath(t)
	listenDocuments(t, s, path)
	return s, path
}

// listenDocuments serves documents until the test ends or stop is called.
func listenDocuments(t *testing.T, s *toptest.Server, path string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestTopInATerminal: the frames that a real terminal shows are those that were drawn.
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

// sameAs waits until the terminal shows a golden, but for the sparklines, which go on.
func sameAs(t *testing.T, x *testkit.Terminal, name string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("..", "..", "testdata", "doctor", name))
	if err != nil {
		t.Fatal(err)
	}
	x.Until(name+":\n"+string(want), func(screen string) bool {
		return strings.TrimSpace(withoutSparks(screen)) == strings.TrimSpace(withoutSparks(string(want)))
	})
}

// withoutSparks is a frame without what stands beside the table of the groups.
func withoutSparks(frame string) string {
	lines := strings.Split(frame, "\n")
	for i := 2; i < min(8, len(lines)) && len(lines) > 20; i++ {
		lines[i] = strings.TrimRight(view.Cut(lines[i], 52), "~ ")
	}
	return strings.Join(lines, "\n")
}

// TestTopLives: it takes another size, says that the proxy is away and is there again when
// that is, explains, pauses, and leaves the terminal as it was.
func TestTopLives(t *testing.T) {
	s, path := toptest.New(), socketPath(t)
	stop := listenDocuments(t, s, path)
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
	x.Shows("No answer from the proxy for")
	x.Shows("there is no such socket")
	listenDocuments(t, s, path)
	x.Shows("CPU 7.41 of 8 [kkk")
	x.Press("p")
	x.Shows("PAUSED")
	x.Press("C-c")
	x.Shows("ended with 0")
}

// TestTopIsSuspended: it gives the terminal to the shell and takes it again, and nothing is
// typed into the shell meanwhile.
func TestTopIsSuspended(t *testing.T) {
	_, path := serveDocuments(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := testkit.OpenTerminal(t, 80, 24, []string{asDoctor + "=1", "PS1=shell: "}, "bash", "--norc", "-i")
	x.Press(self+" top --socket "+path, "Enter")
	x.Shows("[overview]")
	x.Press("C-z")
	x.Shows("Stopped")
	x.Press("fg", "Enter")
	x.Shows("[overview]")
	x.Press("3")
	x.Shows("[pages]")
	x.Press("q")
	x.Until("the shell's line is empty", func(screen string) bool { return strings.HasSuffix(strings.TrimSpace(screen), "shell:") })
	x.Press("stty -a | grep -c -- ' echo '", "Enter")
	x.Shows("\n1\n")
}

// TestTopInAPipe: one frame, without colours, the same for a terminal that is dumb.
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
