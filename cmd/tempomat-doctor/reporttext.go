package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

// reportWidth is what the text takes where nothing says how wide the screen is.
const reportWidth = 80

// unit is what amounts of CPU time are shown in, so that they are neither all zeros nor
// all digits.
type unit struct {
	name    string
	seconds float64
}

func unitOf(total float64) unit {
	switch {
	case total >= time.Hour.Seconds():
		return unit{"CPU-h", time.Hour.Seconds()}
	case total >= time.Minute.Seconds():
		return unit{"CPU-min", time.Minute.Seconds()}
	}
	return unit{"CPU-s", 1}
}

// of is an amount without its unit.
func (u unit) of(seconds float64) string { return figures.Decimals(seconds/u.seconds, 2) }

func atUTC(unix float64) time.Time { return time.Unix(int64(unix), 0).UTC() }

// moment is an hour, short.
func moment(unix float64) string { return atUTC(unix).Format("Mon 15:04") }

const dateAndTime = "Mon 2006-01-02 15:04"

// title is what the report is of.
func (r *report) title() string {
	switch hours := len(r.ByHour); hours {
	case 1:
		return "Who used the server in the last hour"
	case mostHours:
		return "Who used the server in the last week"
	default:
		return fmt.Sprintf("Who used the server in the last %d hours", hours)
	}
}

// period is when that was.
func (r *report) period() string {
	return fmt.Sprintf("%s to %s UTC; the last hour still runs.", atUTC(r.From).Format(dateAndTime), atUTC(r.To).Format(dateAndTime))
}

// remarks are what somebody has to know who believes the figures.
func (r *report) remarks() (all []string) {
	if r.Proxies > 1 {
		all = append(all, fmt.Sprintf("%d proxies together.", r.Proxies))
	}
	if missing := len(r.ByHour) - len(r.knownHours()); missing > 0 {
		all = append(all, fmt.Sprintf("Nothing is known of %d of these hours: no history was kept then.", missing))
	}
	return all
}

// explanation is what the tables mean.
func (r *report) explanation() []string {
	return []string{
		"A row tells what it cost at least; what is not certain is among all others.",
		"A * stands for what fewer than three networks asked for, and for secrets.",
	}
}

// figure is one number with its name.
type figure struct{ Name, Value, Means string }

// figures are the totals.
func (r *report) figures() []figure {
	u := unitOf(r.CPU)
	ratio := func(part, of float64) string {
		if of == 0 {
			return ""
		}
		return figures.Percent(part, of)
	}
	requests := float64(r.Requests)
	return []figure{
		{"CPU", u.of(r.CPU) + " " + u.name, r.average()},
		{"Wasted", u.of(r.Wasted) + " " + u.name, strings.TrimSpace(ratio(r.Wasted, r.CPU) + " for clients that had left")},
		{"Requests", figures.Count(r.Requests), ""},
		{"Refused", figures.Count(r.Refused), ratio(float64(r.Refused), requests)},
		{"Redirected", figures.Count(r.Redirected), ratio(float64(r.Redirected), requests)},
	}
}

// average is how many CPUs were used in the hours that are over.
func (r *report) average() string {
	over, cpu := 0, 0.0
	for _, h := range r.ByHour[:len(r.ByHour)-1] {
		if h.Known {
			over++
			cpu += h.CPU
		}
	}
	if over == 0 {
		return ""
	}
	return figures.Decimals(cpu/float64(over)/time.Hour.Seconds(), 2) + " CPUs on average"
}

