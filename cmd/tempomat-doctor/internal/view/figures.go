package view

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration formats seconds in at most six columns: 210ms, 3.2s, 38s, 12m, 5h, 3d. A duration below half a
// millisecond is "-".
func Duration(seconds float64) string {
	switch {
	case seconds < 0.0005:
		return "-"
	case seconds < 0.9995:
		return fmt.Sprintf("%.0fms", seconds*1000)
	case seconds < 9.95:
		return fmt.Sprintf("%.1fs", seconds)
	case seconds < 119.5:
		return fmt.Sprintf("%.0fs", seconds)
	case seconds < 119.5*60:
		return fmt.Sprintf("%.0fm", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.0fh", seconds/3600)
	}
	return fmt.Sprintf("%.0fd", seconds/86400)
}

// Number formats a number, with fewer decimals the larger it is. A number below 1e6 takes at most six columns.
func Number(x float64) string {
	switch {
	case math.Abs(x) < 0.005:
		return "0"
	case math.Abs(x) < 99.995:
		return fmt.Sprintf("%.2f", x)
	case math.Abs(x) < 999.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// Decimals formats a number with n decimals, for columns whose decimal points are aligned.
func Decimals(x float64, n int) string { return strconv.FormatFloat(x, 'f', n, 64) }

// Count formats a whole number, 0 or more, with commas between thousands: 1,240.
func Count[N int | uint64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Addresses formats a number of addresses.
func Addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return Count(n) + " addresses"
}

// Percent formats a part of a whole as a percentage of at most 100 %. The part may exceed the whole if the two were
// counted at different times.
func Percent(part, whole float64) string {
	switch {
	case whole <= 0 || part <= 0:
		return "0 %"
	case part < 0.01*whole:
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*min(1, part/whole))
}

// Bytes formats a number of bytes.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.0f KB", float64(n)/(1<<10))
	}
}

// Clock formats a Unix time as a time of day, in UTC as in the logs.
func Clock(unix float64) string {
	return time.UnixMilli(int64(unix * 1000)).UTC().Format("15:04:05")
}
