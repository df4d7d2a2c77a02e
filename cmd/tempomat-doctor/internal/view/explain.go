package view

import (
	"fmt"
	"strings"

	"tempomat/proxy/admin/api"
)

// Explanation formats the output of explain for a screen of the given width; 0 means no limit.
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
		t := queue(&api.QueueReply{Rows: e.Waiting})
		t.Title = fmt.Sprintf("queue  %d waiting", total)
		if len(e.Waiting) < total {
			t.Title += fmt.Sprintf("; the first %d", len(e.Waiting))
		}
		out.WriteByte('\n')
		t.Print(&out, width)
	}
	if len(e.Recent) > 0 {
		t := verdicts(&api.RecentReply{Rows: e.Recent})
		t.Title = "recently; requests that ended the same way share a row"
		out.WriteByte('\n')
		t.Print(&out, width)
	}
	return out.String()
}
