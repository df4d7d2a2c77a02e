package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"tempomat/config/form"
)

// Limit is how many requests each key of a class may make, beside what these
// cost. It is given as a bucket: Size requests at once, of which DripSize are
// forgotten each DripRate; or in the older form: Max requests in Duration,
// MinInterval apart. What is 0 is not given.
type Limit struct {
	Name        string        // in refusals, header fields and the log; each has another one
	Path        string        // as in exempt; empty: all paths
	Class       string        // whose keys are counted; a class that is on
	Size        int           // most requests at once
	DripRate    time.Duration // how often some are forgotten; 0: 1s
	DripSize    int           // how many are; 0: 1
	Max         int           // the older form
	Duration    time.Duration
	MinInterval time.Duration
	Strict      bool // counted in Redis, in one round trip before each request; else in this sidecar's memory
	Factors     Factors
}

// Factors divide the size of a limit, by who asks: 0.5 allows twice as much at
// once; 0 is no limit.
type Factors struct {
	Anonymous float64 // nothing is known of the client
	Session   float64 // it brought the site's cookie back
	Trusted   float64 // of a network of standing.trusted, or attested by the backend
}

// maxLimits is the most limits: every request is held against each.
const maxLimits = 64

// limitList reads the list of limits.
type limitList struct{ d *draft }

func (v limitList) Text() string {
	var texts []string
	for _, l := range v.d.Limits {
		texts = append(texts, describeLimit(l))
	}
	return strings.Join(texts, "; ")
}

func describeLimit(l Limit) string {
	var parts []string
	for _, s := range limitSettings(&l) {
		text := s.Value.Text()
		unset := text == "" || text == "0" || text == "0s" || text == "false"
		if strings.HasPrefix(s.Path, "factors.") {
			unset = text == "1"
		}
		if s.Path != "name" && !unset {
			parts = append(parts, s.Path+" "+text)
		}
	}
	return l.Name + ": " + strings.Join(parts, ", ")
}

func (v limitList) Spec() form.Spec {
	l := newLimit()
	return form.ListOfMappings(limitSettings(&l), maxLimits, 2)
}

func (v limitList) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	v.d.Limits = nil
	for here, item := range r.Mappings(at, n, maxLimits, "[{name: login, path: /login, size: 5, dripRate: 10s}]", "name and a limit") {
		l := newLimit()
		before := len(r.Faults)
		r.Mapping(here, item, "", limitSettings(&l))
		if len(r.Faults) == before {
			checkLimit(r, here, l, v.d.Limits)
		}
		v.d.Limits = append(v.d.Limits, l)
		v.d.limitSources = append(v.d.limitSources, here)
	}
}

// checkLimit checks what no single key of a limit can.
func checkLimit(r *form.Reader, at form.Source, l Limit, others []Limit) {
	bucket := l.Size != 0 || l.DripRate != 0 || l.DripSize != 0
	older := l.Max != 0 || l.Duration != 0 || l.MinInterval != 0
	switch {
	case l.Name == "":
		r.Fault(at, "", "has no name; a limit needs one")
	case bucket == older:
		r.Fault(at, "", "must have either size, with dripRate and dripSize, or max and duration, with minInterval")
	case bucket && l.Size == 0:
		r.Fault(at, "", "has no size")
	case older && (l.Max == 0 || l.Duration == 0) && l.MinInterval == 0:
		r.Fault(at, "", "limits nothing: max and duration need each other")
	}
	for _, o := range others {
		if o.Name == l.Name && l.Name != "" {
			r.Fault(at, form.Quoted(l.Name), "is the name of another limit already")
		}
	}
}

// validateLimits checks what limits need elsewhere.
func validateLimits(r *form.Reader, d *draft) {
	for i, l := range d.Limits {
		if l.Class == RobotClass && d.Robots.Enabled {
			continue
		}
		if c := d.class(l.Class); c == nil || c.off {
			r.Fault(d.limitSources[i].Under("class"), form.Quoted(l.Class), "is not the name of a class that is on")
		}
	}
}

// The most that a limit may be: so long, and so many.
const (
	mostDrip  = 366 * day
	mostCount = 1_000_000_000
)

func newLimit() Limit {
	return Limit{Class: "slash32", Factors: Factors{Anonymous: 1, Session: 1, Trusted: 1}}
}

