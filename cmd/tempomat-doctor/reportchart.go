package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

// Where things are in a chart, in its own units.
const (
	chartWidth  = 960.0
	chartHeight = 240.0
	chartLeft   = 48.0 // of the bars: the scale is before them
	chartTop    = 10.0
	chartBottom = 210.0 // the days and hours are below
)

// chart is bars of several parts, one bar for each hour, or lines.
type chart struct {
	ID, Title, Desc string
	Width, Height   float64
	Left, Bottom    float64
	Top             float64
	Bars            []chartBar
	Unknown         string // a line below the hours of which nothing is known
	Grid, Ticks     []chartMark
	Lines           bool
	Series          []chartSeries // the parts, the lowest first
}

// chartSeries is what one part of each bar is of.
type chartSeries struct {
	Name string
	Fill int    // the number of the page's pattern
	Path string // its line, or around its part of all bars: one shape, as a pattern takes much room on paper
}

// chartBar is where an hour is, and what it is in words.
type chartBar struct {
	X, Width float64
	Label    string
}

// chartMark is a line of the grid, or a place below the bars.
type chartMark struct {
	At   float64
	Text string
}

// newFrame is a chart of the hours without its series: the scale up to the highest value,
// the grid, the days, and what each hour is in words. up is what height a value has.
func newFrame(hours []reportHour, highest float64, label func(reportHour) string) (c *chart, up func(value float64) float64) {
	c = &chart{Width: chartWidth, Height: chartHeight, Left: chartLeft, Top: chartTop, Bottom: chartBottom}
	step, digits := gridStep(highest)
	top := max(step, step*math.Ceil(highest/step))
	up = func(value float64) float64 { return inTenths(value * (chartBottom - chartTop) / top) }
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		value := float64(i) * step
		c.Grid = append(c.Grid, chartMark{inTenths(chartBottom - up(value)), strconv.FormatFloat(value, 'f', digits, 64)})
	}
	each := (chartWidth - chartLeft) / float64(len(hours))
	for i, h := range hours {
		bar := chartBar{X: inTenths(chartLeft + float64(i)*each), Width: inTenths(each * 0.86), Label: label(h)}
		if at := atUTC(h.At); at.Hour() == 0 || len(hours) <= 2*hoursOfDay && at.Hour()%6 == 0 {
			c.Ticks = append(c.Ticks, chartMark{bar.X, tickText(at)})
		}
		if !h.Known {
			c.Unknown += fmt.Sprintf("M%v %vh%v", bar.X, c.Bottom, bar.Width)
		}
		c.Bars = append(c.Bars, bar)
	}
	return c, up
}

// stackedChart draws the hours as bars of several parts. value is what an hour has of each
// series, label what it is in words.
func stackedChart(hours []reportHour, series []chartSeries, value func(reportHour) []float64, label func(reportHour) string) *chart {
	highest := 0.0
	for _, h := range hours {
		highest = max(highest, total(value(h)))
	}
	c, up := newFrame(hours, highest, label)
	for i, h := range hours {
		bar, y := c.Bars[i], chartBottom
		for s, x := range value(h) {
			if height := up(x); height > 0 {
				y = inTenths(y - height)
				series[s].Path += fmt.Sprintf("M%v %vh%vv%vh-%vz", bar.X, y, bar.Width, height, bar.Width)
			}
		}
	}
	c.Series = series
	return c
}

// lineChart draws a line for each series, with a gap where an hour has nothing of it. A
// single hour between two gaps is a short line.
func lineChart(hours []reportHour, series []chartSeries, value func(reportHour) []float64, label func(reportHour) string) *chart {
	highest := 0.0
	for _, h := range hours {
		for _, x := range value(h) {
			highest = max(highest, x)
		}
	}
	c, up := newFrame(hours, highest, label)
	c.Lines = true
	for s := range series {
		drawn := false
		for i, h := range hours {
			x := value(h)[s]
			if x > 0 {
				command := map[bool]string{false: "M", true: "L"}[drawn]
				series[s].Path += fmt.Sprintf("%s%v %vh%v", command, c.Bars[i].X, inTenths(chartBottom-up(x)), c.Bars[i].Width)
			}
			drawn = x > 0
		}
	}
	c.Series = series
	return c
}

