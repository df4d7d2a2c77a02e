package form

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Boolean is true or false.
func Boolean() Scalar[bool] {
	return Scalar[bool]{
		Type: "`true` or `false`", Schema: Schema{"type": []string{"boolean", "string"}, "pattern": anyCase("true", "false")},
		Parse: func(text string) (bool, error) {
			switch strings.ToLower(text) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return false, errors.New("must be true or false")
		},
		Format: strconv.FormatBool,
	}
}

// Integer is a whole number.
func Integer(least, most int) Scalar[int] {
	return Scalar[int]{
		Type: "whole number", Allowed: fmt.Sprintf("%d to %d", least, most),
		Schema: Schema{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": `^[+-]?[0-9]+$`},
		Parse: func(text string) (int, error) {
			i, err := strconv.Atoi(text)
			if err != nil || i < least || i > most {
				return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
			}
			return i, nil
		},
		Format: strconv.Itoa,
	}
}

// Number is a decimal number of which sound is true. The message of a fault is "must
// be " and then allowed.
func Number(allowed string, least, most float64, sound func(x float64) bool) Scalar[float64] {
	return Scalar[float64]{
		Allowed: allowed,
		Schema:  Schema{"type": []string{"number", "string"}, "minimum": least, "maximum": most, "pattern": `^[-+0-9.eE]+$`},
		Parse: func(text string) (float64, error) {
			x, err := parseNumber(text)
			if err != nil || !sound(x) {
				return 0, errors.New("must be " + allowed)
			}
			return x + 0, nil // no negative zero
		},
		Format: FormatNumber,
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

// FormatNumber writes x as it is read again.
func FormatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
