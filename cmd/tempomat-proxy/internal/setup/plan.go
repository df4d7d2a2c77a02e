package setup

import (
	"fmt"
	"slices"
	"strings"
)

// Plan is what setup would do, and why it would not.
type Plan struct {
	Found     []string   // what there is, in plain words
	Obstacles []Obstacle // if there are any, nothing is changed
	Notes     []string   // what to know of the result
	Done      bool       // setup has been here; there is nothing to do

	Server  string   // the unit of the web server: apache2 or nginx
	Check   []string // the command that checks the server's configuration
	Config  string   // the path of tempomat's configuration
	Changes []Change
	Probes  []Probe // what has to answer afterwards as it did before
	// Before is how the proxy's unit was.
	Before Service
	// Reread is whether systemd has to read its units again.
	Reread bool
}

// Obstacle is something that setup does not understand, or must not touch.
type Obstacle struct {
	What, Why string
	Do        string // what a person should do
}

// Change is one file, link or permission.
type Change struct {
	Path    string // where it is, links followed
	Shown   string // as its server names it, if that is another path
	New     bool   // it is not there yet
	Before  string
	After   string
	Edits   []Edit  // how After comes from Before; none for a whole file
	Target  string  // it is a symbolic link to that
	Access  *Access // only its group and mode change, to these
	Was     *Access // what these were
	Backup  string  // where Before is kept
	Command string  // what people run for the same, such as "a2enmod remoteip"
}

// Edit replaces a line by others. Lines count from 1 and stand without their ends.
type Edit struct {
	Line int
	Old  string
	New  []string // none: the line goes
}

// Probe is a page that is asked for before and after.
type Probe struct {
	Port int
	TLS  bool
	Host string
}

// backupEnd marks what a file was before.
const backupEnd = ".before-tempomat"

// applyEdits exchanges lines. Each edit names the line that it expects.
func applyEdits(text string, edits []Edit) (string, error) {
	lines := strings.Split(text, "\n")
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b Edit) int { return b.Line - a.Line })
	for _, e := range edits {
		if e.Line < 1 || e.Line > len(lines) || lines[e.Line-1] != e.Old {
			return "", fmt.Errorf("line %d is not %q", e.Line, e.Old)
		}
		lines = slices.Replace(lines, e.Line-1, e.Line, e.New...)
	}
	return strings.Join(lines, "\n"), nil
}

// takeBack undoes edits in a text that somebody may have changed since: each group of
// new lines has to stand there exactly once.
func takeBack(text string, edits []Edit) (string, error) {
	lines := strings.Split(text, "\n")
	for _, e := range edits {
		at := -1
		for i := 0; i+len(e.New) <= len(lines); i++ {
			if !slices.Equal(lines[i:i+len(e.New)], e.New) {
				continue
			}
			if at >= 0 {
				return "", fmt.Errorf("%q stands there more than once", strings.Join(e.New, "\n"))
			}
			at = i
		}
		if at < 0 || len(e.New) == 0 {
			return "", fmt.Errorf("%q stands there no more", strings.Join(e.New, "\n"))
		}
		lines = slices.Replace(lines, at, at+len(e.New), e.Old)
	}
	return strings.Join(lines, "\n"), nil
}
