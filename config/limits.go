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

// Limit is how many requests each key of a class may make, in addition to what these cost.
type Limit struct {
	Name   string     // in refusals, header fields and the log; each has another one
	Path   string     // as in exempt; empty: all paths
	Class  string     // whose keys are counted; a class that is on
	Rate   Rate       // how many in the long run
	Burst  int        // most at once; 0: as many as Rate has
	Strict bool       // counted in Redis, in one round trip before each request; else in this sidecar's memory
	Older  OlderLimit // zero, once it is read
}

// AtOnce is the most requests at once.
func (l Limit) AtOnce() int { return cmp.Or(l.Burst, l.Rate.Requests) }

// maxLimits is the most limits: every request is held against each.
const maxLimits = 64

// limitList is the list of limits.
func limitList() form.Members[Limit] {
	return form.Members[Limit]{
		Most: maxLimits, Least: 2, Example: "[{name: login, path: /login, rate: 5/min, burst: 10}]", Needs: "name and rate",
		New: func() Limit { return Limit{Class: "slash32"} }, Keys: limitSettings, Check: checkLimit,
	}
}

// checkLimit checks what no single key of a limit can.
func checkLimit(l *Limit, others []Limit) string {
	l.translate()
	switch {
	case l.Rate == Rate{}:
		return "has no rate, such as 5/min"
	case slices.ContainsFunc(others, func(o Limit) bool { return o.Name == l.Name }):
		return "has the name of another limit, " + l.Name
	}
	return ""
}

// OlderLimit is a limit in one of the two forms of earlier releases: size requests at once,
// dripSize of them forgotten each dripRate; or max requests in duration, or one in each
// minInterval.
type OlderLimit struct {
	Size, DripSize, Max             int
	DripRate, Duration, MinInterval time.Duration
}

// translate makes a rate and a burst of an older form.
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

// limitSource is where a limit stands.
func limitSource(r *form.Reader, i int) form.Source { return r.Given["limits["+strconv.Itoa(i)+"]"] }

// validateLimits checks what limits need elsewhere.
func validateLimits(r *form.Reader, d *draft) {
	for i, l := range d.Limits {
		if l.Class == RobotClass && d.Robots.Enabled {
			continue
		}
		if c := d.class(l.Class); c == nil || c.off {
			r.Fault(limitSource(r, i).Under("class"), form.Quoted(l.Class), "is not the name of a class that is on")
		}
	}
}

// mostCount is the most requests of a limit.
const mostCount = 1_000_000_000

func limitSettings(l *Limit) []form.Setting {
	o := &l.Older
	count, period := form.Integer(1, mostCount), form.Duration(time.Millisecond, maxPeriod)
	const asRate = "write rate: 5/min, and burst: 10"
	return []form.Setting{
		{Path: "name", Value: limitName().In(&l.Name), Required: true,
			Doc: "Unique name of the limit in error pages, headers and the log."},
		{Path: "path", Value: pathPattern().In(&l.Path), Default: "all paths",
			Doc: "Path to limit, or its beginning if it ends in `*`. It also covers `/login.php/x` and every spelling that a backend could take for it."},
		{Path: "class", Value: limitName().In(&l.Class), Doc: "Class whose keys are counted. It must be on."},
		{Path: "rate", Value: rate().In(&l.Rate), Default: "none; required",
			Doc: "Requests allowed in the long run. `5/min` allows one more every 12 s."},
		{Path: "burst", Value: count.In(&l.Burst), Unit: "requests", Default: "as many as `rate` has", Doc: "Most requests at once."},
		{Path: "strict", Value: form.Boolean().In(&l.Strict),
			Doc: "Count in Redis, together with all other instances. Each request waits for one round trip of at most 250 ms (`timeout` in the URL), and passes if Redis is away."},
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

// oneForAll is the advice for keys that once divided a limit among clients.
const oneForAll = "remove it: a limit is the same for all clients; list networks without limits in exempt"

func limitName() form.Scalar[string] {
	return form.Simple("a letter and up to 31 letters, digits, `_` and `-`", "must be 1 to 32 letters, digits, _ and -, and begin with a letter",
		func(text string) (string, bool) { return text, className.MatchString(text) })
}

// limitsSettings are the keys of limits in requests.
func limitsSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "limits", Value: limitList().In(&d.Limits),
			Doc: "Limits in numbers of requests, in addition to CPU time. See [how limits count](#how-limits-count)."},
		{Path: "headers", Value: form.Choice("none", "ratelimit", "draft", "draft-credit").In(&d.Headers),
			Doc: "Response headers that show clients their limits, unless the backend sets one. `ratelimit` sends `X-RateLimit-Remaining`, `X-RateLimit-Clear` and, with a rejection, `X-RateLimit-Reset`. `draft` sends `RateLimit` and `RateLimit-Policy` of the IETF draft; `draft-credit` adds the client's account in CPU milliseconds."},
	}
}

// Rates, and durations of a master's rules, are written as the first master's
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

// Rate is a number of requests in a time.
type Rate struct {
	Requests int
	Per      time.Duration
}

// Interval is the time between two requests, in whole milliseconds as the first master counts:
// that of 7/sec is 143 ms.
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

// parseRate reads requests per time, such as 5/sec. More than a thousand a second an interval
// of whole milliseconds cannot hold.
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
		return r, errors.New("is more than 2000 requests a second, which intervals of whole milliseconds cannot keep")
	}
	return Rate{n, length}, nil
}

// rate is how often requests are allowed.
func rate() form.Scalar[Rate] {
	return form.Scalar[Rate]{
		Allowed: "requests in a time, such as `5/sec`, `10/min` or `100/15min`",
		Schema:  form.Schema{"type": "string", "pattern": `^\s*[0-9]+\s*(per|/).*$`},
		Parse:   parseRate, Format: Rate.String,
	}
}

// rateForm is a number and a time, with a slash or the word per between them.
var rateForm = regexp.MustCompile(`^\s*(\d+)\s*(?:per|/)\s*(.*?)\s*$`)

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
