package setup

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Show prints a plan for a person: what was found, what would change, and the way back.
func Show(w io.Writer, p Plan) {
	fmt.Fprintln(w, "Found:")
	for _, line := range p.Found {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w)
	if p.Done {
		fmt.Fprintln(w, "Nothing to do: setup has been here. \"tempomat-proxy setup -undo\" takes it back.")
		showNotes(w, p.Notes)
		return
	}
	if len(p.Obstacles) > 0 {
		showObstacles(w, p.Obstacles)
		return
	}
	if p.Earlier != nil {
		fmt.Fprint(w, "Setup has been here. Sites were added since that have to move, too.\n")
	}
	fmt.Fprint(w, "Changes:\n\n")
	for _, c := range p.Changes {
		showChange(w, c)
	}
	fmt.Fprintln(w, "Then, in this order:")
	for _, c := range p.commands() {
		fmt.Fprintln(w, "  "+strings.Join(c, " "))
	}
	showNotes(w, p.Notes)
	if p.Earlier != nil {
		fmt.Fprintln(w, "\nThe way back, of all that setup did: tempomat-proxy setup -undo")
		return
	}
	fmt.Fprintln(w, "\nThe way back: tempomat-proxy setup -undo; or by hand: "+wayBack(p))
}

func showObstacles(w io.Writer, obstacles []Obstacle) {
	fmt.Fprintln(w, "Nothing is changed, because:")
	for _, o := range obstacles {
		fmt.Fprintf(w, "\n  %s\n    why: %s\n    do:  %s\n", o.What, o.Why, strings.ReplaceAll(o.Do, "\n", "\n    "))
	}
}

func showNotes(w io.Writer, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(w, "\nNote: "+n)
	}
}

func showChange(w io.Writer, c Change) {
	switch {
	case c.Access != nil:
		fmt.Fprintf(w, "%s: %s\n\n", c.Path, c.Command)
	case c.Target != "":
		fmt.Fprintf(w, "%s -> %s, as %q makes it\n\n", c.Path, c.Target, c.Command)
	case c.New:
		fmt.Fprintf(w, "%s\n", udiff.Unified("/dev/null", c.Path, "", c.After))
	default:
		fmt.Fprintf(w, "%s\n", udiff.Unified(c.Path, c.Path, c.Before, c.After))
	}
}

// wayBack says what to do without this program.
func wayBack(p Plan) string {
	var parts []string
	if p.Before.Installed && !p.Before.Active {
		parts = append(parts, "systemctl disable --now "+unitName)
	}
	for _, c := range p.Changes {
		switch {
		case c.Access != nil:
			parts = append(parts, c.Was.command())
		case c.New:
			parts = append(parts, "rm "+c.Path)
		default:
			parts = append(parts, "mv "+c.Backup+" "+c.Path)
		}
	}
	if p.Reread {
		parts = append(parts, "systemctl daemon-reload")
	}
	return strings.Join(append(parts, "systemctl restart "+p.Server, "rm "+path.Join(path.Dir(p.Config), journalName)), "; ")
}
