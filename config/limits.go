package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
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

func (v limitList) text() string {
	var texts []string
	for _, l := range v.d.Limits {
		texts = append(texts, describeLimit(l))
	}
	return strings.Join(texts, "; ")
}

func describeLimit(l Limit) string {
	var parts []string
	for _, s := range limitSettings(&l) {
		text := s.value.text()
		unset := text == "" || text == "0" || text == "0s" || text == "false"
		if strings.HasPrefix(s.path, "factors.") {
			unset = text == "1"
		}
		if s.path != "name" && !unset {
			parts = append(parts, s.path+" "+text)
		}
	}
	return l.Name + ": " + strings.Join(parts, ", ")
}

func (v limitList) read(r *reader, at source, n *yaml.Node) {
	v.d.Limits = nil
	switch {
	case isNull(n):
		return
	case n.Kind != yaml.SequenceNode:
		r.fault(at, shownNode(n), "must be a list such as [{name: login, path: /login, size: 5, dripRate: 10s}]")
		return
	case len(n.Content) > maxLimits:
		r.fault(at, "", fmt.Sprintf("has %d members; at most %d are allowed", len(n.Content), maxLimits))
		return
	}
	for i, item := range n.Content {
		here := at.item(i).on(item)
		if item.Kind != yaml.MappingNode {
			r.fault(here, shownNode(item), "must be a mapping with name and a limit")
			continue
		}
		l := Limit{Class: "slash32", Factors: Factors{Anonymous: 1, Session: 1, Trusted: 1}}
		before := len(r.faults)
		r.mapping(here, item, "", limitSettings(&l))
		if len(r.faults) == before {
			r.checkLimit(here, l, v.d.Limits)
		}
		v.d.Limits = append(v.d.Limits, l)
		v.d.limitSources = append(v.d.limitSources, here)
	}
}

// checkLimit checks what no single key of a limit can.
func (r *reader) checkLimit(at source, l Limit, others []Limit) {
	bucket := l.Size != 0 || l.DripRate != 0 || l.DripSize != 0
	older := l.Max != 0 || l.Duration != 0 || l.MinInterval != 0
	switch {
	case l.Name == "":
		r.fault(at, "", "has no name; a limit needs one")
	case bucket == older:
		r.fault(at, "", "must have either size, with dripRate and dripSize, or max and duration, with minInterval")
	case bucket && l.Size == 0:
		r.fault(at, "", "has no size")
	case older && (l.Max == 0 || l.Duration == 0) && l.MinInterval == 0:
		r.fault(at, "", "limits nothing: max and duration need each other")
	}
	for _, o := range others {
		if o.Name == l.Name && l.Name != "" {
			r.fault(at, shown(l.Name), "is the name of another limit already")
		}
	}
}

// validateLimits checks what limits need elsewhere.
func (r *reader) validateLimits(d *draft) {
	for i, l := range d.Limits {
		if c := d.class(l.Class); c == nil || c.off {
			r.fault(d.limitSources[i].under("class"), shown(l.Class), "is not the name of a class that is on")
		}
	}
}

// The most that a limit may be: so long, and so many.
const (
	mostDrip  = 366 * day
	mostCount = 1_000_000_000
)

func limitSettings(l *Limit) []setting {
	return []setting{
		{path: "name", value: limitName(&l.Name)},
		{path: "path", value: exemptPath(&l.Path)},
		{path: "class", value: limitName(&l.Class)},
		{path: "size", value: integer(&l.Size, 1, mostCount)},
		{path: "dripRate", value: duration(&l.DripRate, time.Millisecond, mostDrip)},
		{path: "dripSize", value: integer(&l.DripSize, 1, mostCount)},
		{path: "max", value: integer(&l.Max, 1, mostCount)},
		{path: "duration", value: duration(&l.Duration, time.Millisecond, mostDrip)},
		{path: "minInterval", value: duration(&l.MinInterval, time.Millisecond, mostDrip)},
		{path: "strict", value: boolean(&l.Strict)},
		{path: "factors.anonymous", value: limitFactor(&l.Factors.Anonymous)},
		{path: "factors.session", value: limitFactor(&l.Factors.Session)},
		{path: "factors.trusted", value: limitFactor(&l.Factors.Trusted)},
	}
}

func limitName(p *string) scalar {
	return scalar{
		set: func(text string) error {
			if !className.MatchString(text) {
				return errors.New("must be 1 to 32 letters, digits, _ and -, and begin with a letter")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

func limitFactor(p *float64) scalar {
	return scalar{
		set: func(text string) error {
			x, err := parseNumber(text)
			if err != nil || x != 0 && (x < 0.001 || x > 1000) {
				return errors.New("must be 0 (no limit) or a number from 0.001 to 1000; 0.5 allows twice as much")
			}
			*p = x + 0 // no negative zero
			return nil
		},
		get: func() string { return number(*p) },
	}
}
