package main

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// screen is how much there is to print on, in characters; 0 is without limit.
type screen struct{ width, height int }

// screenOf finds the size of the screen. watch has the output in a pipe and
// tells the size by COLUMNS and LINES; a terminal is asked; what is neither, a
// file or another program, takes all.
func screenOf(w io.Writer, env []string) screen {
	s := screen{width: size(env, "COLUMNS"), height: size(env, "LINES")}
	if f, ok := w.(*os.File); ok && (s.width == 0 || s.height == 0) {
		width, height := terminalSize(f)
		if s.width == 0 {
			s.width = width
		}
		if s.height == 0 {
			s.height = height
		}
	}
	return s
}

// size reads a variable that is a number above 0.
func size(env []string, name string) int {
	n, err := strconv.Atoi(variable(env, name))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// terminalSize asks a terminal (ioctl_tty(2), TIOCGWINSZ); 0, 0 is not one.
func terminalSize(f *os.File) (width, height int) {
	var answer struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&answer))) //nolint:gosec // the call's own form
	if errno != 0 {
		return 0, 0
	}
	return int(answer.columns), int(answer.rows)
}

// isTerminal says that the output is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, height := terminalSize(f)
	return height > 0
}

// fit shortens tables until they have room below one another: a row to each in
// turn, so that one with few rows leaves its room to the others. Each keeps at
// least one. Height 0 is without limit.
func fit(all []table, height int) {
	if height == 0 {
		return
	}
	const besides = 3                         // the class, the columns, a line between
	room := height - 2 - besides*len(all) + 1 // two lines are watch's own
	given := make([]int, len(all))
	for more, first := true, true; more && (first || room > 0); first = false {
		more = false
		for i, t := range all {
			if given[i] < len(t.rows) && (first || room > 0) {
				given[i]++
				room--
				more = true
			}
		}
	}
	for i := range all {
		all[i].rows = all[i].rows[:given[i]]
	}
}
