package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Fault is a line that could not be read.
type Fault struct {
	Line   int    `json:"line"` // from 1
	Reason string `json:"reason"`
}

const (
	faultsNamed = 5    // bad lines that are named
	hopeless    = 1000 // bad lines without a good one that show a wrong format
)

// FormatError is the error of a log without a readable line.
type FormatError struct {
	Faults []Fault // the first ones
}

func (e *FormatError) Error() string {
	var s strings.Builder
	if len(e.Faults) == 0 {
		s.WriteString("the log is empty, or none of its lines is of a request")
	} else {
		s.WriteString("no line can be read:")
		for _, f := range e.Faults {
			fmt.Fprintf(&s, "\n  line %d: %s", f.Line, f.Reason)
		}
	}
	s.WriteString("\nWhat is read:\n" + Expected)
	return s.String()
}

// Expected explains how to make a server write a log that can be read.
const Expected = `  Apache: LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" %D" timed
          CustomLog ${APACHE_LOG_DIR}/timed.log timed
  nginx:  log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status '
                           '$body_bytes_sent "$http_referer" "$http_user_agent" $request_time';
          access_log /var/log/nginx/timed.log timed;
  tempomat-proxy: log: {access: all}, then journalctl -u tempomat-proxy -o cat`

// lines reads the lines of a log and keeps account of those that are bad.
type lines struct {
	reader *bufio.Reader
	counts Lines
	number int
}

// Lines is what became of the lines of a log.
type Lines struct {
	Requests  int     `json:"requests"`  // that were replayed
	None      int     `json:"none"`      // that are no requests: connections without one, other lines of our log
	Bad       int     `json:"bad"`       // that could not be read
	Unordered int     `json:"unordered"` // left out because they are too far behind others
	Clipped   int     `json:"clipped"`   // requests that took longer than the window; they come later than they did
	LeftOut   int     `json:"leftOut"`   // that tempomat-proxy says are missing
	Faults    []Fault `json:"faults,omitempty"`
}

// longestLine is the longest line, in bytes.
const longestLine = 64 << 10

func newLines(r io.Reader) *lines { return &lines{reader: bufio.NewReaderSize(r, longestLine)} }

// next reads the next request. At the end of the log the error is io.EOF.
func (l *lines) next() (*entry, error) {
	for {
		line, err := l.line()
		if errors.Is(err, io.EOF) {
			if l.counts.Requests == 0 {
				return nil, l.failure()
			}
			return nil, io.EOF
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return nil, err
		}
		var e *entry
		if err == nil {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			e, err = parse(line)
		}
		switch {
		case err == nil:
			l.counts.Requests++
			l.counts.LeftOut += e.leftOut
			return e, nil
		case errors.Is(err, errNone):
			l.counts.None++
		default:
			if l.fault(err); l.counts.Bad >= hopeless && l.counts.Requests == 0 {
				return nil, l.failure()
			}
		}
	}
}

// line reads the next one. Of one that is too long the rest is thrown away.
func (l *lines) line() (string, error) {
	l.number++
	begin, more, err := l.reader.ReadLine()
	if !more {
		return string(begin), err
	}
	for more && err == nil {
		_, more, err = l.reader.ReadLine()
	}
	return "", errTooLong // an error comes again at the next one
}

func (l *lines) fault(err error) {
	if l.counts.Bad++; len(l.counts.Faults) < faultsNamed {
		l.counts.Faults = append(l.counts.Faults, Fault{Line: l.number, Reason: err.Error()})
	}
}

func (l *lines) failure() error { return &FormatError{Faults: l.counts.Faults} }

// entry is a request of the log, on its way through the window. Its texts are parts of its line.
type entry struct {
	stamp   time.Time
	coarse  bool // the stamp has no fraction of a second
	arrival bool // the stamp is of the arrival, else of the end
	took    time.Duration
	cost    time.Duration // CPU time
	charged bool          // the log says what it cost
	leftOut int           // lines that the log says are missing before this one
	size    int           // of the line, in bytes

	status                               int
	address, method, target, host, agent string
	decoded                              bool // the target is a path, and decoded already

	at, end time.Duration // since the window's epoch
}

// longestTook is the longest that a request may have taken.
const longestTook = 24 * time.Hour

// longestTarget and longestAgent are how much is read of a target, and of a User-Agent, in bytes:
// more than classify and the guess look at.
const (
	longestTarget = 2048
	longestAgent  = 512
)

// Errors of lines without a request. errNone isn't a fault.
var (
	errNone     = errors.New("it is no request")
	errAddress  = errors.New("it does not begin with the client's address")
	errTime     = errors.New("no time in brackets, such as [22/Nov/2026:11:42:33 +0000]")
	errRequest  = errors.New(`no request in quotes, such as "GET / HTTP/1.1"`)
	errStatus   = errors.New("no status of three digits behind the request")
	errAgent    = errors.New("no Referer and User-Agent in quotes: the format is not combined")
	errDuration = errors.New("no duration behind the User-Agent")
	errLong     = errors.New("the duration is longer than a day, or negative")
	errJSON     = errors.New("it is no object of JSON in a line")
	errField    = errors.New("time, client, method, path or took_ms is missing, or is not what it should be")
	errTooLong  = errors.New("it is longer than 64 KB")
)

// parse reads a line, which is not empty: tempomat-proxy's own are JSON, all others combined.
func parse(line string) (*entry, error) {
	e, read := &entry{size: len(line)}, (*entry).combined
	if line[0] == '{' {
		read = (*entry).own
	}
	if err := read(e, line); err != nil {
		return nil, err
	}
	e.target, e.agent = e.target[:min(len(e.target), longestTarget)], e.agent[:min(len(e.agent), longestAgent)]
	return e, nil
}