// print prints the report as text. Width 0 is without limit.
func (r *report) print(w io.Writer, limit, width int) error {
	if width == 0 {
		width = reportWidth
	}
	var out strings.Builder
	line := func(text string) { fmt.Fprintln(&out, harmless.Cut(text, width)) }
	line(r.title())
	line(r.period())
	for _, remark := range r.remarks() {
		line(remark)
	}
	out.WriteByte('\n')
	for _, f := range r.figures() {
		line(strings.TrimRight(fmt.Sprintf("%-10s  %16s  %s", f.Name, f.Value, f.Means), " "))
	}
	out.WriteByte('\n')
	r.printDays(line)
	r.printGroups(&out, width)
	u := unitOf(r.CPU)
	for _, c := range r.Classes {
		c.print(&out, "class "+harmless.Text(c.Class), "Key", u, limit, width)
	}
	r.Shapes.print(&out, "URL shapes", "Shape", u, limit, width)
	r.URLs.print(&out, "URLs", "URL", u, limit, width)
	out.WriteByte('\n')
	for _, text := range r.explanation() {
		line(text)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printDays draws the hours, a line for each day.
func (r *report) printDays(line func(string)) {
	u := unitOf(r.CPU)
	highest := r.highest()
	line(fmt.Sprintf("%s by hour (UTC); the highest is %s, %s", u.name, u.of(highest.CPU), moment(highest.At)))
	for i := 0; i < len(r.ByHour); {
		day := atUTC(r.ByHour[i].At)
		marks, cpu := strings.Repeat(" ", day.Hour()), 0.0
		for ; i < len(r.ByHour) && atUTC(r.ByHour[i].At).YearDay() == day.YearDay(); i++ {
			marks += mark(r.ByHour[i], highest.CPU)
			cpu += r.ByHour[i].CPU
		}
		line(fmt.Sprintf("  %s  %s%s  %8s", day.Format("Mon 02"), marks, strings.Repeat(" ", hoursOfDay-len([]rune(marks))), u.of(cpu)))
	}
	line("          0     6     12    18")
}

// highest is the hour that cost most.
func (r *report) highest() (highest reportHour) {
	highest = r.ByHour[0]
	for _, h := range r.ByHour {
		if h.CPU > highest.CPU {
			highest = h
		}
	}
	return highest
}

// mark is an hour in a letter.
func mark(h reportHour, highest float64) string {
	const marks = "▁▂▃▄▅▆▇█"
	switch all := []rune(marks); {
	case !h.Known:
		return "."
	case highest == 0:
		return string(all[0])
	default:
		return string(all[min(len(all)-1, int(h.CPU/highest*float64(len(all))))])
	}
}

func (r *report) printGroups(out *strings.Builder, width int) {
	u := unitOf(r.CPU)
	out.WriteByte('\n')
	g := grid{title: "groups"}
	g.add(u.name, "Part", "Requests", "P95", "Slowest", "Group")
	for _, row := range r.Groups {
		then := "-"
		if row.P95 > 0 {
			then = moment(row.P95At)
		}
		g.add(u.of(row.CPU), figures.Percent(row.Part, 1), figures.Count(row.Requests), figures.Duration(row.P95), then, harmless.Text(row.Name))
	}
	g.print(out, width)
	fmt.Fprintln(out, harmless.Cut("P95: 95 of 100 answers took no longer, in the slowest hour, which is named", width))
}

func (t reportTable) print(out *strings.Builder, title, column string, u unit, limit, width int) {
	out.WriteByte('\n')
	g := grid{title: title}
	g.add(u.name, "Part", "Requests", column)
	others := t.Others
	for i, row := range t.Rows {
		if i >= limit {
			others += row.CPU
			continue
		}
		g.add(u.of(row.CPU), figures.Percent(row.Part, 1), figures.Count(row.Requests), shownName(row.Name))
	}
	total := others
	for _, row := range t.Rows[:min(limit, len(t.Rows))] {
		total += row.CPU
	}
	if others >= 0.005*u.seconds {
		g.add(u.of(others), figures.Percent(others, total), "", "all others")
	}
	g.print(out, width)
}

// shownName is a name that clients chose, and one where they chose none.
func shownName(name string) string {
	if name == "" {
		return "(none)"
	}
	return harmless.Text(name)
}
