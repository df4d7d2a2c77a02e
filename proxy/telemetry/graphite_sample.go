package telemetry

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tempomat/classify/class"
	"tempomat/limiter"
)

// sample writes the statistics of this moment in Graphite's plaintext protocol:
// one line "series value unixtime" each, classes first, then totals by name.
func (g *Graphite) sample() []byte {
	now := g.o.Now()
	delayed := make(map[string]int)
	g.o.Ledger.Dump(now, "", func(r limiter.Row) bool {
		if r.Wait > g.o.Threshold.Seconds() {
			delayed[r.Class]++
		}
		return true
	})
	var totals map[string]float64
	if g.o.Totals != nil {
		totals = g.o.Totals()
	}
	var out []byte
	line := func(series string, value float64) {
		out = append(out, g.prefix...)
		out = append(out, series...)
		out = append(out, ' ')
		out = strconv.AppendFloat(out, value, 'f', -1, 64)
		out = append(out, ' ')
		out = strconv.AppendInt(out, now.Unix(), 10)
		out = append(out, '\n')
	}
	for _, c := range g.o.Ledger.Classes() {
		series := seriesName(c.Name)
		if _, taken := totals[series]; taken { // a class of one's own named "requests"
			series = "class_" + series
		}
		line(series, float64(delayed[c.Name]))
	}
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		if v := totals[name]; !math.IsNaN(v) && !math.IsInf(v, 0) { // Graphite has no number for them
			line(name, v)
		}
	}
	return out
}

// seriesName is the name of a class in statistics: the original's for the
// usual classes, so that its users' dashboards go on, else the class's own
// without what has a meaning in a series' name.
func seriesName(name string) string {
	if k, _ := class.Find(name); k.Usual {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, name)
}

// graphitePrefix is what stands before each series, its last dot included.
// The host's name goes in as it is: the original did that, and the dots of
// web1.example.com make the tree that its users' dashboards look in. What would
// break the line is replaced.
func graphitePrefix(prefix, hostname string) string {
	p := strings.ReplaceAll(prefix, "{hostname}", hostname)
	p = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, p)
	p = strings.TrimRight(p, ".")
	if p == "" {
		return ""
	}
	return p + "."
}
