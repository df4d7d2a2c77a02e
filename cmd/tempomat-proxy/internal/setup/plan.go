package setup

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Plan contains the changes that setup would make, or the reasons why it can't make any.
type Plan struct {
	Found     []string   // what is on the machine, in plain words
	Obstacles []Obstacle // if there are any, setup makes no changes
	Notes     []string   // information about the result for the administrator
	Done      bool       // setup has already been done
	journal              // the part that is kept for undo
}

// Obstacle is a part of the machine that setup can't handle or must not change.
type Obstacle struct {
	What, Why string
	Do        string // what the administrator should do
}

// Change is a change of one file, link or permission.
type Change struct {
	Path    string // the path, with symbolic links resolved
	New     bool   // the file doesn't exist yet
	Before  string
	After   string
	Edits   []Edit  // the lines that differ between Before and After; none if the whole file is replaced
	Target  string  // the target of a symbolic link
	Access  *Access // the new group and mode, if only these change
	Was     *Access // the former group and mode
	Backup  string  // where the former text is kept
	Command string  // a shell command with the same effect, such as "a2enmod remoteip"
}

// Edit replaces a line with other lines. Lines are counted from 1, and don't include their line breaks.
type Edit struct {
	Line int
	Old  string
	New  []string // empty: the line is deleted
}

// Probe is a page that setup requests before and after the changes.
type Probe struct {
	Port int
	TLS  bool
	Host string
}

// backupEnd is the suffix for copies of the previous files.
const backupEnd = ".before-tempomat"

// applyEdits applies edits to the text for which they were made.
func applyEdits(text string, edits []Edit) string {
	lines := strings.Split(text, "\n")
	edits = slices.SortedFunc(slices.Values(edits), func(a, b Edit) int { return b.Line - a.Line })
	for _, e := range edits {
		lines = slices.Replace(lines, e.Line-1, e.Line, e.New...)
	}
	return strings.Join(lines, "\n")
}

// takeBack reverts edits in the text now. Setup wrote the text as after, but it may have changed since then. takeBack
// finds each group of new lines by the unchanged lines around it. told describes the edits that it couldn't revert,
// sorted by line of the result.
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
		case slices.Contains(e.New, e.Old) || !slices.Contains(lines, e.Old): // otherwise the old line was already put back
			told = append(told, remark{len(result) + max(0, gap(at, first)-from), fmt.Sprintf("setup's line %q is missing. Before setup, the line was %q: restore it if you still need it", strings.TrimSpace(e.New[0]), strings.TrimSpace(e.Old))})
		}
	}
	return strings.Join(append(result, lines[from:]...), "\n"), told
}

// remark is a note about a line. Lines are counted from 0.
type remark struct {
	line int
	text string
}

// aligned returns, for each line of before, the number of the same line in after, or -1 if that line no longer
// exists.
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

// gap returns the position of a missing line: after the last line before it that still exists.
func gap(at []int, line int) int {
	for _, n := range slices.Backward(at[:line]) {
		if n >= 0 {
			return n + 1
		}
	}
	return 0
}

// Show prints a plan in readable form: what was found, what would change, and how to undo the changes.
func Show(w io.Writer, p Plan) {
	fmt.Fprintln(w, "Found:")
	for _, line := range p.Found {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w)
	if p.Done {
		fmt.Fprintln(w, "tempomat-proxy is already set up. To include sites that were added since then, undo setup and run it again. To undo: tempomat-proxy setup -undo")
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
	fmt.Fprintln(w, "Nothing was changed, because:")
	for _, o := range obstacles {
		fmt.Fprintf(w, "\n  %s\n    why: %s\n    do:  %s\n", o.What, o.Why, strings.ReplaceAll(o.Do, "\n", "\n    "))
	}
}

func showChange(w io.Writer, c Change) {
	switch {
	case c.Access != nil:
		fmt.Fprintf(w, "%s: %s\n\n", c.Path, c.Command)
	case c.Target != "":
		fmt.Fprintf(w, "%s -> %s, created by %q\n\n", c.Path, c.Target, c.Command)
	case c.New:
		fmt.Fprintf(w, "%s\n", udiff.Unified("/dev/null", c.Path, "", c.After))
	default:
		fmt.Fprintf(w, "%s\n", udiff.Unified(c.Path, c.Path, c.Before, c.After))
	}
}
