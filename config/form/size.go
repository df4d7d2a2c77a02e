package form

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// sizeUnits are what a size may end in, the largest first. They are powers of
// 1024, as Apache, nginx and PHP have them.
func sizeUnits() []string { return []string{"TB", "GB", "MB", "KB", "B"} }

// Size takes a number of bytes, at most so many: 65536, 64KB.
func Size(most int64) Scalar[int64] {
	return Scalar[int64]{
		Type: "size", Allowed: "`0` to `" + formatSize(most) + "`",
		Schema: Schema{"type": []string{"integer", "string"}, "minimum": 0, "maximum": most, "pattern": `^[0-9]+( *[kKmMgGtT]?[bB])?$`},
		Parse: func(text string) (int64, error) {
			n, err := parseSize(text)
			if err == nil && n > most {
				err = fmt.Errorf("must be a size from 0 to %s", formatSize(most))
			}
			return n, err
		},
		Format: formatSize,
	}
}

// parseSize reads a size in bytes.
func parseSize(text string) (int64, error) {
	digits, unit := strings.ToUpper(text), int64(1)
	for i, name := range sizeUnits() {
		if before, ok := strings.CutSuffix(digits, name); ok {
			digits, unit = strings.TrimRight(before, " "), 1<<(10*(len(sizeUnits())-1-i))
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && int64(n) > (1<<63-1)/unit:
		return 0, errors.New("is too large for a size")
	case err != nil:
		return 0, errors.New("must be a size: a whole number of bytes, or of KB, MB, GB or TB, such as 64KB")
	}
	return int64(n) * unit, nil
}

// formatSize is a size in the largest unit that leaves a whole number.
func formatSize(n int64) string {
	for i, name := range sizeUnits() {
		unit := int64(1) << (10 * (len(sizeUnits()) - 1 - i))
		if n >= unit && n%unit == 0 && unit > 1 {
			return strconv.FormatInt(n/unit, 10) + name
		}
	}
	return strconv.FormatInt(n, 10)
}
