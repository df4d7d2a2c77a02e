package view

import (
	"fmt"
	"strconv"
	"strings"

	"tempomat/proxy/admin/api"
)

// Explanation is what explain tells, for a screen of a width; 0 is without limit.
func Explanation(e *api.ExplainReply, width int) string {
	var out strings.Builder
	paragraph := func(indent, text string) {
		for _, line := range Wrap(indent+Text(text), width) {
			fmt.Fprintln(&out, line)
		}
	}
	fmt.Fprintf(&out, "%s (%s)\n\n", Text(e.Of), Text(e.Kind))
	paragraph("", e.Summary)
	if len(e.Advice) > 0 {
		out.WriteString("\nWhat would change it\n")
		for _, a := range e.Advice {
			paragraph("  ", a)
		}
	}
	for _, s := range e.Sections {
		fmt.Fprintf(&out, "\n%s\n", Text(s.Title))
		for _, f := range s.Facts {
			paragraph("  ", f.Name+": "+f.Value)
			if f.Means != "" {
				paragraph("      ", f.Means)
			}
		}
	}
	if len(e.Waiting) > 0 {
		out.WriteByte('\n')
		waiting(e).Print(&out, width)
	}
	if len(e.Recent) > 0 {
		out.WriteByte('\n')
		recent(e.Recent).Print(&out, width)
	}
	return out.String()
}

// waiting is its requests that wait.
func waiting(e *api.ExplainReply) *Table {
	total := max(e.Waits, len(e.Waiting))
	title := fmt.Sprintf("queue  %d wait", total)
	if len(e.Waiting) < total {
		title += fmt.Sprintf("; the first %d", len(e.Waiting))
	}
	t := NewTable(title, "Wait[s]", "Guess[s]", "Before", "Group", "Client", "Request, and below why it waits")
	for _, r := range e.Waiting {
		sure, before := " ", strconv.Itoa(r.Before)
		if !r.Sure {
			sure = "?"
		}
		if r.Before < 0 {
			before = "?"
		}
		t.Add(Decimals(r.Age, 2), Decimals(r.Guess, 3)+sure, before, r.Group, r.Client, r.Method+" "+r.URL)
		t.Note(r.Why)
	}
	return t
}

// recent is what became of its requests.
func recent(rows []api.VerdictRow) *Table {
	t := NewTable("recently, requests that ended alike in one row",
		"Last[UTC]", "Times", "Waited[s]", "Status", "Outcome", "Client", "Last request, and below the reason")
	for _, r := range rows {
		client, reason := r.Client, r.Reason
		if r.Clients > 1 {
			client = Count(r.Clients) + " addresses"
		}
		if r.Class != "" {
			reason += " of " + r.Class + " " + r.Key
		}
		t.Add(Clock(r.At), Count(max(1, r.Times)), Decimals(r.Waited, 2), Count(r.Status), r.Outcome, client, r.Method+" "+r.URL)
		t.Note(reason)
	}
	return t
}
