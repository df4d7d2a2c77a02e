package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

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