func tickText(at time.Time) string {
	if at.Hour() == 0 {
		return at.Format("Mon 2 Jan")
	}
	return at.Format("15:04")
}

func total(values []float64) (sum float64) {
	for _, x := range values {
		sum += x
	}
	return sum
}

// inTenths leaves as much as can be seen.
func inTenths(x float64) float64 { return math.Round(x*10) / 10 }

// gridStep is a round number of which four or so reach the highest value, and how many
// digits it has behind the point.
func gridStep(highest float64) (step float64, digits int) {
	if !(highest > 0) {
		return 1, 0
	}
	power := math.Floor(math.Log10(highest / 4))
	step = math.Pow(10, power)
	for _, times := range []float64{2, 5, 10} {
		if highest/step <= 5 {
			break
		}
		step = times * math.Pow(10, power)
	}
	return step, max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
}

// groupSeries are the groups.
func (r *report) groupSeries() (series []chartSeries) {
	for i, g := range r.Groups {
		series = append(series, chartSeries{Name: harmless.Text(g.Name), Fill: i})
	}
	return series
}

// byGroup is what an hour is in words: all, and what there is of each group.
func (r *report) byGroup(h reportHour, all string, values []float64, text func(float64) string) string {
	if !h.Known {
		return moment(h.At) + ": nothing is known"
	}
	texts := []string{moment(h.At) + all}
	for i, x := range values {
		if x > 0 {
			texts = append(texts, harmless.Text(r.Groups[i].Name)+" "+text(x))
		}
	}
	return strings.Join(texts, ", ")
}

// useChart is who used the CPUs. A CPU-hour in an hour is a CPU.
func (r *report) useChart() *chart {
	u := unitOf(r.CPU)
	c := stackedChart(r.ByHour, r.groupSeries(), func(h reportHour) (cpus []float64) {
		for _, x := range h.Groups {
			cpus = append(cpus, x/time.Hour.Seconds())
		}
		return cpus
	}, func(h reportHour) string {
		return r.byGroup(h, ": "+u.of(h.CPU)+" "+u.name, h.Groups, u.of)
	})
	highest := r.highest()
	c.ID, c.Title = "use", "CPUs in use, hour by hour"
	c.Desc = fmt.Sprintf("The highest hour is %s with %s %s. The figures are in the table %q.", moment(highest.At), u.of(highest.CPU), u.name, r.periodsTitle())
	return c
}

// slowChart is how long groups waited for their answers.
func (r *report) slowChart() *chart {
	c := lineChart(r.ByHour, r.groupSeries(), func(h reportHour) []float64 { return h.P95 }, func(h reportHour) string {
		return r.byGroup(h, "", h.P95, figures.Duration)
	})
	c.ID, c.Title = "slow", "Seconds that 95 of 100 answers took at most, hour by hour"
	c.Desc = `The slowest hour of each group is in the table "Groups".`
	return c
}

// fillTurned is the first of the page's patterns that no group has.
const fillTurned = 5

// turnedChart is who was turned away; nil if nobody was.
func (r *report) turnedChart() *chart {
	if r.Refused+r.Redirected == 0 {
		return nil
	}
	c := stackedChart(r.ByHour, []chartSeries{{Name: "refused", Fill: fillTurned}, {Name: "redirected", Fill: fillTurned + 1}}, func(h reportHour) []float64 {
		return []float64{float64(h.Refused), float64(h.Redirected)}
	}, func(h reportHour) string {
		if !h.Known {
			return moment(h.At) + ": nothing is known"
		}
		return fmt.Sprintf("%s: %s refused, %s redirected", moment(h.At), figures.Count(h.Refused), figures.Count(h.Redirected))
	})
	c.ID, c.Title = "turned", "Requests refused and redirected, hour by hour"
	c.Desc = fmt.Sprintf("%s requests were refused, %s redirected. The figures are in the table %q.", figures.Count(r.Refused), figures.Count(r.Redirected), r.periodsTitle())
	return c
}