func limitSettings(l *Limit) []form.Setting {
	count, period := form.Integer(1, mostCount), form.Duration(time.Millisecond, mostDrip)
	return []form.Setting{
		{Path: "name", Value: limitName().In(&l.Name), Required: true,
			Doc: "Its name in refusals, header fields and the log; each has another one."},
		{Path: "path", Value: pathPattern().In(&l.Path), Default: "all paths",
			Doc: "The path is this, or begins so if it ends in `*`; what follows a script's name (`/login.php/x`) is the script's, and `\\` counts as `/`, too. Paths with dot segments or `;` are limited by all that a backend may take them for."},
		{Path: "class", Value: limitName().In(&l.Class), Doc: "Whose keys are counted; a class that is on."},
		{Path: "size", Value: count.In(&l.Size), Unit: "requests", Default: "none; one of the two forms must be given", Doc: "Most requests at once."},
		{Path: "dripRate", Value: period.In(&l.DripRate), Default: "`1s`", Doc: "How often some are forgotten."},
		{Path: "dripSize", Value: count.In(&l.DripSize), Unit: "requests", Default: "`1`", Doc: "How many are."},
		{Path: "max", Value: count.In(&l.Max), Unit: "requests", Default: "none", Doc: "Most requests in `duration`."},
		{Path: "duration", Value: period.In(&l.Duration), Default: "none", Doc: "In which there are at most `max`."},
		{Path: "minInterval", Value: period.In(&l.MinInterval), Default: "none", Doc: "The time between two requests."},
		{Path: "strict", Value: form.Boolean().In(&l.Strict),
			Doc: "Counted in Redis, together with all other sidecars, in one round trip before each request, whose longest time is `coordination.redis.timeout`; while Redis is away the request passes. Otherwise each sidecar counts in its memory."},
		{Path: "factors.anonymous", Value: limitFactor().In(&l.Factors.Anonymous),
			Doc: "Divides the size for clients of whom nothing is known: 0.5 allows twice as many at once, 0 is no limit."},
		{Path: "factors.session", Value: limitFactor().In(&l.Factors.Session),
			Doc: "The same for those that brought the site's cookie back."},
		{Path: "factors.trusted", Value: limitFactor().In(&l.Factors.Trusted),
			Doc: "The same for those of `standing.trusted`, or that the backend attests."},
	}
}

func limitName() form.Scalar[string] {
	return form.Text("name", "1 to 32 letters, digits, `_` and `-`, begins with a letter", func(text string) error {
		if !className.MatchString(text) {
			return errors.New("must be 1 to 32 letters, digits, _ and -, and begin with a letter")
		}
		return nil
	}).Matching(className.String())
}

func limitFactor() form.Scalar[float64] {
	return form.Number("0 (no limit) or a number from 0.001 to 1000; 0.5 allows twice as much", 0, 1000,
		func(x float64) bool { return x == 0 || x >= 0.001 && x <= 1000 })
}

// limitsSettings are the keys of limits in requests.
func limitsSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "limits", Value: limitList{d},
			Doc: "How many requests each key of a class may make, beside what they cost."},
		{Path: "headers", Value: form.Choice("none", "ratelimit", "draft", "draft-credit").In(&d.Headers),
			Doc: "What tells clients how the limits stand: `ratelimit` the fields `X-RateLimit-Remaining`, `X-RateLimit-Clear` and, where the client was refused, `X-RateLimit-Reset`; `draft` the fields `RateLimit` and `RateLimit-Policy` of the IETF's draft; `draft-credit` these, and in them the client's own account in CPU milliseconds (`qu=\"cpu-milliseconds\"`), as it stood when the request came. If the backend sets one of them, its own go through and nothing is added."},
	}
}

// Rates and durations of a master's rules are written as the first master's
// configuration has them.
const (
	rateHelp   = `must be a rate such as 5/sec, "10 per minute" or 100/15min`
	periodHelp = "must be a duration such as 10s, 15min or 2 hours; a plain number is milliseconds"
)

// unitOf is the length of a unit of time; 0: there is none of that name.
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

// parsePeriod reads a duration: a whole number, or none, and a unit: ms, sec,
// min, hour, day, and their other spellings. Without a unit it is milliseconds.
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

// maxPeriod is the longest time of a rule.
const maxPeriod = 366 * 24 * time.Hour

// parseRate reads requests per time, such as 5/sec, and returns the interval
// between two of them, in whole milliseconds as the first master counts: 7/sec is
// 143 ms. More than a thousand a second it cannot hold, and does not take.
func parseRate(text string) (interval time.Duration, err error) {
	number, period, ok := cutRate(text)
	if !ok {
		return 0, errors.New(rateHelp)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return 0, errors.New(rateHelp)
	}
	length, err := parsePeriod(period)
	if err != nil || period == "" || length < time.Millisecond {
		return 0, errors.New(rateHelp)
	}
	ms := math.Round(float64(length.Milliseconds()) / float64(n))
	if ms < 1 {
		return 0, errors.New("is more than 2000 requests a second, which intervals of whole milliseconds cannot keep")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

var rateForm = regexp.MustCompile(`^\s*(\d+)\s*(?:per|/)\s*(.*?)\s*$`)

// cutRate cuts at the slash or the word per.
func cutRate(text string) (number, period string, ok bool) {
	m := rateForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// parseBurst reads a burst: a number of requests, or the time that they take at
// the rate.
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
