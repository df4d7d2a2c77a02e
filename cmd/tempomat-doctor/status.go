package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/spool"
)

// status shows how the proxy itself is.
func (d *doctor) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the proxy itself is",
		Long: `Show how the proxy itself is: its release, requests that it holds, bodies that it
buffers, connections and who has most of them, and all its counters.`,
		Example: `  tempomat-doctor status`,
		Args:    takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var reply api.StatusReply
			if err := d.client().get(c.Context(), "/v1/status", nil, &reply); err != nil {
				return err
			}
			out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintf(out, "release\t%s\n", harmless.Text(reply.Release))
			fmt.Fprintf(out, "uptime\t%s\n", time.Duration(reply.Uptime)*time.Second)
			fmt.Fprintf(out, "mode\t%s\n", harmless.Text(reply.Mode))
			fmt.Fprintf(out, "held\t%d\n", reply.Held)
			fmt.Fprintf(out, "goroutines\t%d\n", reply.Goroutines)
			printBuffer(out, reply.Buffer)
			printConnections(out, reply.Connections)
			printCertificates(out, time.Now(), reply.Certificates)
			for _, name := range slices.Sorted(maps.Keys(reply.Counters)) {
				fmt.Fprintf(out, "%s\t%d\n", harmless.Text(name), reply.Counters[name])
			}
			return out.Flush()
		},
	}
}

// printConnections shows how many there are, and who holds most.
func printConnections(out io.Writer, c connlimit.Stats) {
	fmt.Fprintf(out, "connections\t%d of at most %d, of %d addresses\n", c.Open, c.Most, c.Addresses)
	if c.Shed+c.Refused == 0 {
		return
	}
	fmt.Fprintf(out, "closed\t%d to make room, %d at once\n", c.Shed, c.Refused)
	for _, h := range append(c.Top[:min(len(c.Top), 3)], c.Networks[:min(len(c.Networks), 3)]...) {
		fmt.Fprintf(out, "  %s\t%d connections\n", h.Prefix, h.Open)
	}
}

// printCertificates shows for how long each is valid, and what is wrong with it.
func printCertificates(out io.Writer, now time.Time, all []api.Certificate) {
	for _, c := range all {
		line := "there is none"
		if !c.Expires.IsZero() {
			line = validity(c.Expires.Sub(now)) + c.Expires.Format(time.DateOnly)
		}
		if c.Fault != "" {
			line += "; not in force: " + c.Fault
		}
		fmt.Fprintf(out, "certificate %s\t%s\n", harmless.Text(c.File), harmless.Text(line))
	}
}

// validity says for how long a certificate is valid yet, or since when it is not. Its date follows.
func validity(left time.Duration) string {
	switch days := math.Round(left.Abs().Hours() / 24); {
	case left > 0:
		return fmt.Sprintf("%.0f days left, to ", days)
	case days == 1:
		return "expired 1 day ago, on "
	case days == 0:
		return "expired today, "
	default:
		return fmt.Sprintf("expired %.0f days ago, on ", days)
	}
}

// printBuffer shows the bodies that wait, and how often there was no room for one.
func printBuffer(out io.Writer, b spool.Stats) {
	fmt.Fprintf(out, "buffered\t%s in memory, %s in %d files, %d bodies\n", bytesText(b.Memory), bytesText(b.Disk), b.Files, b.Spools)
	fmt.Fprintf(out, "no room\t%d times in memory, %d on disk, %d for one address, %d errors\n", b.NoMemory, b.NoDisk, b.NoAddress, b.Errors)
}

// bytesText is a number of bytes as people read it.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.0f KB", float64(n)/(1<<10))
	}
}
