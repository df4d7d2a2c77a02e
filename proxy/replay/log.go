package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Format is what the lines of a log look like.
type Format string

// The formats.
const (
	Auto     Format = "auto"     // found out from the first lines
	Apache   Format = "apache"   // combined and %D: microseconds, the time is of the arrival
	Nginx    Format = "nginx"    // combined and $request_time: seconds with a fraction, the time is of the end
	Tempomat Format = "tempomat" // tempomat-proxy's own
)

// Formats are all.
func Formats() []Format { return []Format{Auto, Apache, Nginx, Tempomat} }

// parser reads lines of one format.
type parser interface {
	parse(line []byte, e *entry) error
}

func (f Format) parser() parser {
	switch f {
	case Apache:
		return &combined{unit: time.Microsecond, arrival: true}
	case Nginx:
		return &combined{unit: time.Second}
	case Tempomat:
		return accessLog{}
	case Auto:
	}
	return nil
}

// sniffed is how much of a log is looked at to find its format, in bytes.
const sniffed = 64 << 10

// detect finds the format of a log by its beginning: of nginx durations have a fraction. What
// cannot be told is Nginx, whose parser says what is wrong with a line.
func detect(r *bufio.Reader) Format {
	begin, _ := r.Peek(sniffed)
	if end := bytes.LastIndexByte(begin, '\n'); end >= 0 {
		begin = begin[:end]
	}
	var e entry
	format := Nginx
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
		format = Apache
	}
	return format
}

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

// lines reads the lines of a log and keeps account of those that are bad.
type lines struct {
	reader *bufio.Reader
	format Format
	parser parser
	counts Lines
	number int
}

// Lines is what became of the lines of a log.
type Lines struct {
	Requests  int     `json:"requests"`  // that were replayed
	None      int     `json:"none"`      // that are no requests: connections without one, other lines of our log
	Bad       int     `json:"bad"`       // that could not be read
	Unordered int     `json:"unordered"` // left out, as they are too far behind others
	Clipped   int     `json:"clipped"`   // requests that took longer than the window; they come later than they did
	LeftOut   int     `json:"leftOut"`   // that tempomat-proxy says are missing
	Faults    []Fault `json:"faults,omitempty"`
}

// longestLine is the longest line, in bytes.
const longestLine = 64 << 10

func newLines(r io.Reader, f Format) *lines {
	l := &lines{reader: bufio.NewReaderSize(r, longestLine), format: f}
	if f == Auto || f == "" {
		l.format = detect(l.reader)
	}
	l.parser = l.format.parser()
	return l
}

