package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/show"
	"tempomat/config"
	"tempomat/proxy/admin/api"
)

// The hours that a report may be of.
const (
	hoursOfDay = 24
	mostHours  = 168
)

// reportChoice is what the flags of the report choose.
type reportChoice struct {
	hours, limit int
	json         bool
	sockets      []string
}

// report shows which clients used the server.
func (d *doctor) report() *cobra.Command {
	var ask reportChoice
	c := &cobra.Command{
		Use:   "report",
		Short: "Show which clients used the server in the last day, or week",
		Long: `Show the use of the server in the last hours: the cost of groups of clients, keys of each
class, URL shapes and URLs. With several sockets, add up the hours of several proxies.`,
		Example: `  tempomat-doctor report                      the last day
  tempomat-doctor report --hours 168          the last week
  tempomat-doctor report --socket A --socket B   of several proxies together`,
		Args: func(c *cobra.Command, args []string) error {
			return errors.Join(daemon.Arguments(0)(c, args), ask.check())
		},
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := d.askHistory(c.Context(), ask)
			if err != nil {
				return err
			}
			if ask.json {
				return d.printJSON(r)
			}
			r.print(&d.out, ask.limit, cmp.Or(d.screen().width, reportWidth))
			return nil
		},
	}
	f := c.Flags()
	f.IntVar(&ask.hours, "hours", hoursOfDay, "number of hours, 1 to 168")
	f.IntVar(&ask.limit, "limit", rowsOfEach, "rows of each table of the text")
	asJSON(c, &ask.json)
	f.Lookup("json").Usage = "print a JSON document"
	f.StringArrayVar(&ask.sockets, "socket", nil, "the admin socket; may be given several times")
	return c
}

// check tells what of the choice is not allowed.
func (ask reportChoice) check() error {
	var faults []error
	if ask.hours < 1 || ask.hours > mostHours {
		faults = append(faults, fmt.Errorf("--hours %d: must be 1 to %d", ask.hours, mostHours))
	}
	if ask.limit < 1 {
		faults = append(faults, fmt.Errorf("--limit %d: must be at least 1", ask.limit))
	}
	return errors.Join(faults...)
}

