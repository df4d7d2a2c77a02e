package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// duration is a time in seconds as people read it, in at most six columns: 0.21s, 38s, 12m.
func duration(seconds float64) string {
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

// number has as many decimals as its size needs, and at most six columns below 1e6.
func number(x float64) string {
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

// count is a whole number with commas: 1,240.
func count(n int) string {
	digits := strconv.Itoa(n)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}

// share is a part of a whole that was not counted at the same moment, or among samples: it
// may seem to be more than all of it.
func share(part, whole float64) string { return percent(min(part, whole), whole) }

// percent is a part of a whole; of nothing it is 0.
func percent(part, whole float64) string {
	if whole <= 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*part/whole)
}
