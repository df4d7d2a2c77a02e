package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress is a bar on a terminal that shows how much of a file was read. It is written
// what is read.
type progress struct {
	terminal   io.Writer
	done, size int64
	percent    int64 // that is shown
}

// progressOf makes a bar, if the file has a size and there is a terminal to show it on.
func progressOf(f *os.File, stderr io.Writer) *progress {
	terminal, ok := stderr.(*os.File)
	if !ok {
		return nil
	}
	if width, _ := terminalSize(terminal); width < barWidth+10 {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	return &progress{terminal: terminal, size: info.Size(), percent: -1}
}

const barWidth = 50

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if percent := min(100, 100*p.done/p.size); percent != p.percent {
		p.percent = percent
		full := int(percent) * barWidth / 100
		fmt.Fprintf(p.terminal, "\r[%s%s] %3d %%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), percent)
	}
	return len(b), nil
}

// clear takes the bar off the screen.
func (p *progress) clear() { fmt.Fprintf(p.terminal, "\r%s\r", strings.Repeat(" ", barWidth+9)) }
