package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for the terminal to show a text before it fails.
const patience = 30 * time.Second

// Terminal is a separate tmux server that runs one program. It ends with the test.
type Terminal struct {
	t      testing.TB
	socket string
}

// OpenTerminal runs a program (its path and its arguments) in a terminal of the given size in columns and
// lines. env contains name=value pairs to add to the test's own environment; the locale is UTF-8. When the
// program ends, the terminal shows "ended with" and its status, and stays open. If tmux isn't installed, the
// test is skipped, or fails in CI.
func OpenTerminal(t testing.TB, width, height int, env []string, program ...string) *Terminal {
	t.Helper()
	Program(t, "tmux")
	x := &Terminal{t: t, socket: filepath.Join(ShortDir(t), "sock")}
	words := append([]string{"env", "-u", "NO_COLOR", "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}, append(env, program...)...)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	x.Tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height),
		strings.Join(words, " ")+"; echo ended with $?; exec cat")
	t.Cleanup(func() { x.Tmux("kill-server") })
	return x
}

// Tmux runs a command of tmux on the terminal and returns what it prints.
func (x *Terminal) Tmux(args ...string) string {
	x.t.Helper()
	c := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...) //nolint:gosec // the test's own words
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := c.CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// Press presses keys, by tmux's names: q, Down, C-c.
func (x *Terminal) Press(keys ...string) {
	x.t.Helper()
	x.Tmux(append([]string{"send-keys"}, keys...)...)
}

// Screen returns the text that the terminal shows.
func (x *Terminal) Screen() string {
	x.t.Helper()
	return x.Tmux("capture-pane", "-p")
}

// coloured returns what the terminal shows, with the escape sequences of its colours.
func (x *Terminal) coloured() string {
	x.t.Helper()
	return x.Tmux("capture-pane", "-p", "-e")
}

// Shows waits until the terminal shows a text, and returns the whole screen.
func (x *Terminal) Shows(text string) string {
	x.t.Helper()
	return x.Until("shows "+text, func(screen string) bool { return strings.Contains(screen, text) })
}

// Until waits until is returns true for the terminal's screen, and returns that screen.
func (x *Terminal) Until(what string, is func(screen string) bool) string {
	x.t.Helper()
	return x.until(what, x.Screen, is)
}

// UntilColoured does what Until does, with the escape sequences of the colours. It returns the same screen that
// it passed to is. A second look may differ, because the program may redraw the screen at any time, for example
// when it learns the terminal's size.
func (x *Terminal) UntilColoured(what string, is func(screen string) bool) string {
	x.t.Helper()
	return x.until(what, x.coloured, is)
}

func (x *Terminal) until(what string, look func() string, is func(screen string) bool) string {
	x.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		screen := look()
		if is(screen) {
			return screen
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("timed out: %s; the terminal shows\n%s", what, screen)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
