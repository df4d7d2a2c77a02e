package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tempomat/config/form"
)

// Limit sets how many requests each key of a class may make, regardless of their cost.
type Limit struct {
	Name   string     // a unique name for error pages, headers and the log
	Path   string     // a path or its beginning, as in exempt; empty: all paths
	Class  string     // the class whose keys are limited; it must be on
	Rate   Rate       // requests allowed on average
	Burst  int        // the most requests at once; 0: as many as Rate has
	Strict bool       // count in Redis, with one round trip before each request, instead of in this instance's memory
	Older  OlderLimit // keys of older forms; zero after translate
}

// AtOnce returns the number of requests that a key may make at once.
func (l Limit) AtOnce() int { return cmp.Or(l.Burst, l.Rate.Requests) }

// maxLimits is the largest number of limits. Every request is compared with each of them.
const maxLimits = 64

// limitList reads the list of limits.
func limitList() form.Members[Limit] {
	return form.Members[Limit]{
		Most: maxLimits, Example: "[{name: login, path: /login, rate: 5/min, burst: 10}]", Needs: "name and rate",
		New: func() Limit { return Limit{Class: "slash32"} }, Keys: limitSettings, Check: checkLimit,
	}
}

// checkLimit checks the combination of the keys of a limit. It returns an error, or an empty string.
func checkLimit(l *Limit, others []Limit) string {
	l.translate()
	switch {
	case l.Rate == Rate{}:
		return "has no rate, such as 5/min"
	case slices.ContainsFunc(others, func(o Limit) bool { return o.Name == l.Name }):
		return "has the same name as another limit, " + l.Name
	}
	return ""
}

// OlderLimit holds the keys of two older forms of a limit. The first form allows size requests at once, and
// dripSize more in each dripRate. The second form allows max requests per duration, or one per minInterval.
type OlderLimit struct {
	Size, DripSize, Max             int
	DripRate, Duration, MinInterval time.Duration
}

// translate converts the older forms into a rate and a burst.
func (l *Limit) translate() {
	o := l.Older
	l.Older = OlderLimit{}
	switch {
	case l.Rate != Rate{}:
	case o.Size > 0:
		l.Rate, l.Burst = Rate{max(o.DripSize, 1), cmp.Or(o.DripRate, time.Second)}, o.Size
	case o.Max > 0 && o.Duration > 0:
		l.Rate = Rate{o.Max, o.Duration}
	case o.MinInterval > 0:
		l.Rate = Rate{1, o.MinInterval}
	}
}

// limitSource returns the position of a limit in the file.
func limitSource(r *form.Reader, i int) form.Source { return r.Given["limits["+strconv.Itoa(i)+"]"] }

// validateLimits checks that each limit names a class that is on.
func validateLimits(r *form.Reader, d *draft) {
	on := d.enabled()
	if d.Robots.Enabled {
		on = append(on, RobotClass)
	}
	for i, l := range d.Limits {
		if !slices.Contains(on, l.Class) {
			r.Fault(limitSource(r, i).Under("class"), form.Quoted(l.Class), "is not the name of an enabled class"+insteadOf(l.Class, on))
		}
	}
}

// mostCount is the largest number of requests that a limit can allow.
const mostCount = 1_000_000_000

func limitSettings(l *Limit) []form.Setting {
	o := &l.Older
	count, period := form.Integer(1, mostCount), form.Duration(time.Millisecond, maxPeriod)
	const asRate = "write rate: 5/min, and burst: 10"
	return []form.Setting{
		{Path: "name", Value: limitName().In(&l.Name), Required: true},
		{Path: "path", Value: pathPattern().In(&l.Path)},
		{Path: "class", Value: limitName().In(&l.Class)},
		{Path: "rate", Value: rate().In(&l.Rate)},
		{Path: "burst", Value: count.In(&l.Burst)},
		{Path: "strict", Value: form.Boolean().In(&l.Strict)},
		{Path: "size", Value: count.In(&o.Size), Old: asRate},
		{Path: "dripRate", Value: period.In(&o.DripRate), Old: asRate},
		{Path: "dripSize", Value: count.In(&o.DripSize), Old: asRate},
		{Path: "max", Value: count.In(&o.Max), Old: asRate},
		{Path: "duration", Value: period.In(&o.Duration), Old: asRate},
		{Path: "minInterval", Value: period.In(&o.MinInterval), Old: asRate},
		{Path: "factors.anonymous", Gone: oneForAll},
		{Path: "factors.session", Gone: oneForAll},
		{Path: "factors.trusted", Gone: oneForAll},
	}
}

