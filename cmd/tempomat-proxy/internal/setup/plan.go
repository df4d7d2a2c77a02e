package setup

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Plan is what setup would do, and why it would not.
type Plan struct {
	Found     []string   // what there is, in plain words
	Obstacles []Obstacle // if there are any, nothing is changed
	Notes     []string   // what to know of the result
	Done      bool       // setup has been here; there is nothing to do
	journal              // what is written down of it
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

// takeBack undoes edits in a text that may have changed since setup left it as after. Each group of new
// lines is found by its place among the lines that did not change. told says, by line of the result, what could
// not be put back.
func takeBack(after, now string, edits []Edit) (text string, told []remark) {
	lines, at := strings.Split(now, "\n"), aligned(after, now)
	result, from, shift := []string(nil), 0, 0
	for _, e := range edits {
		first := e.Line - 1 + shift
		shift += len(e.New) - 1
		n := at[first]
		switch {
		case n >= 0 && n+len(e.New) <= len(lines) && slices.Equal(lines[n:n+len(e.New)], e.New):
			result = append(append(result, lines[from:n]...), e.Old)
			from = n + len(e.New)
		case slices.Contains(e.New, e.Old) || !slices.Contains(lines, e.Old): // otherwise it was put back already
			told = append(told, remark{len(result) + max(0, gap(at, first)-from), fmt.Sprintf("setup's line %q is gone. Before setup it was %q: write that there if it is still needed", strings.TrimSpace(e.New[0]), strings.TrimSpace(e.Old))})
		}
	}
	return strings.Join(append(result, lines[from:]...), "\n"), told
}

// remark is something to say of a line, which counts from 0.
type remark struct {
	line int
	text string
}

// aligned tells of each line of a text which line of its successor it is; -1: none.
func aligned(before, after string) []int {
	at := make([]int, strings.Count(before, "\n")+1)
	before += "\n"
	line, target, offset := 0, 0, 0
	same := func(upTo int) {
		for ; offset < upTo; line, target = line+1, target+1 {
			at[line] = target
			offset += strings.IndexByte(before[offset:], '\n') + 1
		}
	}
	for _, e := range udiff.Lines(before, after+"\n") {
		same(e.Start)
		for ; offset < e.End; line++ {
			at[line] = -1
			offset += strings.IndexByte(before[offset:], '\n') + 1
		}
		target += strings.Count(e.New, "\n")
	}
	same(len(before))
	return at
}

// gap is where a line stood that is there no more: behind the last one before it that is.
func gap(at []int, line int) int {
	for _, n := range slices.Backward(at[:line]) {
		if n >= 0 {
			return n + 1
		}
	}
	return 0
}

// Show prints a plan for a person: what was found, what would change, and undo.
func Show(w io.Writer, p Plan) {
	fmt.Fprintln(w, "Found:")
	for _, line := range p.Found {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w)
	if p.Done {
		fmt.Fprintln(w, "Already set up. For sites that were added since, undo it and set it up again. To undo it: tempomat-proxy setup -undo")
		return
	}
	if len(p.Obstacles) > 0 {
		showObstacles(w, p.Obstacles)
		return
	}
	fmt.Fprint(w, "Changes:\n\n")
	for _, c := range p.Changes {
		showChange(w, c)
	}
	fmt.Fprintln(w, "Then, in this order:")
	for _, c := range append(p.checks(), p.switching()...) {
		fmt.Fprintln(w, "  "+strings.Join(c, " "))
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, "\nNote: "+n)
	}
	fmt.Fprintln(w, "\nTo undo: tempomat-proxy setup -undo")
}

func showObstacles(w io.Writer, obstacles []Obstacle) {
	fmt.Fprintln(w, "Nothing is changed, because:")
	for _, o := range obstacles {
		fmt.Fprintf(w, "\n  %s\n    why: %s\n    do:  %s\n", o.What, o.Why, strings.ReplaceAll(o.Do, "\n", "\n    "))
	}
}

func showChange(w io.Writer, c Change) {
	switch {
	case c.Access != nil:
		fmt.Fprintf(w, "%s: %s\n\n", c.Path, c.Command)
	case c.Target != "":
		fmt.Fprintf(w, "%s -> %s, made by %q\n\n", c.Path, c.Target, c.Command)
	case c.New:
		fmt.Fprintf(w, "%s\n", udiff.Unified("/dev/null", c.Path, "", c.After))
	default:
		fmt.Fprintf(w, "%s\n", udiff.Unified(c.Path, c.Path, c.Before, c.After))
	}
}
