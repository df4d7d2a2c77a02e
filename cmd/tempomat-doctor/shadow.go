package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// shadowed is what the flags of shadow choose.
type shadowed struct {
	hours, limit int
	json         bool
}

// shadow tells what would have become of requests.
func (d *doctor) shadow() *cobra.Command {
	var ask shadowed
	c := &cobra.Command{
		Use:   "shadow",
		Short: "Tell what would have been done if what is in shadow acted",
		Long: `Tell how many requests of the last hours would have been delayed, refused or redirected if
what is in shadow had acted: in mode observe, with throttle.shadow, or shadow: true of
classes. It is an estimate, made by a second limiter before a simulated backend, which is
told of each request a minute later; clients come as they came, whatever it does to them.`,
		Example: `  tempomat-doctor shadow                the last day
  tempomat-doctor shadow --hours 168    the last week
  tempomat-doctor shadow --json         hour by hour, as a document`,
		Args: func(c *cobra.Command, args []string) error {
			return errors.Join(takes(0)(c, args), reportChoice{hours: ask.hours, limit: ask.limit}.check())
		},
		RunE: func(c *cobra.Command, _ []string) error {
			var reply api.ShadowReply
			if err := d.client().get(c.Context(), "/v1/shadow", url.Values{"hours": {strconv.Itoa(ask.hours)}}, &reply); err != nil {
				return err
			}
			if !ask.json {
				return printShadow(d.stdout, &reply, ask, screenOf(d.stdout, d.env).width)
			}
			document, err := json.Marshal(&reply)
			if err == nil {
				_, err = fmt.Fprintln(d.stdout, harmless.JSON(document))
			}
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&ask.hours, "hours", hoursOfDay, "of how many hours, 1 to 168")
	f.IntVar(&ask.limit, "limit", rowsOfEach, "rows of each table of keys")
	asJSON(f, &ask.json)
	f.Lookup("json").Usage = "as a JSON document"
	return c
}

// printShadow prints what would have been.
func printShadow(w io.Writer, r *api.ShadowReply, ask shadowed, width int) error {
	var out strings.Builder
	if r.Mode == "" {
		fmt.Fprintln(&out, "Nothing is in shadow now. Put something there with throttle.shadow, or shadow: true of a class or a site.")
	} else {
		fmt.Fprintf(&out, "In shadow now: %s.\n", harmless.Text(r.Mode))
	}
	if r.Until > 0 {
		fmt.Fprintf(&out, "Requests that came until %s UTC are reckoned with.\n", atUTC(r.Until).Format("Mon 2006-01-02 15:04:05"))
	}
	if len(r.Modes) == 0 || r.Mode != "" && r.Until == 0 { // those of earlier days are not of what is in shadow now
		fmt.Fprintf(&out, "No request is yet: it is told of them as much as %s later.\n", figures.Duration(r.Window))
	}
	for i := range r.Modes {
		printShadowMode(&out, &r.Modes[i], ask, width)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func printShadowMode(w io.Writer, m *api.ShadowMode, ask shadowed, width int) {
	mode := harmless.Text(m.Mode)
	fmt.Fprintf(w, "\nWhat %s would have done with %s requests in %s of the last %d hours, an estimate:\n",
		mode, figures.Count(m.Requests), counted(len(m.Hours), "hour"), ask.hours)
	if m.Lost > 0 {
		fmt.Fprintf(w, "%s more (%s) were left out, as there was no room for them: it sees less load than there was.\n",
			figures.Count(m.Lost), figures.Percent(float64(m.Lost), float64(m.Lost+m.Requests)))
	}
	if m.Late > 0 {
		fmt.Fprintf(w, "%s took more than a minute: they are reckoned with as if they had come later.\n", figures.Count(m.Late))
	}
	printShadowGroups(w, m, mode, width)
	g := grid{title: "by what  cpu: that those would have cost that would have been refused"}
	g.add("Delayed", "p50[s]", "p95[s]", "Refused", "Redirect", "Cpu[s]", "Cause")
	for _, c := range m.Causes {
		g.add(append(shadowCells(c.ShadowDone), figures.Decimals(c.CPU, 2), harmless.Text(c.Name))...)
	}
	if len(m.Causes) > 0 {
		fmt.Fprintln(w)
		g.print(w, width)
	}
	for _, c := range m.Classes {
		printShadowKeys(w, c, ask.limit, width)
	}
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// shadowCells are the columns that all have.
func shadowCells(d api.ShadowDone) []string {
	return []string{
		strconv.FormatUint(d.Delayed, 10), figures.Decimals(d.P50, 2), figures.Decimals(d.P95, 2),
		strconv.FormatUint(d.Refused, 10), strconv.FormatUint(d.Redirected, 10),
	}
}

// printShadowGroups prints two rows for each group.
func printShadowGroups(w io.Writer, m *api.ShadowMode, mode string, width int) {
	g := grid{title: "groups  delayed: by 100 ms or more"}
	g.add("Requests", "Cpu[s]", "Delayed", "p50[s]", "p95[s]", "Refused", "Redirect", "Group")
	for _, x := range m.Groups {
		if x.Requests == 0 {
			continue
		}
		for _, row := range []struct {
			what string
			done api.ShadowDone
		}{{"in truth", x.Was}, {"with " + mode, x.Would}} {
			cells := append([]string{strconv.FormatUint(x.Requests, 10), figures.Decimals(row.done.CPU, 2)}, shadowCells(row.done)...)
			g.add(append(cells, x.Name+", "+row.what)...)
		}
	}
	g.print(w, width)
}

// printShadowKeys prints whom of a class it would have met.
func printShadowKeys(w io.Writer, c api.ShadowClass, limit, width int) {
	if len(c.Keys) == 0 {
		return
	}
	g := grid{title: harmless.Text(c.Class) + "  whom it would have met"}
	g.add("Delayed", "Refused", "Redirect", "Cpu[s]", "Max[s]", "Title")
	for _, k := range c.Keys[:min(limit, len(c.Keys))] {
		g.add(strconv.FormatUint(k.Delayed, 10), strconv.FormatUint(k.Refused, 10), strconv.FormatUint(k.Redirected, 10),
			figures.Decimals(k.CPU, 2), figures.Decimals(k.Longest, 2), harmless.Text(k.Name))
	}
	fmt.Fprintln(w)
	g.print(w, width)
}
