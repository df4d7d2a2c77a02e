package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/proxy/admin/api"
)

const hoursOfDay = 24

// historyTimeout is the time limit for each of several instances to answer. The history of a week has a few MB.
const historyTimeout = 3 * time.Second

// reportChoice holds the flags of the report.
type reportChoice struct {
	hours int
	limit uint
	json  bool
}

// report makes the command that shows which clients used the server.
func (d *doctor) report() *cobra.Command {
	var ask reportChoice
	c := &cobra.Command{
		Use:   "report",
		Short: "Show which clients used the server in the last day or week",
		Long: `Show which clients used the server in the last hours: the cost of groups of clients, of the keys of
each class, of URL shapes and of URLs. With several sockets, add up the data of the instances.`,
		Example: `  tempomat-doctor report                      the last day
  tempomat-doctor report --hours 168          the last week
  tempomat-doctor report --socket A --socket B   the last day, for several proxies together`,
		Args: daemon.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := d.fleet(c.Context())
			if err != nil {
				return err
			}
			f.timeout = historyTimeout
			var reply api.HistoryReply
			query := url.Values{"hours": {strconv.Itoa(ask.hours)}}
			return d.answer(c.Context(), d.fleet, "/v1/history", query, ask.json, &reply, func() {
				newReport(&reply, ask.hours, f.heard()).print(&d.out, int(min(ask.limit, mostOfEach)), cmp.Or(d.screen().width, reportWidth))
			})
		},
	}
	f := c.Flags()
	f.IntVar(&ask.hours, "hours", hoursOfDay, "number of clock hours, including the current one: 1 to 168")
	f.UintVar(&ask.limit, "limit", rowsOfEach, "number of rows in each table (text output only)")
	asJSON(c, &ask.json)
	return c
}

// report is the use of the server over some hours.
type report struct {
	from, to  float64 // the beginning of the first hour, and the end of the last one, which hasn't ended yet
	instances int
	hours     []api.HourRow // all hours between from and to; At is 0 for an hour without history
	all       api.HourRow   // the sum of the hours
}

// newReport adds up the last hours of a history.
func newReport(history *api.HistoryReply, hours, instances int) *report {
	r := &report{instances: instances, hours: make([]api.HourRow, hours)}
	if n := len(history.Hours); n > 0 {
		r.to = history.Hours[n-1].At + time.Hour.Seconds()
	}
	r.from = r.to - float64(hours)*time.Hour.Seconds()
	for _, hour := range history.Hours {
		if i := int((hour.At - r.from) / time.Hour.Seconds()); hour.At >= r.from && i < hours {
			r.hours[i] = hour
			join(reflect.ValueOf(&r.all).Elem(), reflect.ValueOf(&hour).Elem(), "")
		}
	}
	return r
}

// reportWidth is the width of the text if the width of the screen is unknown.
const reportWidth = 80

// unit is a unit of CPU time. The report chooses the unit that keeps its amounts short.
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

// of converts seconds to the unit.
func (u unit) of(seconds float64) string { return view.Decimals(seconds/u.seconds, 2) }

func atUTC(unix float64) time.Time { return time.Unix(int64(unix), 0).UTC() }

// moment formats a time as the day of the week and the hour.
func moment(unix float64) string { return atUTC(unix).Format("Mon 15:04") }

const dateAndTime = "2006-01-02 15:04"

// average returns the number of CPUs used on average, not counting the current hour.
func (r *report) average() string {
	over, cpu := 0, 0.0
	for _, h := range r.hours[:len(r.hours)-1] {
		if h.At > 0 {
			over++
			cpu += h.CPU
		}
	}
	if over == 0 {
		return ""
	}
	return view.Decimals(cpu/float64(over)/time.Hour.Seconds(), 2) + " CPUs on average"
}

// print prints the report as text.
func (r *report) print(out *bytes.Buffer, limit, width int) {
	line := func(text string) { fmt.Fprintln(out, view.Cut(text, width)) }
	if r.to == 0 {
		line("There is no history yet: the proxy has only just started. Try again in an hour.")
		return
	}
	line(fmt.Sprintf("From %s to %s UTC, including the current hour.", atUTC(r.from).Format(dateAndTime), atUTC(r.to).Format(dateAndTime)))
	if r.instances > 1 {
		line(fmt.Sprintf("%d instances together.", r.instances))
	}
	missing := 0
	for _, h := range r.hours {
		if h.At == 0 {
			missing++
		}
	}
	if missing > 0 {
		line(fmt.Sprintf("There is no data for %d of these hours: no history was kept then.", missing))
	}
	line("")
	r.printTotals(line)
	line("")
	r.printDays(line)
	r.printGroups(out, width)
	for _, c := range r.all.Classes {
		r.printTable(out, "class "+c.Class, "Key", c.Keys, limit, width)
	}
	r.printTable(out, "URL shapes", "Shape", r.all.Shapes, limit, width)
	r.printTable(out, "URLs", "URL", r.all.URLs, limit, width)
	line("")
	line("Rows show the lowest possible cost; \"all others\" includes the uncertain rest.")
	line("A * replaces secrets, and parts of URLs that few known clients requested.")
}

