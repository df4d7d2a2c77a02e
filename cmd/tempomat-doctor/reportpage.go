package main

import (
	_ "embed" // the page
	"html/template"
	"io"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

//go:embed reportpage.html
var reportPage string

// page is a report as the page shows it.
type page struct {
	Title, Period, Unit string
	Remarks             []string
	Explanation         []string
	Figures             []figure
	Charts              []*chart
	Groups              []pageRow
	Tables              []pageTable
	PeriodsTitle        string
	PeriodNames         []string
	Periods             []pagePeriod
	Version             string
}

// pageTable is one table of what cost most.
type pageTable struct {
	ID, Title, Column string
	Rows              []pageRow
	Others            *pageRow // nil: there are none
}

// pageRow is a row of a table.
type pageRow struct {
	Name, CPU, Part, Requests, P95, Then string
	Width                                float64 // of its bar, 0 to 100
}

// pagePeriod is an hour, or a day.
type pagePeriod struct {
	At                               string
	Groups                           []string
	CPU, Requests, Refused, Redirect string
}

// writePage writes the report as one page of HTML, which needs nothing else and runs
// nothing. Names that clients chose are escaped twice: so that they command no terminal
// and change no direction of writing, and as HTML.
func (r *report) writePage(w io.Writer) error {
	t, err := template.New("report").Parse(reportPage)
	if err != nil {
		return err
	}
	return t.Execute(w, r.page())
}

func (r *report) page() page {
	u := unitOf(r.CPU)
	p := page{
		Title: r.title(), Period: r.period(), Unit: u.name, Remarks: r.remarks(), Explanation: r.explanation(),
		Figures: r.figures(), Charts: []*chart{r.useChart(), r.slowChart()}, PeriodsTitle: r.periodsTitle(), Version: version,
	}
	if c := r.turnedChart(); c != nil {
		p.Charts = append(p.Charts, c)
	}
	for _, g := range r.Groups {
		p.PeriodNames = append(p.PeriodNames, harmless.Text(g.Name))
		row := g.shown(u)
		if row.P95, row.Then = figures.Duration(g.P95), "-"; g.P95 > 0 {
			row.Then = moment(g.P95At)
		}
		p.Groups = append(p.Groups, row)
	}
	for _, c := range r.Classes {
		p.Tables = append(p.Tables, c.shown("class-"+harmless.Text(c.Class), "Class "+harmless.Text(c.Class), "Key", u, r.CPU))
	}
	p.Tables = append(p.Tables,
		r.Shapes.shown("shapes", "URL shapes: paths without what tells one page from the next", "Shape", u, r.CPU),
		r.URLs.shown("urls", "URLs", "URL", u, r.CPU))
	for _, h := range r.periods() {
		p.Periods = append(p.Periods, h.shown(u, len(r.ByHour) > 2*hoursOfDay))
	}
	return p
}

func (row reportRow) shown(u unit) pageRow {
	return pageRow{
		Name: shownName(row.Name), CPU: u.of(row.CPU), Part: figures.Percent(row.Part, 1), Requests: figures.Count(row.Requests),
		Width: inTenths(100 * row.Part),
	}
}

func (t reportTable) shown(id, title, column string, u unit, total float64) pageTable {
	shown := pageTable{ID: id, Title: title, Column: column}
	for _, row := range t.Rows {
		shown.Rows = append(shown.Rows, row.shown(u))
	}
	if t.Others >= 0.005*u.seconds {
		others := reportRow{Name: "all others", CPU: t.Others, Part: t.Others / total}.shown(u)
		shown.Others = &others
	}
	return shown
}

// periodsTitle names the table of the hours, or days.
func (r *report) periodsTitle() string {
	if len(r.ByHour) > 2*hoursOfDay {
		return "Day by day"
	}
	return "Hour by hour"
}

// periods are the hours, or the days where there are many hours.
func (r *report) periods() []reportHour {
	if len(r.ByHour) <= 2*hoursOfDay {
		return r.knownHours()
	}
	var days []reportHour
	for _, h := range r.knownHours() {
		at := float64(atUTC(h.At).Truncate(hoursOfDay * time.Hour).Unix())
		if len(days) == 0 || days[len(days)-1].At != at {
			days = append(days, reportHour{At: at, Groups: make([]float64, len(h.Groups))})
		}
		day := &days[len(days)-1]
		day.CPU += h.CPU
		day.Requests += h.Requests
		day.Refused += h.Refused
		day.Redirected += h.Redirected
		for i, x := range h.Groups {
			day.Groups[i] += x
		}
	}
	return days
}

func (h reportHour) shown(u unit, day bool) pagePeriod {
	p := pagePeriod{
		At: atUTC(h.At).Format("Mon 2 Jan 15:04"), CPU: u.of(h.CPU), Requests: figures.Count(h.Requests),
		Refused: figures.Count(h.Refused), Redirect: figures.Count(h.Redirected),
	}
	if day {
		p.At = atUTC(h.At).Format("Mon 2 Jan")
	}
	for _, x := range h.Groups {
		p.Groups = append(p.Groups, u.of(x))
	}
	return p
}
