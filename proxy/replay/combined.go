package replay

import (
	"bytes"
	"time"
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
	day     [11]byte      // of the latest line
	since   int64         // when that day began, Unix seconds at UTC
	zone    *time.Location
	offset  int // of the zone, in seconds
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
	end := bytes.IndexByte(rest, ']')
	if end < 0 || !c.time(rest[:end], e) {
		return errTime
	}
	request, rest, ok := quoted(rest[end+1:])
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

// time reads 22/Nov/2026:11:42:33 +0000.
func (c *combined) time(b []byte, e *entry) bool {
	if len(b) != len("22/Nov/2026:11:42:33 +0000") || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return false
	}
	if [11]byte(b) != c.day || c.since == 0 {
		day, err := time.Parse("02/Jan/2006", string(b[:11])) // once a day
		if err != nil || day.Year() < 1990 || day.Year() > 2200 {
			return false
		}
		c.day, c.since = [11]byte(b), day.Unix()
	}
	h, ok1 := two(b[12:])
	m, ok2 := two(b[15:])
	s, ok3 := two(b[18:])
	zh, ok4 := two(b[22:])
	zm, ok5 := two(b[24:])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || h > 23 || m > 59 || s > 60 || b[21] != '+' && b[21] != '-' {
		return false
	}
	offset := zh*3600 + zm*60
	if b[21] == '-' {
		offset = -offset
	}
	if c.zone == nil || c.offset != int(offset) {
		c.zone, c.offset = time.FixedZone("", int(offset)), int(offset)
	}
	e.stamp = time.Unix(c.since+h*3600+m*60+s-offset, 0).In(c.zone)
	return true
}

func two(b []byte) (n int64, ok bool) {
	if len(b) < 2 || b[0] < '0' || b[0] > '9' || b[1] < '0' || b[1] > '9' {
		return 0, false
	}
	return int64(b[0]-'0')*10 + int64(b[1]-'0'), true
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
	if len(word) != 3 {
		return 0, nil, false
	}
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, nil, false
		}
		status = status*10 + int(c-'0')
	}
	return status, rest, true
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
