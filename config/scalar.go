package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// value is what one key sets.
type value interface {
	// read sets it from n, or notes a fault at that source.
	read(r *reader, at source, n *yaml.Node)
	// text is how it would be written; a scalar or a list reads it back as it is.
	text() string
}

// scalar is a value that one piece of text sets. The error of set says what is
// allowed, and follows the key and the value in a message.
type scalar struct {
	set func(text string) error
	get func() string
}

func (s scalar) text() string { return s.get() }

func (s scalar) read(r *reader, at source, n *yaml.Node) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fault(at, "", "must be a single value, not "+kindName(n))
	case isNull(n):
		r.fault(at, "", "has no value; leave the key out for its default")
	default:
		if err := s.set(n.Value); err != nil {
			r.fault(at, shown(n.Value), err.Error())
		}
	}
}

// listOf is a value of several texts: a YAML list, or one text with commas.
type listOf struct {
	max   int
	clear func()
	add   func(text string) error
	get   func() string
}

func (l listOf) text() string { return l.get() }

func (l listOf) read(r *reader, at source, n *yaml.Node) {
	l.clear()
	if n.Kind == yaml.SequenceNode {
		if len(n.Content) > l.max {
			r.fault(at, "", fmt.Sprintf("has %d members; at most %d are allowed", len(n.Content), l.max))
			return
		}
		for i, member := range n.Content {
			scalar{set: l.add}.read(r, at.item(i).on(member), member)
		}
		return
	}
	each := func(text string) error {
		parts := strings.Split(text, ",")
		if len(parts) > l.max {
			return fmt.Errorf("has %d members; at most %d are allowed", len(parts), l.max)
		}
		for _, part := range parts {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if err := l.add(part); err != nil {
				r.fault(at, shown(part), err.Error())
			}
		}
		return nil
	}
	scalar{set: each}.read(r, at, n)
}

func boolean(p *bool) scalar {
	return scalar{
		set: func(text string) error {
			switch strings.ToLower(text) {
			case "true":
				*p = true
			case "false":
				*p = false
			default:
				return errors.New("must be true or false")
			}
			return nil
		},
		get: func() string { return strconv.FormatBool(*p) },
	}
}

func integer(p *int, least, most int) scalar {
	return scalar{
		set: func(text string) error {
			i, err := strconv.Atoi(text)
			if err != nil || i < least || i > most {
				return fmt.Errorf("must be a whole number from %d to %d", least, most)
			}
			*p = i
			return nil
		},
		get: func() string { return strconv.Itoa(*p) },
	}
}

// parseNumber takes decimal numbers only: what else Go takes (hexadecimal, Inf,
// NaN) is a slip in a configuration.
func parseNumber(text string) (float64, error) {
	if strings.Trim(text, "+-0123456789.eE") != "" {
		return 0, errors.New("not a number")
	}
	return strconv.ParseFloat(text, 64)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// mostWorkers is the highest ceiling of their number.
const mostWorkers = 10_000

func workers(p *int) scalar {
	s := integer(p, 0, mostWorkers)
	set := s.set
	s.set = func(text string) error {
		if set(text) != nil {
			return fmt.Errorf("must be 0 (learnt) or a whole number from 1 to %d, a ceiling", mostWorkers)
		}
		return nil
	}
	return s
}

func cpuCount(p *float64) scalar {
	return scalar{
		set: func(text string) error {
			x, err := parseNumber(text)
			if err != nil || x != 0 && (x < 0.01 || x > 4096) {
				return errors.New("must be 0 (as many as this machine has) or a number from 0.01 to 4096")
			}
			*p = math.Abs(x) // no negative zero
			return nil
		},
		get: func() string { return number(*p) },
	}
}

// minShare keeps the wait for one CPU-second within what a time can hold.
const minShare = 0.000001

func share(p *float64) scalar {
	return scalar{
		set: func(text string) error {
			x, err := parseNumber(text)
			if err != nil || x <= 0 || x > 1 {
				return errors.New("must be above 0 and at most 1")
			}
			if x < minShare {
				return errors.New("must be at least 0.000001")
			}
			*p = x
			return nil
		},
		get: func() string { return number(*p) },
	}
}

// duration takes Go's syntax. A bare number is refused, even 0, because nobody
// can tell seconds from milliseconds.
func duration(p *time.Duration, least, most time.Duration) scalar {
	return scalar{
		set: func(text string) error {
			if _, err := parseNumber(text); err == nil {
				return fmt.Errorf("has no unit; write for example %ss or %sms", text, text)
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				return errors.New("must be a duration such as 30s, 1m30s or 250ms")
			}
			if d < least || d > most {
				return fmt.Errorf("must be a duration from %s to %s", short(least), short(most))
			}
			*p = d
			return nil
		},
		get: func() string { return short(*p) },
	}
}

// short is a duration without the zero parts that Go prints: 2m, not 2m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// choice takes one of the words, in any case. later are words, parted by
// spaces, that are refused as not yet there.
func choice(p *string, later string, words ...string) scalar {
	return scalar{
		set: func(text string) error {
			same := func(word string) bool { return strings.EqualFold(word, text) }
			if i := slices.IndexFunc(words, same); i >= 0 {
				*p = words[i]
				return nil
			}
			if slices.ContainsFunc(strings.Fields(later), same) {
				return fmt.Errorf("comes with a later version; this one has %s", list("and", words))
			}
			if len(words) == 1 {
				return fmt.Errorf("must be %s", words[0])
			}
			return fmt.Errorf("must be %s", list("or", words))
		},
		get: func() string { return *p },
	}
}
