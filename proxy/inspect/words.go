package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tempomat/classify"
)

func number(n int) string { return strconv.Itoa(n) }

// cpuSeconds is an amount of CPU time.
func cpuSeconds(x float64) string {
	switch {
	case x < 0.1:
		return fmt.Sprintf("%.0f CPU-ms", 1000*x)
	case x < 10:
		return fmt.Sprintf("%.2f CPU-s", x)
	}
	return fmt.Sprintf("%.0f CPU-s", x)
}

// span is a duration.
func span(seconds float64) string {
	switch {
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 100:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 100*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 72*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

func spanOf(d time.Duration) string { return span(d.Seconds()) }

// evidenceWords says what evidence there is.
func evidenceWords(e classify.Evidence) string {
	var words []string
	for _, x := range []struct {
		kind classify.Evidence
		says string
	}{
		{classify.Cookie, "it brings back the site's cookies"},
		{classify.Parts, "it loads the style sheets and images of its pages"},
		{classify.Tenure, "it has been coming for hours"},
		{classify.Attested, "the site, the configuration or a pin vouches for it"},
		{classify.Contradiction, "its headers are not those of the browser that it says it is"},
		{classify.Verified, "it is the robot that it says it is"},
		{classify.Forged, "it says that it is a robot which it is not, so that nothing else counts"},
	} {
		if e&x.kind != 0 {
			words = append(words, x.says)
		}
	}
	if len(words) == 0 {
		return "nothing speaks for a person's browser, or against it"
	}
	return strings.Join(words, "; ")
}

// shellWord is a text as one word of a shell's command line, whatever is in it: a client
// may have chosen it, and an administrator may copy the line.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// sentence makes one of words.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