// printTotals prints the sums over all requests.
func (r *report) printTotals(line func(string)) {
	all := &r.all
	u := unitOf(all.CPU)
	ratio := func(part, of float64) string {
		if of == 0 {
			return ""
		}
		return view.Percent(part, of)
	}
	requests := float64(all.Requests)
	for _, f := range []struct{ name, value, means string }{
		{"CPU", u.of(all.CPU) + " " + u.name, r.average()},
		{"Wasted", u.of(all.Wasted) + " " + u.name, strings.TrimSpace(ratio(all.Wasted, all.CPU) + " for clients that had disconnected")},
		{"Requests", view.Count(all.Requests), ""},
		{"Refused", view.Count(all.Refused), ratio(float64(all.Refused), requests)},
		{"Redirected", view.Count(all.Redirected), ratio(float64(all.Redirected), requests)},
		{"In shadow", view.Count(all.Shadowed), strings.TrimSpace(ratio(float64(all.Shadowed), requests) + " would have waited or been refused")},
	} {
		if f.name == "In shadow" && all.Shadowed == 0 {
			continue
		}
		line(strings.TrimRight(fmt.Sprintf("%-10s  %16s  %s", f.name, f.value, f.means), " "))
	}
}

// printDays draws a line for each day, with a bar for each hour.
func (r *report) printDays(line func(string)) {
	u, highest := unitOf(r.all.CPU), 0
	for i := range r.hours {
		if r.hours[i].CPU > r.hours[highest].CPU {
			highest = i
		}
	}
	most := r.hours[highest].CPU
	line(fmt.Sprintf("%s by hour (UTC); maximum %s, %s", u.name, u.of(most), moment(r.at(highest))))
	for i := 0; i < len(r.hours); {
		day := atUTC(r.at(i))
		marks, cpu := strings.Repeat(" ", day.Hour()), 0.0
		for ; i < len(r.hours) && atUTC(r.at(i)).YearDay() == day.YearDay(); i++ {
			marks += mark(&r.hours[i], most)
			cpu += r.hours[i].CPU
		}
		line(fmt.Sprintf("  %s  %s%s  %8s", day.Format("Mon 02"), marks, strings.Repeat(" ", hoursOfDay-len([]rune(marks))), u.of(cpu)))
	}
	line("          0     6     12    18")
}

// at returns the time at which an hour began.
func (r *report) at(i int) float64 { return r.from + float64(i)*time.Hour.Seconds() }

// mark returns the bar of an hour, or a dot if the hour has no history.
func mark(h *api.HourRow, highest float64) string {
	const marks = "▁▂▃▄▅▆▇█"
	switch all := []rune(marks); {
	case h.At == 0:
		return "."
	case highest == 0:
		return string(all[0])
	default:
		return string(all[min(len(all)-1, int(h.CPU/highest*float64(len(all))))])
	}
}

func (r *report) printGroups(out *bytes.Buffer, width int) {
	u := unitOf(r.all.CPU)
	out.WriteByte('\n')
	g := view.NewTable("groups", u.name, "Part", "Requests", "P95", "Group")
	for _, row := range r.all.Groups {
		g.Add(u.of(row.CPU), view.Percent(row.CPU, r.all.CPU), view.Count(row.Requests), view.Duration(row.P95), row.Name)
	}
	g.Print(out, width)
	fmt.Fprintln(out, view.Cut("P95: in the slowest hour, 95 of 100 answers took no longer than this.", width))
}

// printTable prints the parts that certainly cost most. If a part wasn't among the most expensive ones in
// some hours, its cost in those hours is in the row for all others.
func (r *report) printTable(out *bytes.Buffer, title, column string, parts []api.HistoryPart, limit, width int) {
	u, others := unitOf(r.all.CPU), r.all.CPU
	certain := func(p api.HistoryPart) float64 { return max(0, p.CPU-p.Error) }
	slices.SortFunc(parts, func(a, b api.HistoryPart) int {
		return cmp.Or(cmp.Compare(certain(b), certain(a)), cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	out.WriteByte('\n')
	g := view.NewTable(title, u.name, "Part", "Requests", column)
	for _, p := range parts[:min(limit, len(parts))] {
		others -= certain(p)
		g.Add(u.of(certain(p)), view.Percent(certain(p), r.all.CPU), view.Count(p.Requests), cmp.Or(p.Name, "(none)"))
	}
	if others >= 0.005*u.seconds {
		g.Add(u.of(others), view.Percent(others, r.all.CPU), "", "all others")
	}
	g.Print(out, width)
}
