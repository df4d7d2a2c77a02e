package replay

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Format is what the lines of a log look like.
type Format string

// The formats.
const (
	Auto          Format = "auto"           // found out from the first lines
	Apache        Format = "apache"         // combined and %D: microseconds, the time is of the arrival
	ApacheSeconds Format = "apache-seconds" // combined and %T: seconds, the time is of the arrival
	Nginx         Format = "nginx"          // combined and $request_time: seconds with a fraction, the time is of the end
	Tempomat      Format = "tempomat"       // tempomat-proxy's own
)

// Formats are all.
func Formats() []Format { return []Format{Auto, Apache, ApacheSeconds, Nginx, Tempomat} }

// parser reads lines of one format.
type parser interface {
	parse(line []byte, e *entry) error
}

func (f Format) parser() parser {
	switch f {
	case Apache:
		return &combined{unit: time.Microsecond, arrival: true}
	case ApacheSeconds:
		return &combined{unit: time.Second, arrival: true}
	case Nginx:
		return &combined{unit: time.Second}
	case Tempomat:
		return &accessLog{}
	case Auto:
	}
	return nil
}

// sniffed is how much of a log is looked at to find its format, in bytes.
const sniffed = 64 << 10

// detect finds the format of a log by its beginning. What cannot be told is Nginx,
// whose parser says what is wrong with a line.
func detect(r *bufio.Reader) Format {
	begin, _ := r.Peek(sniffed)
	if end := bytes.LastIndexByte(begin, '\n'); end >= 0 {
		begin = begin[:end]
	}
	var e entry
	var whole []time.Duration
	asNginx := Nginx.parser()
	for line := range bytes.SplitSeq(begin, []byte{'\n'}) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '{' {
			return Tempomat
		}
		if asNginx.parse(line, &e) != nil {
			continue
		}
		if hasFraction(line) {
			return Nginx
		}
		whole = append(whole, e.took)
	}
	if len(whole) == 0 {
		return Nginx
	}
	slices.Sort(whole)
	if whole[len(whole)/2] < usualMicroseconds*time.Second {
		return ApacheSeconds
	}
	return Apache
}

// usualMicroseconds is what most requests take at least: half of them took less only if
// the numbers are no microseconds.
const usualMicroseconds = 40

// hasFraction tells whether the duration of a line has one.
func hasFraction(line []byte) bool {
	tail := line[bytes.LastIndexByte(line, '"')+1:]
	for word := range bytes.FieldsSeq(tail) {
		if _, ok := number(word, time.Second); ok {
			return bytes.IndexByte(word, '.') >= 0
		}
	}
	return false
}

// Fault is a line that could not be read.
type Fault struct {
	Line   int    `json:"line"` // from 1
	Reason string `json:"reason"`
}

const (
	faultsNamed = 5    // bad lines that are named
	hopeless    = 1000 // bad lines without a good one after which it is the wrong format
)

// FormatError says that a log has no line that can be read.
type FormatError struct {
	Format Format
	Faults []Fault // the first ones
}

func (e *FormatError) Error() string {
	var s strings.Builder
	if len(e.Faults) == 0 {
		s.WriteString("the log is empty, or none of its lines is of a request")
	} else {
		fmt.Fprintf(&s, "no line can be read as %s:", describe(e.Format))
		for _, f := range e.Faults {
			fmt.Fprintf(&s, "\n  line %d: %s", f.Line, f.Reason)
		}
	}
	s.WriteString("\nWhat is read:\n" + Expected)
	return s.String()
}

func describe(f Format) string {
	if f == Tempomat {
		return "tempomat-proxy's own log"
	}
	return "the combined format with a duration"
}

// Expected says how to have a server write what can be read.
const Expected = `  Apache: LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D" timed
          CustomLog ${APACHE_LOG_DIR}/timed.log timed
  nginx:  log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status '
                           '$body_bytes_sent "$http_referer" "$http_user_agent" $request_time';
          access_log /var/log/nginx/timed.log timed;
  tempomat-proxy: log: {access: all}, then journalctl -u tempomat-proxy -o cat`