// askHistory asks all proxies, and adds up their hours.
func (d *doctor) askHistory(ctx context.Context, ask reportChoice) (*report, error) {
	clients := []*client{d.client()}
	if len(ask.sockets) > 0 {
		clients = nil
	}
	for _, socket := range ask.sockets {
		clients = append(clients, newClient("tempomat-proxy", cmp.Or(socket, config.Default().Admin.Listen), "--socket"))
	}
	var replies []api.HistoryReply
	for _, c := range clients {
		var reply api.HistoryReply
		if err := c.Get(ctx, "/v1/history", url.Values{"hours": {strconv.Itoa(ask.hours)}}, &reply); err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	r := sum(replies, ask.hours)
	if r == nil {
		return nil, errors.New("there is no history yet: the proxy has only just started. Try again in an hour")
	}
	return r, nil
}

// mostReported is how many rows of each kind a report has.
const mostReported = 50

// The documents of a report. Times are Unix times in seconds, CPU is in CPU-seconds.
type (
	// report is who used the server in some hours.
	report struct {
		Version int           `json:"version"`
		From    float64       `json:"from"` // the beginning of the first hour
		To      float64       `json:"to"`   // the end of the last one, which still runs
		Since   float64       `json:"since"`
		Proxies int           `json:"proxies"`
		Groups  []reportRow   `json:"groups"`  // known, newcomers, strangers, robots, exempt
		Classes []reportClass `json:"classes"` // in configured order
		Shapes  reportTable   `json:"shapes"`
		URLs    reportTable   `json:"urls"`
		ByHour  []reportHour  `json:"byHour"` // all from From to To
		reportTotals
	}
	// reportTotals is what all requests together did.
	reportTotals struct {
		CPU        float64 `json:"cpu"`
		Wasted     float64 `json:"wasted"`
		Requests   uint64  `json:"requests"`
		Refused    uint64  `json:"refused"`
		Redirected uint64  `json:"redirected"`
	}
	// reportHour is an hour. What is not known is all 0.
	reportHour struct {
		At    float64 `json:"at"`
		Known bool    `json:"known"`
		reportTotals
	}
	// reportClass is the keys of a class that cost most.
	reportClass struct {
		Class string `json:"class"`
		reportTable
	}
	// reportTable is what cost most, by what is certain, and what all others cost.
	reportTable struct {
		Rows   []reportRow `json:"rows"`
		Others float64     `json:"others"`
	}
	// reportRow is what a part cost, at least. In hours in which it was none of the dearest
	// it may have cost something, which is among the others; so may Error of what it is
	// thought to have cost.
	reportRow struct {
		Name     string  `json:"name"`
		CPU      float64 `json:"cpu"`
		Error    float64 `json:"error"`
		Part     float64 `json:"part"` // of all CPU, 0 to 1
		Requests uint64  `json:"requests"`
		P95      float64 `json:"p95,omitempty"`   // of groups: in the slowest hour, in seconds
		P95At    float64 `json:"p95At,omitempty"` // that hour
	}
)

// adder adds rows up by name, in the order in which they came.
type adder struct {
	rows  []*reportRow
	names map[string]*reportRow
}

func (a *adder) add(parts []api.HistoryPart, at float64) {
	for _, p := range parts {
		row := a.names[p.Name]
		if row == nil {
			row = &reportRow{Name: p.Name}
			a.names[p.Name] = row
			a.rows = append(a.rows, row)
		}
		row.CPU += max(0, p.CPU-p.Error)
		row.Error += p.Error
		row.Requests += p.Requests
		if p.P95 > row.P95 {
			row.P95, row.P95At = p.P95, at
		}
	}
}

// all returns the rows as they came.
func (a *adder) all(total float64) []reportRow {
	rows := make([]reportRow, 0, len(a.rows))
	for _, r := range a.rows {
		if total > 0 {
			r.Part = r.CPU / total
		}
		rows = append(rows, *r)
	}
	return rows
}

// table returns the most expensive rows.
func (a *adder) table(total float64) reportTable {
	t := reportTable{Rows: a.all(total)}
	slices.SortFunc(t.Rows, func(b, c reportRow) int {
		return cmp.Or(cmp.Compare(c.CPU, b.CPU), cmp.Compare(c.Requests, b.Requests), strings.Compare(b.Name, c.Name))
	})
	t.Rows = t.Rows[:min(len(t.Rows), mostReported)]
	t.Others = total
	for _, r := range t.Rows {
		t.Others -= r.CPU
	}
	t.Others = max(0, t.Others)
	return t
}

// sum adds up what proxies told of their last hours; nil if none of them told anything.
func sum(replies []api.HistoryReply, hours int) *report {
	r := &report{Version: api.Version, Proxies: len(replies)}
	for _, reply := range replies {
		if n := len(reply.Hours); n > 0 {
			r.To = max(r.To, reply.Hours[n-1].At+time.Hour.Seconds())
			if r.Since == 0 || reply.Since < r.Since {
				r.Since = reply.Since
			}
		}
	}
	if r.To == 0 {
		return nil
	}
	r.From = r.To - float64(hours)*time.Hour.Seconds()
	for i := range hours {
		r.ByHour = append(r.ByHour, reportHour{At: r.From + float64(i)*time.Hour.Seconds()})
	}
	newAdder := func() *adder { return &adder{names: make(map[string]*reportRow)} }
	groups, shapes, pages := newAdder(), newAdder(), newAdder()
	var classes []string // in configured order
	keys := make(map[string]*adder)
	for _, reply := range replies {
		for _, row := range reply.Hours {
			i := int((row.At - r.From) / time.Hour.Seconds())
			if row.At < r.From || i >= hours {
				continue
			}
			r.ByHour[i].Known = true
			r.ByHour[i].add(row)
			r.add(row)
			groups.add(row.Groups, row.At)
			shapes.add(row.Shapes, row.At)
			pages.add(row.URLs, row.At)
			for _, c := range row.Classes {
				if keys[c.Class] == nil {
					keys[c.Class] = newAdder()
					classes = append(classes, c.Class)
				}
				keys[c.Class].add(c.Keys, row.At)
			}
		}
	}
	r.Groups = groups.all(r.CPU)
	r.Shapes, r.URLs = shapes.table(r.CPU), pages.table(r.CPU)
	for _, name := range classes {
		r.Classes = append(r.Classes, reportClass{name, keys[name].table(r.CPU)})
	}
	return r
}

func (t *reportTotals) add(row api.HourRow) {
	t.CPU += row.CPU
	t.Wasted += row.Wasted
	t.Requests += row.Requests
	t.Refused += row.Refused
	t.Redirected += row.Redirected
}

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
func (u unit) of(seconds float64) string { return show.Decimals(seconds/u.seconds, 2) }

func atUTC(unix float64) time.Time { return time.Unix(int64(unix), 0).UTC() }

// moment is an hour, short.
func moment(unix float64) string { return atUTC(unix).Format("Mon 15:04") }

const dateAndTime = "Mon 2006-01-02 15:04"

// title is what the report is of.
func (r *report) title() string {
	switch hours := len(r.ByHour); hours {
	case 1:
		return "Use of the server in the last hour"
	case mostHours:
		return "Use of the server in the last week"
	default:
		return fmt.Sprintf("Use of the server in the last %d hours", hours)
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
	return show.Decimals(cpu/float64(over)/time.Hour.Seconds(), 2) + " CPUs on average"
}

// print prints the report as text.
func (r *report) print(out *bytes.Buffer, limit, width int) {
	line := func(text string) { fmt.Fprintln(out, show.Cut(text, width)) }
	line(r.title())
	line(fmt.Sprintf("%s to %s UTC; the last hour still runs.", atUTC(r.From).Format(dateAndTime), atUTC(r.To).Format(dateAndTime)))
	if r.Proxies > 1 {
		line(fmt.Sprintf("%d proxies together.", r.Proxies))
	}
	missing := 0
	for _, h := range r.ByHour {
		if !h.Known {
			missing++
		}
	}
	if missing > 0 {
		line(fmt.Sprintf("Nothing is known of %d of these hours: no history was kept then.", missing))
	}
	line("")
	r.printTotals(line)
	line("")
	r.printDays(line)
	r.printGroups(out, width)
	u := unitOf(r.CPU)
	for _, c := range r.Classes {
		c.print(out, "class "+c.Class, "Key", u, limit, width)
	}
	r.Shapes.print(out, "URL shapes", "Shape", u, limit, width)
	r.URLs.print(out, "URLs", "URL", u, limit, width)
	line("")
	line("Each row shows the least that it cost; the uncertain rest is in all others.")
	line("A * replaces secrets, and parts that few known people asked for.")
}

// printTotals prints what all requests together did.
func (r *report) printTotals(line func(string)) {
	u := unitOf(r.CPU)
	ratio := func(part, of float64) string {
		if of == 0 {
			return ""
		}
		return show.Percent(part, of)
	}
	requests := float64(r.Requests)
	for _, f := range []struct{ name, value, means string }{
		{"CPU", u.of(r.CPU) + " " + u.name, r.average()},
		{"Wasted", u.of(r.Wasted) + " " + u.name, strings.TrimSpace(ratio(r.Wasted, r.CPU) + " for clients that had disconnected")},
		{"Requests", show.Count(r.Requests), ""},
		{"Refused", show.Count(r.Refused), ratio(float64(r.Refused), requests)},
		{"Redirected", show.Count(r.Redirected), ratio(float64(r.Redirected), requests)},
	} {
		line(strings.TrimRight(fmt.Sprintf("%-10s  %16s  %s", f.name, f.value, f.means), " "))
	}
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

func (r *report) printGroups(out *bytes.Buffer, width int) {
	u := unitOf(r.CPU)
	out.WriteByte('\n')
	g := show.NewTable("groups", u.name, "Part", "Requests", "P95", "Slowest", "Group")
	for _, row := range r.Groups {
		then := "-"
		if row.P95 > 0 {
			then = moment(row.P95At)
		}
		g.Add(u.of(row.CPU), show.Percent(row.Part, 1), show.Count(row.Requests), show.Duration(row.P95), then, row.Name)
	}
	g.Print(out, width)
	fmt.Fprintln(out, show.Cut("P95: in the slowest hour, 95 of 100 answers took no longer.", width))
}

func (t reportTable) print(out *bytes.Buffer, title, column string, u unit, limit, width int) {
	out.WriteByte('\n')
	g := show.NewTable(title, u.name, "Part", "Requests", column)
	others := t.Others
	for i, row := range t.Rows {
		if i >= limit {
			others += row.CPU
			continue
		}
		g.Add(u.of(row.CPU), show.Percent(row.Part, 1), show.Count(row.Requests), cmp.Or(row.Name, "(none)"))
	}
	total := others
	for _, row := range t.Rows[:min(limit, len(t.Rows))] {
		total += row.CPU
	}
	if others >= 0.005*u.seconds {
		g.Add(u.of(others), show.Percent(others, total), "", "all others")
	}
	g.Print(out, width)
}
