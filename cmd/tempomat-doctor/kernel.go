package main

import (
	"fmt"
	"io"
	"strconv"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// printKernel shows what the kernel helps with, in plain words: lines of a table, and under it
// what is missing.
func printKernel(table, under io.Writer, k *api.Kernel) {
	of := "not yet"
	if k.Seconds > 0 {
		of = fmt.Sprintf("in the last %s, of requests that ended", figures.Duration(k.Seconds))
	}
	fmt.Fprintf(table, "costs known\t%s\n", of)
	for _, c := range k.Costs {
		requests := figures.Count(c.Requests) + " requests, "
		if c.Source == "database" {
			requests = ""
		}
		fmt.Fprintf(table, "  %s\t%s%.2f CPU-s\n", knownFrom(c.Source), requests, c.CPU)
	}
	steps := "no process steps down"
	if k.Steps {
		steps = "long requests' processes step down"
	}
	fmt.Fprintf(table, "priority\t%s; %s now lower\n", steps, figures.Count(uint64(max(0, k.Lowered))))
	for _, s := range k.Stepped {
		fmt.Fprintf(table, "  to %s\t%s times since the start\n", lowered(s.Below), figures.Count(s.Steps))
	}
	for _, m := range k.Missing {
		fmt.Fprintf(under, "missing for %s: %s\n", missingFor(m.For), harmless.Text(m.What))
		if m.Remedy != "" {
			fmt.Fprintf(under, "  remedy: %s\n", harmless.Text(m.Remedy))
		}
	}
}

// lowered names how far a process has stepped down.
func lowered(below int) string {
	if below > 19 { // there is no such nice value
		return "idle"
	}
	return strconv.Itoa(below) + " lower"
}

// knownFrom names a source of costs.
func knownFrom(source string) string {
	switch source {
	case "process":
		return "by the kernel"
	case "database":
		return "of a database"
	case "header":
		return "by Tempomat-Cost"
	case "estimate":
		return "estimated by time"
	default:
		return harmless.Text(source)
	}
}

// missingFor names what something is missing for. Without known costs nothing steps down.
func missingFor(of string) string {
	switch of {
	case "costs":
		return "exact costs and priority"
	default:
		return harmless.Text(of)
	}
}
