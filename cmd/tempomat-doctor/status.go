package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
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
		Long: `Show how the proxy itself is: what is wrong now and what to do about it, its release,
requests that it holds, bodies that it buffers, connections and who has most of them,
certificates, what costs are known from, what the kernel helps with and what is missing
for that, with whom accounts are shared and how that goes, and all its counters.`,
		Example: `  tempomat-doctor status`,
		Args:    takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var reply api.StatusReply
			if err := d.client().get(c.Context(), "/v1/status", nil, &reply); err != nil {
				return err
			}
			if err := printConditions(d.stdout, reply.Conditions, screenOf(d.stdout, d.env).width); err != nil {
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
			var gate api.GateReply
			if err := d.client().get(c.Context(), "/v1/gate", nil, &gate); err != nil {
				return err
			}
			var under bytes.Buffer // long lines, that would widen the table
			if gate.Kernel != nil {
				printKernel(out, &under, gate.Kernel)
			}
			var share api.ShareReply
			if err := d.client().get(c.Context(), "/v1/share", nil, &share); err != nil {
				return err
			}
			fmt.Fprintf(out, "sharing\t%s\n", harmless.Text(share.Kind))
			if share.Trouble != "" {
				fmt.Fprintf(out, "  trouble\t%s\n", harmless.Text(share.Trouble))
			}
			printTree(out, "", share.State)
			for _, name := range slices.Sorted(maps.Keys(reply.Counters)) {
				fmt.Fprintf(out, "%s\t%d\n", harmless.Text(name), reply.Counters[name])
			}
			if err := out.Flush(); err != nil {
				return err
			}
			_, err := under.WriteTo(d.stdout)
			return err
		},
	}
}

// printConditions prints what is wrong now, above all else.
func printConditions(w io.Writer, all []api.Condition, width int) error {
	var out strings.Builder
	for _, c := range all {
		paragraph(&out, "", "! "+c.What, width)
		paragraph(&out, "  ", c.Do, width)
	}
	if len(all) > 0 {
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
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

// printTree prints whatever the way of sharing tells of itself, a line for each
// value.
func printTree(out io.Writer, name string, v any) {
	inside := func(key string) string {
		if name == "" {
			return "  " + key
		}
		return name + "." + key
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			printTree(out, inside(key), v[key])
		}
	case []any:
		if words, ok := texts(v); ok {
			fmt.Fprintf(out, "%s\t%s\n", harmless.Text(name), harmless.Text(cmp.Or(strings.Join(words, ", "), "none")))
			return
		}
		for i, member := range v {
			printTree(out, inside(fmt.Sprint(i+1)), member)
		}
	case string:
		fmt.Fprintf(out, "%s\t%s\n", harmless.Text(name), harmless.Text(v))
	case float64: // all numbers of JSON; a million is not to become 1e+06
		fmt.Fprintf(out, "%s\t%s\n", harmless.Text(name), strconv.FormatFloat(v, 'f', -1, 64))
	default:
		fmt.Fprintf(out, "%s\t%v\n", harmless.Text(name), v)
	}
}

// texts are the members of a list that has nothing but texts.
func texts(list []any) (all []string, ok bool) {
	for _, member := range list {
		text, ok := member.(string)
		if !ok {
			return nil, false
		}
		all = append(all, text)
	}
	return all, true
}
