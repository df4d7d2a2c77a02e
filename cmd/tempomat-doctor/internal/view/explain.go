package view

import (
	"fmt"
	"io"
	"strings"

	"tempomat/proxy/admin/api"
)

// Explanation is what explain tells, for a screen of a width; 0 is without limit.
func Explanation(e *api.ExplainReply, width int) string {
	var out strings.Builder
	paragraph := func(text string) { Paragraph(&out, text, width) }
	fmt.Fprintf(&out, "%s (%s)\n\n", Text(e.Of), Text(e.Kind))
	paragraph(e.Summary)
	if len(e.Advice) > 0 {
		out.WriteString("\nWhat would change it\n")
		for _, a := range e.Advice {
			paragraph("  " + a)
		}
	}
	for _, s := range e.Sections {
		fmt.Fprintf(&out, "\n%s\n", Text(s.Title))
		for _, f := range s.Facts {
			paragraph("  " + f.Name + ": " + f.Value)
			if f.Means != "" {
				paragraph("      " + f.Means)
			}
		}
	}
	if len(e.Waiting) > 0 {
		total := max(e.Waits, len(e.Waiting))
		title := fmt.Sprintf("queue  %d wait", total)
		if len(e.Waiting) < total {
			title += fmt.Sprintf("; the first %d", len(e.Waiting))
		}
		t := queue(api.QueueReply{Rows: e.Waiting})
		t.print(&out, title, width)
	}
	if len(e.Recent) > 0 {
		t := verdicts(api.RecentReply{Rows: e.Recent})
		t.print(&out, "recently, requests that ended alike in one row", width)
	}
	return out.String()
}

// Paragraph prints a text, wrapped; indented lines continue indented.
func Paragraph(w io.Writer, text string, width int) {
	for _, line := range Wrap(Text(text), width) {
		fmt.Fprintln(w, line)
	}
}
