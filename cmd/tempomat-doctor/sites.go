package main

import (
	"fmt"
	"io"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/limiter"
)

// printSites shows the sites of a shared host, if they are told apart.
func printSites(out io.Writer, sites []limiter.SiteState) {
	for _, s := range sites {
		wait := 0.0
		if n := s.Ended + s.Refused; n > 0 {
			wait = s.Waited / float64(n)
		}
		line := fmt.Sprintf("share %g, %d run, %d wait, %.1f CPU-s and %.2f s of waiting for each of %d requests since the start",
			s.Share, s.Busy, s.Queued, s.CPU, wait, s.Ended+s.Refused)
		if s.Refused > 0 {
			line += fmt.Sprintf(", %d waited in vain", s.Refused)
		}
		if !s.Delay {
			line += "; delays nobody"
		}
		fmt.Fprintf(out, "site %s\t%s\n", harmless.Text(s.Name), line)
	}
}
