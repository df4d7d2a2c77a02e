package telemetry

import (
	"strconv"
	"strings"
	"time"
)

// combined appends a request's line in Apache's combined format, and its duration in
// microseconds after it, as "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\" %D"
// does. Of the queries of the request and of its referer it has what words let through.
func (r *Record) combined(b []byte, now time.Time, words *Words) []byte {
	q := r.Request
	b = r.Who.Client.AppendTo(b)
	b = append(b, " - - ["...)
	b = r.Arrived.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	b = appendEscaped(b, Clip(q.Method))
	b = append(b, ' ')
	path, query, has := strings.Cut(q.RequestURI, "?")
	b = appendEscaped(b, Clip(path))
	if has {
		b = appendEscaped(append(b, '?'), words.Reduce(r.Who.Shape, query))
	}
	b = append(b, ' ')
	b = appendEscaped(b, q.Proto)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	if r.Bytes > 0 {
		b = strconv.AppendInt(b, r.Bytes, 10)
	} else {
		b = append(b, '-')
	}
	referer, _, _ := strings.Cut(q.Header.Get("Referer"), "?")
	b = appendField(b, referer)
	b = appendField(b, q.Header.Get("User-Agent"))
	b = append(b, ' ')
	b = strconv.AppendInt(b, max(0, now.Sub(r.Arrived).Microseconds()), 10)
	return append(b, '\n')
}

// appendField appends a header's value between quotes; one that is not there as -.
func appendField(b []byte, s string) []byte {
	b = append(b, ` "`...)
	if s == "" {
		b = append(b, '-')
	}
	b = appendEscaped(b, Clip(s))
	return append(b, '"')
}

// appendEscaped escapes as Apache does (mod_log_config, "Security Considerations"): quotes and
// backslashes with a backslash, the usual control characters as in C, and whatever else is
// not printable ASCII as \xhh.
func appendEscaped(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case c >= '\b' && c <= '\r' && c != '\f':
			b = append(b, '\\', "btnv_r"[c-'\b'])
		case c < ' ', c >= 0x7f:
			b = append(b, '\\', 'x', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