// combined reads a line in the combined format of Apache and nginx with a duration
// behind the User-Agent:
//
//	192.0.2.1 - - [22/Nov/2026:11:42:33 +0000] "GET / HTTP/1.1" 200 512 "-" "Mozilla/5.0" 1234
//
// A virtual host's name may precede it, and more may follow.
func (e *entry) combined(line string) error {
	head, rest, ok := strings.Cut(line, " [")
	if !ok {
		return errTime
	}
	if e.address = addressOf(head); e.address == "" {
		return errAddress
	}
	stamp, rest, ok := strings.Cut(rest, "]")
	if !ok || !e.time("02/Jan/2006:15:04:05 -0700", stamp) {
		return errTime
	}
	e.coarse = true
	request, rest, ok := quoted(rest)
	if !ok {
		return errRequest
	}
	status, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	n, err := strconv.ParseUint(status, 10, 16)
	if err != nil || len(status) != 3 {
		return errStatus
	}
	e.status = int(n)
	if _, rest, ok = quoted(rest); !ok { // the Referer
		return errAgent
	}
	if e.agent, rest, ok = quoted(rest); !ok {
		return errAgent
	}
	if e.agent == "-" {
		e.agent = ""
	}
	if err := e.duration(rest); err != nil {
		return err
	}
	return e.request(request)
}

// duration finds the first plain number. One with a fraction is nginx's: seconds, and the time of the
// line is that of the end. A whole one is Apache's: microseconds, and the time is that of the arrival.
func (e *entry) duration(s string) error {
	for s != "" {
		if s[0] == '"' {
			var ok bool
			if _, s, ok = quoted(s); !ok {
				return errDuration
			}
			continue
		}
		var word string
		word, s, _ = strings.Cut(s, " ")
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || strings.Trim(word, "0123456789.") != "" {
			continue
		}
		unit := time.Second
		if !strings.Contains(word, ".") {
			unit, e.arrival = time.Microsecond, true
		}
		if x > longestTook.Seconds()*float64(time.Second/unit) {
			return errLong
		}
		e.took = timesUnit(x, unit)
		return nil
	}
	return errDuration
}

func timesUnit(x float64, unit time.Duration) time.Duration {
	return time.Duration(math.Round(x * float64(unit)))
}

// request splits a request line. Apache writes "-" for a connection without a request.
func (e *entry) request(line string) error {
	method, target, ok := strings.Cut(line, " ")
	if !ok || method == "" || len(method) > 32 || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return errNone
	}
	if i := strings.LastIndexByte(target, ' '); i >= 0 {
		target = target[:i]
	}
	if target == "" {
		return errNone
	}
	e.method, e.target = method, target
	return nil
}

// addressOf is the client's address: the first word, or the second where the first is
// the virtual host; empty: neither is one.
func addressOf(head string) string {
	first, rest, _ := strings.Cut(head, " ")
	second, _, _ := strings.Cut(rest, " ")
	for _, word := range [...]string{first, second} {
		if _, err := netip.ParseAddr(word); err == nil {
			return word
		}
	}
	return ""
}

// time reads the time of a line.
func (e *entry) time(layout, text string) bool {
	t, err := time.Parse(layout, text)
	e.stamp = t
	return err == nil && t.Year() >= 1990 && t.Year() <= 2200
}

// quoted cuts off what stands in the next quotes. A backslash takes the meaning of
// the byte behind it.
func quoted(s string) (text, rest string, ok bool) {
	_, s, ok = strings.Cut(s, `"`)
	for i := 0; ok && i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i], s[i+1:], true
		}
	}
	return "", "", false
}

// record is what a line of tempomat-proxy's own access log says, as far as it is needed.
type record struct {
	Message                    string `json:"msg"`
	Outcome                    string
	Time                       string
	Client, Method, Host, Path *string
	Status                     int
	Took                       *float64 `json:"took_ms"`
	Cost                       float64  `json:"cost_ms"`
	Guess                      float64  `json:"guess_ms"`
	LeftOut                    int      `json:"lines_left_out"`
	Classes                    []string
}

// own reads a line of tempomat-proxy's own access log, JSON. It says what requests cost, or what they
// were guessed to where they did not come to the backend. Lines of the log that are no requests are
// errNone.
func (e *entry) own(line string) error {
	var x record
	err := json.Unmarshal([]byte(line), &x)
	var other *json.UnmarshalTypeError
	switch {
	case err != nil && !errors.As(err, &other):
		return errJSON
	case x.Message != "request":
		return errNone
	case err != nil || x.Client == nil || x.Method == nil || x.Path == nil || x.Took == nil || !e.time(time.RFC3339Nano, x.Time):
		return errField
	case min(*x.Took, x.Cost, x.Guess) < 0 || min(x.Status, x.LeftOut) < 0:
		return errField
	case max(*x.Took, x.Cost, x.Guess) > longestTook.Seconds()*1000:
		return errLong
	}
	cost := x.Cost
	switch x.Outcome {
	case "refused", "redirected", "client gone": // it did not come to the backend, or not to its end
		cost = x.Guess
	}
	for _, key := range x.Classes { // the User-Agent's family stands for the header that is not in the log
		if family, ok := strings.CutPrefix(key, "userAgent="); ok {
			e.agent = family
		}
	}
	if x.Host != nil {
		e.host = *x.Host
	}
	e.address, e.method, e.target = *x.Client, *x.Method, *x.Path
	e.status, e.leftOut, e.charged, e.decoded = x.Status, x.LeftOut, true, true
	e.took, e.cost = timesUnit(*x.Took, time.Millisecond), timesUnit(cost, time.Millisecond)
	return nil
}