// oneForAll is the advice for keys that made limits depend on the client in earlier releases.
const oneForAll = "remove it: a limit is the same for all clients; list networks without limits in exempt"

func limitName() form.Scalar[string] {
	return form.Simple("must be 1 to 32 letters, digits, _ and -, and begin with a letter",
		func(text string) (string, bool) { return text, className.MatchString(text) })
}

// limitsSettings returns the keys for limits on the number of requests.
func limitsSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "limits", Value: limitList().In(&d.Limits), Nested: true},
		{Path: "headers", Value: form.Choice("none", "ratelimit", "draft", "draft-credit").In(&d.Headers)},
	}
}

// Rates, and the durations in a master's rules, use the syntax of the first Smockron master.
const (
	rateHelp   = `must be a rate such as 5/sec, "10 per minute" or 100/15min`
	periodHelp = "must be a duration such as 10s, 15min or 2 hours; a plain number is milliseconds"
)

// unitOf returns the length of a unit of time, or 0 if there is no such unit.
func unitOf(name string) time.Duration {
	switch name {
	case "", "ms", "msec":
		return time.Millisecond
	case "s", "sec", "second", "seconds":
		return time.Second
	case "m", "min", "minute", "minutes":
		return time.Minute
	case "h", "hr", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	}
	return 0
}

// parsePeriod parses a duration: an optional whole number and a unit such as ms, sec, min, hour or day.
// Without a unit, the number is in milliseconds.
func parsePeriod(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	unit := unitOf(strings.TrimSpace(text[digits:]))
	n := 1
	var err error
	if digits > 0 {
		n, err = strconv.Atoi(text[:digits])
	}
	if unit == 0 || text == "" || err != nil || n > int(maxPeriod/unit) {
		return 0, errors.New(periodHelp)
	}
	return time.Duration(n) * unit, nil
}

// maxPeriod is the longest duration in a rule.
const maxPeriod = 366 * 24 * time.Hour

// Rate is a number of requests in a period.
type Rate struct {
	Requests int
	Per      time.Duration
}

// Interval returns the time between two requests, rounded to whole milliseconds as the first master does. For
// 7/sec it is 143 ms.
func (r Rate) Interval() time.Duration {
	ms := math.Round(float64(r.Per.Milliseconds()) / float64(r.Requests))
	return time.Duration(max(ms, 1)) * time.Millisecond
}

func (r Rate) String() string {
	if r.Requests == 0 {
		return ""
	}
	per, unit := r.Per.Milliseconds(), "ms"
	for _, u := range []struct {
		name string
		of   int64
	}{{"sec", 1000}, {"min", 60}, {"hour", 60}, {"day", 24}} {
		if per%u.of != 0 {
			break
		}
		per, unit = per/u.of, u.name
	}
	if per == 1 {
		return fmt.Sprintf("%d/%s", r.Requests, unit)
	}
	return fmt.Sprintf("%d/%d%s", r.Requests, per, unit)
}

// parseRate parses a rate such as 5/sec. It rejects rates whose interval rounds to 0 ms.
func parseRate(text string) (r Rate, err error) {
	m := rateForm.FindStringSubmatch(text)
	if m == nil || m[2] == "" {
		return r, errors.New(rateHelp)
	}
	n, err := strconv.Atoi(m[1])
	length, e := parsePeriod(m[2])
	if err != nil || e != nil || n < 1 || n > mostCount || length < time.Millisecond {
		return r, errors.New(rateHelp)
	}
	if math.Round(float64(length.Milliseconds())/float64(n)) < 1 {
		return r, errors.New("is more than 2000 requests per second, too many for intervals of whole milliseconds")
	}
	return Rate{n, length}, nil
}

// rate reads a Rate.
func rate() form.Scalar[Rate] {
	return form.Scalar[Rate]{Parse: parseRate, Format: Rate.String}
}

// rateForm matches a number and a period, separated by a slash or the word per.
var rateForm = regexp.MustCompile(`^\s*(\d+)\s*(?:per|/)\s*(.*?)\s*$`)

// parseBurst parses a burst: a number of requests, or the time that the requests take at the given interval.
func parseBurst(text string, interval time.Duration) (time.Duration, error) {
	text = strings.TrimSpace(text)
	burst, err := parsePeriod(text)
	if n, e := strconv.Atoi(text); e == nil {
		if n < 1 || n > int(maxPeriod/interval) {
			return 0, fmt.Errorf("must be a number of requests from 1 to %d, or a duration such as 10s", maxPeriod/interval)
		}
		burst, err = time.Duration(n)*interval, nil
	}
	if err != nil || burst < time.Millisecond {
		return 0, errors.New("must be a number of requests, or a duration such as 10s")
	}
	return burst, nil
}
