package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/replay"
)

const (
	// keysShown is how many keys of a class are shown, and hoursShown how many hours
	// if in some of them nobody waited.
	keysShown  = 10
	hoursShown = 48
)

// printReplay prints what a replay found. Width 0 is without limit.
func printReplay(w io.Writer, r *replay.Report, width int) error {
	var out strings.Builder
	printSummary(&out, r)
	printHours(&out, r, width)
	for _, c := range r.Classes {
		printClass(&out, c, width)
	}
	printShares(&out, r, width)
	_, err := io.WriteString(w, out.String())
	return err
}

func printSummary(w io.Writer, r *replay.Report) {
	t, span := r.Total, r.To.Sub(r.From)
	fmt.Fprintf(w, "%s requests from %s to %s, read as %s\n", figures.Count(t.Requests), clock(r.From), clock(r.To), r.Format)
	fmt.Fprintf(w, "Replayed in mode %s on %s CPUs with %d workers: %s CPU-hours, %s of the CPUs.\n",
		r.Mode, short(r.CPUs), r.Workers, figures.Decimals(t.CPUSeconds/3600, 2), figures.Percent(t.CPUSeconds, span.Seconds()*r.CPUs))
	for _, g := range []struct {
		name string
		replay.Group
	}{{"known clients", t.Known}, {"strangers", t.Strangers}} {
		fmt.Fprintf(w, "Of %s requests of %s %s would have waited 100 ms or more (%s s at most), and %s been refused.\n",
			figures.Count(g.Requests), g.name, figures.Count(g.Delayed), figures.Decimals(g.Longest, 2), figures.Count(g.Refused))
		if g.TurnedAway > 0 {
			fmt.Fprintf(w, "The backend would have turned %s of these away, with all workers taken.\n", figures.Count(g.TurnedAway))
		}
	}
	if t.Exempt > 0 {
		fmt.Fprintf(w, "%s were exempt.\n", figures.Count(t.Exempt))
	}
	if t.Trusted > 0 {
		fmt.Fprintf(w, "%s have the address of a trusted proxy: the log should have that of its client (Apache: mod_remoteip, nginx: realip).\n", figures.Count(t.Trusted))
	}
	printLines(w, r.Lines)
}

// printLines tells of the lines that were not replayed.
func printLines(w io.Writer, l replay.Lines) {
	for _, x := range []struct {
		n    int
		text string
	}{
		{l.None, "lines are of no request."},
		{l.LeftOut, "lines are missing, says the log: set log: {access: all} to have all of them."},
		{l.Unordered, "lines were left out, as they are far behind others in time. Give logs in the order of time."},
		{l.Clipped, fmt.Sprintf("requests took longer than %s: they came later than they did.", replay.Window)},
		{l.Bad, "lines that could not be read:"},
	} {
		if x.n > 0 {
			fmt.Fprintf(w, "%s %s\n", figures.Count(x.n), x.text)
		}
	}
	for _, f := range l.Faults {
		fmt.Fprintf(w, "  line %d: %s\n", f.Line, f.Reason)
	}
}

// printHours prints all hours if they are few, else those in which somebody waited.
func printHours(w io.Writer, r *replay.Report, width int) {
	g := grid{title: "hours  waits of those who waited 100 ms or more, of known clients and of strangers"}
	g.add("Requests", "Cpu[s]", "Busy", "Known", "p95[s]", "max[s]", "Refused", "Strange", "p95[s]", "max[s]", "Refused", "Hour")
	quiet := 0
	for _, h := range r.Hours {
		if len(r.Hours) > hoursShown && isQuiet(h.Known) && isQuiet(h.Strangers) {
			quiet++
			continue
		}
		cells := []string{strconv.Itoa(h.Requests), figures.Decimals(h.CPUSeconds, 0), figures.Percent(h.Busy, 1)}
		for _, x := range []replay.Group{h.Known, h.Strangers} {
			cells = append(cells, strconv.Itoa(x.Delayed), figures.Decimals(x.P95, 2), figures.Decimals(x.Longest, 2), strconv.Itoa(x.Refused))
		}
		g.add(append(cells, h.Begin.Format("2006-01-02 15:04 -0700"))...)
	}
	fmt.Fprintln(w)
	g.print(w, width)
	if quiet > 0 {
		fmt.Fprintf(w, "In %s other hours nobody waited.\n", figures.Count(quiet))
	}
}

func isQuiet(g replay.Group) bool { return g.Delayed+g.Refused+g.TurnedAway == 0 }

func printClass(w io.Writer, c replay.Class, width int) {
	g := grid{title: fmt.Sprintf("%s  %s keys, %s requests, %s delayed (%s as it owed), %s refused, %s CPU-hours", harmless.Text(c.Class),
		figures.Count(c.Keys), figures.Count(c.Requests), figures.Count(c.Delayed), figures.Count(c.Owing), figures.Count(c.Refused), figures.Decimals(c.CPUSeconds/3600, 2))}
	g.add("Cpu[s]", "Requests", "Delayed", "Refused", "Max[s]", "Title")
	for _, k := range c.Top[:min(keysShown, len(c.Top))] {
		g.add(figures.Decimals(k.CPUSeconds, 0), strconv.Itoa(k.Requests), strconv.Itoa(k.Delayed), strconv.Itoa(k.Refused), figures.Decimals(k.Longest, 2), harmless.Text(k.ID))
	}
	fmt.Fprintln(w)
	g.print(w, width)
}

// printShares prints what is proposed, and how it is derived.
func printShares(w io.Writer, r *replay.Report, width int) {
	g := grid{title: "shares"}
	g.add("Now", "Propose", "Half", "All", "Keys", "OweNow", "OweThen", "Class")
	for _, s := range r.Shares {
		all := short(s.Most)
		if s.Beyond > 0 {
			all = "> 1"
		}
		g.add(short(s.Now), short(s.Proposed), short(s.Half), all, strconv.Itoa(s.Keys), strconv.Itoa(s.OweNow), strconv.Itoa(s.OweThen), harmless.Text(s.Class))
	}
	fmt.Fprintln(w)
	g.print(w, width)
	fmt.Fprint(w, `A key needs the least share with which, and with its burst, its use was never in debt.
Half and All are what half of the keys need, and all. Of the first class the keys are usual
clients: five requests or more, mostly of a browser and no stranger; proposed is what 98 of
100 need. Of the others, only what such clients asked for counts, and proposed is what all
need. OweNow and OweThen are the keys that would ever owe with the shares of now, and with
those that are proposed. A larger share makes no usual client owe either. In mode fair who
owes nothing still waits while the CPUs are full, if only behind its like.
`)
}

func clock(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") }

// short is a number with as many digits as it needs, at most three.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }
