package form

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Duration takes Go's syntax. A bare number is refused, even 0, because nobody
// can tell seconds from milliseconds.
func Duration(least, most time.Duration) Scalar[time.Duration] {
	return Scalar[time.Duration]{
		Type: "duration", Allowed: fmt.Sprintf("`%s` to `%s`", FormatDuration(least), FormatDuration(most)),
		Schema: Schema{"type": "string", "pattern": `^[+-]?([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+$`},
		Parse: func(text string) (time.Duration, error) {
			if _, err := parseNumber(text); err == nil {
				return 0, fmt.Errorf("has no unit; write for example %ss or %sms", text, text)
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				return 0, errors.New("must be a duration such as 30s, 1m30s or 250ms")
			}
			if d < least || d > most {
				return 0, fmt.Errorf("must be a duration from %s to %s", FormatDuration(least), FormatDuration(most))
			}
			return d, nil
		},
		Format: FormatDuration,
	}
}

// FormatDuration is a duration without the zero parts that Go prints: 2m, not 2m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