// next reads the next request. Its texts hold until the next call. At the end of the
// log it is io.EOF.
func (l *lines) next(e *entry) error {
	for {
		line, err := l.line()
		if errors.Is(err, io.EOF) {
			if l.counts.Requests == 0 {
				return l.failure()
			}
			return io.EOF
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		if err == nil {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			*e = entry{}
			err = l.parser.parse(line, e)
		}
		switch {
		case err == nil:
			l.counts.Requests++
			l.counts.LeftOut += e.leftOut
			return nil
		case errors.Is(err, errNone):
			l.counts.None++
		default:
			if l.fault(err); l.counts.Bad >= hopeless && l.counts.Requests == 0 {
				return l.failure()
			}
		}
	}
}

// line reads the next one. Of one that is too long the rest is thrown away.
func (l *lines) line() ([]byte, error) {
	l.number++
	line, err := l.reader.ReadSlice('\n')
	switch {
	case err == nil:
		return line, nil
	case err == io.EOF && len(line) > 0:
		return line, nil
	case !errors.Is(err, bufio.ErrBufferFull):
		return nil, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.reader.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return nil, errTooLong
}

func (l *lines) fault(err error) {
	if l.counts.Bad++; len(l.counts.Faults) < faultsNamed {
		l.counts.Faults = append(l.counts.Faults, Fault{Line: l.number, Reason: err.Error()})
	}
}

func (l *lines) failure() error { return &FormatError{Format: l.format, Faults: l.counts.Faults} }

// entry is what a line of a log says of a request. Its texts are parts of the line:
// they hold until the next one is read.
type entry struct {
	stamp   time.Time
	coarse  bool // the stamp has no fraction of a second
	arrival bool // the stamp is of the arrival, else of the end
	took    time.Duration
	cost    time.Duration // CPU time, if charged
	charged bool          // the log says what it cost
	leftOut int           // lines that the log says are missing before this one

	status                  int
	address, method, target []byte
	host, agent             []byte
	decoded                 bool // the target is a path, and decoded already
}

// longestTook is the longest that a request may have taken.
const longestTook = 24 * time.Hour

// longestTarget and longestAgent are how much is read of a target, or another text, and
// of a User-Agent, in bytes: more than classify and the guess look at.
const (
	longestTarget = 2048
	longestAgent  = 512
)

// What a line may be that is no request. errNone is nobody's fault.
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

// combined reads lines in the combined format of Apache and nginx with a duration
// behind the User-Agent:
//
//	192.0.2.1 - - [22/Nov/2026:11:42:33 +0000] "GET / HTTP/1.1" 200 512 "-" "Mozilla/5.0" 1234
//
// A name of the virtual host may stand before it, and more behind it: the first plain
// number there is the duration.
type combined struct {
	unit    time.Duration // of a duration
	arrival bool          // the time is of the arrival: Apache's
}

// parse reads a line. It keeps nothing of it.
func (c *combined) parse(line []byte, e *entry) error {
	head, rest, ok := bytes.Cut(line, []byte(" ["))
	if !ok {
		return errTime
	}
	if e.address = addressOf(head); e.address == nil {
		return errAddress
	}
	stamp, rest, ok := bytes.Cut(rest, []byte{']'})
	if !ok || !e.time("02/Jan/2006:15:04:05 -0700", stamp) {
		return errTime
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return errRequest
	}
	if e.status, rest, ok = statusOf(rest); !ok {
		return errStatus
	}
	if _, rest, ok = quoted(rest); !ok { // the Referer
		return errAgent
	}
	if e.agent, rest, ok = quoted(rest); !ok {
		return errAgent
	}
	if len(e.agent) == 1 && e.agent[0] == '-' {
		e.agent = nil
	}
	took, ok := durationOf(rest, c.unit)
	switch {
	case !ok:
		return errDuration
	case took > longestTook:
		return errLong
	}
	e.took, e.arrival, e.coarse = took, c.arrival, true
	return e.request(request)
}

// request takes a request line apart. Apache writes "-" for a connection on which
// none came.
func (e *entry) request(line []byte) error {
	method, target, ok := bytes.Cut(line, []byte{' '})
	if !ok || !isMethod(method) {
		return errNone
	}
	if i := bytes.LastIndexByte(target, ' '); i >= 0 {
		target = target[:i]
	}
	if len(target) == 0 {
		return errNone
	}
	e.method, e.target = method, target
	return nil
}

func isMethod(b []byte) bool {
	for _, c := range b {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 32
}

// addressOf is the client's address: the first word, or the second where the first is
// the virtual host; nil: neither is one.
func addressOf(head []byte) []byte {
	first, rest, _ := bytes.Cut(head, []byte{' '})
	if isAddress(first) {
		return first
	}
	if second, _, _ := bytes.Cut(rest, []byte{' '}); isAddress(second) {
		return second
	}
	return nil
}

// isAddress tells addresses from names. It need not be exact: what is none in the end
// is charged to 0.0.0.0, as the proxy does.
func isAddress(b []byte) bool {
	dots, colons := 0, 0
	for _, c := range b {
		switch {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return len(b) <= 45 && (dots == 3 && colons == 0 || colons >= 2)
}

// time reads the time of a line.
func (e *entry) time(layout string, text []byte) bool {
	t, err := time.Parse(layout, string(text))
	e.stamp = t
	return err == nil && t.Year() >= 1990 && t.Year() <= 2200
}

// quoted cuts off what stands in the next quotes. A backslash takes the meaning of
// the byte behind it.
func quoted(b []byte) (text, rest []byte, ok bool) {
	start := bytes.IndexByte(b, '"')
	if start < 0 {
		return nil, nil, false
	}
	b = b[start+1:]
	for from := 0; ; {
		end := bytes.IndexByte(b[from:], '"')
		if end < 0 {
			return nil, nil, false
		}
		end += from
		slashes := 0
		for i := end - 1; i >= 0 && b[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return b[:end], b[end+1:], true
		}
		from = end + 1
	}
}

// statusOf cuts off the status.
func statusOf(b []byte) (status int, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " ")
	word, rest, _ := bytes.Cut(b, []byte{' '})
	status, err := strconv.Atoi(string(word))
	return status, rest, err == nil && len(word) == 3 && status > 0
}

// durationOf finds the first plain number.
func durationOf(b []byte, unit time.Duration) (d time.Duration, ok bool) {
	for len(b) > 0 {
		if b[0] == '"' {
			if _, b, ok = quoted(b); !ok {
				return 0, false
			}
			continue
		}
		var word []byte
		word, b, _ = bytes.Cut(b, []byte{' '})
		if d, ok = number(word, unit); ok {
			return d, true
		}
	}
	return 0, false
}

// number reads 12 or 12.345 as so many units, up to a little beyond longestTook.
func number(b []byte, unit time.Duration) (d time.Duration, ok bool) {
	if len(b) == 0 || b[0] < '0' || b[0] > '9' {
		return 0, false
	}
	i := 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		d = min(d*10+time.Duration(b[i]-'0')*unit, 2*longestTook)
	}
	if i == len(b) {
		return d, true
	}
	if b[i] != '.' {
		return 0, false
	}
	for i++; i < len(b); i++ {
		if b[i] < '0' || b[i] > '9' {
			return 0, false
		}
		unit /= 10
		d += time.Duration(b[i]-'0') * unit
	}
	return d, true
}

// accessLog reads lines of tempomat-proxy's own access log, JSON. It says what requests
// cost, or what they were guessed to where they did not come to the backend.
type accessLog struct{}

// record is what a line says, as far as it is needed.
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

// parse reads a line. Lines of the log that are no requests are errNone.
func (accessLog) parse(line []byte, e *entry) error {
	var x record
	err := json.Unmarshal(line, &x)
	var other *json.UnmarshalTypeError
	switch {
	case err != nil && (!errors.As(err, &other) || line[0] != '{'):
		return errJSON
	case x.Message != "request":
		return errNone
	case err != nil || x.Client == nil || x.Method == nil || x.Path == nil || x.Took == nil || !e.time(time.RFC3339Nano, []byte(x.Time)):
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
			e.agent = []byte(family)
		}
	}
	if x.Host != nil {
		e.host = []byte(*x.Host)
	}
	e.address, e.method, e.target = []byte(*x.Client), []byte(*x.Method), []byte(*x.Path)
	e.status, e.leftOut, e.charged, e.decoded = x.Status, x.LeftOut, true, true
	e.took, e.cost = durationOfMS(*x.Took), durationOfMS(cost)
	return nil
}

func durationOfMS(milliseconds float64) time.Duration {
	return time.Duration(math.Round(milliseconds * float64(time.Millisecond)))
}
