package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Where things are in a chart, in its own units.
const (
	chartWidth  = 960.0
	chartHeight = 240.0
	chartLeft   = 48.0 // of the bars: the scale is before them
	chartTop    = 10.0
	chartBottom = 210.0 // the days and hours are below
)

// chart is bars of several parts, one bar for each hour.
type chart struct {
	ID, Title, Desc string
	Width, Height   float64
	Left, Bottom    float64
	Top             float64
	Bars            []chartBar
	Unknown         string // a line below the hours of which nothing is known
	Grid, Ticks     []chartMark
	Series          []chartSeries // the parts, the lowest first
}

// chartSeries is what one part of each bar is of.
type chartSeries struct {
	Name string
	Fill int    // the number of the page's pattern
	Path string // around its part of all bars: one shape, as a pattern takes much room on paper
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

// newChart draws the hours. value is what an hour has of each series, label what it is in
// words.
func newChart(hours []reportHour, series []chartSeries, value func(reportHour) []float64, label func(reportHour) string) *chart {
	c := &chart{Width: chartWidth, Height: chartHeight, Left: chartLeft, Top: chartTop, Bottom: chartBottom, Series: series}
	highest := 0.0
	for _, h := range hours {
		highest = max(highest, total(value(h)))
	}
	step, digits := gridStep(highest)
	top := max(step, step*math.Ceil(highest/step))
	scale := (chartBottom - chartTop) / top
	for i := 0; float64(i)*step <= top*1.0001; i++ {
		y := float64(i) * step
		c.Grid = append(c.Grid, chartMark{inTenths(chartBottom - y*scale), strconv.FormatFloat(y, 'f', digits, 64)})
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
		y := chartBottom
		for s, x := range value(h) {
			if height := inTenths(x * scale); height > 0 {
				y = inTenths(y - height)
				series[s].Path += fmt.Sprintf("M%v %vh%vv%vh-%vz", bar.X, y, bar.Width, height, bar.Width)
			}
		}
	}
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

// useChart is who used the CPUs. A CPU-hour in an hour is a CPU.
func (r *report) useChart() *chart {
	var names []chartSeries
	for i, g := range r.Groups {
		names = append(names, chartSeries{Name: printable(g.Name), Fill: i})
	}
	u := unitOf(r.CPU)
	c := newChart(r.ByHour, names, func(h reportHour) (cpus []float64) {
		for _, x := range h.Groups {
			cpus = append(cpus, x/time.Hour.Seconds())
		}
		return cpus
	}, func(h reportHour) string {
		if !h.Known {
			return moment(h.At) + ": nothing is known"
		}
		texts := []string{moment(h.At) + ": " + u.of(h.CPU) + " " + u.name}
		for i, x := range h.Groups {
			if x > 0 {
				texts = append(texts, names[i].Name+" "+u.of(x))
			}
		}
		return strings.Join(texts, ", ")
	})
	highest := r.highest()
	c.ID, c.Title = "use", "CPUs in use, hour by hour"
	c.Desc = fmt.Sprintf("The highest hour is %s with %s %s. The figures are in the table %q.", moment(highest.At), u.of(highest.CPU), u.name, r.periodsTitle())
	return c
}

// fillTurned is the first of the page's patterns that no group has.
const fillTurned = 5

// turnedChart is who was turned away; nil if nobody was.
func (r *report) turnedChart() *chart {
	if r.Refused+r.Redirected == 0 {
		return nil
	}
	c := newChart(r.ByHour, []chartSeries{{Name: "refused", Fill: fillTurned}, {Name: "redirected", Fill: fillTurned + 1}}, func(h reportHour) []float64 {
		return []float64{float64(h.Refused), float64(h.Redirected)}
	}, func(h reportHour) string {
		if !h.Known {
			return moment(h.At) + ": nothing is known"
		}
		return fmt.Sprintf("%s: %s refused, %s redirected", moment(h.At), grouped(h.Refused), grouped(h.Redirected))
	})
	c.ID, c.Title = "turned", "Requests refused and redirected, hour by hour"
	c.Desc = fmt.Sprintf("%s requests were refused, %s redirected. The figures are in the table %q.", grouped(r.Refused), grouped(r.Redirected), r.periodsTitle())
	return c
}
