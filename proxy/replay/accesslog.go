package replay

import (
	"bytes"
	"encoding/json"
	"time"
)

// accessLog reads lines of tempomat-proxy's own access log, JSON. It says what requests
// cost, or what they were guessed to where they did not come to the backend.
type accessLog struct {
	text []byte // for strings with escapes
}

// parse reads a line. Lines of the log that are no requests are errNone.
func (a *accessLog) parse(line []byte, e *entry) error {
	a.text = a.text[:0]
	x := record{entry: e, accessLog: a}
	if !x.object(line) {
		return errJSON
	}
	if !x.isRequest {
		return errNone
	}
	if x.wrong || e.stamp.IsZero() || e.address == nil || e.method == nil || e.target == nil || x.took < 0 {
		return errField
	}
	if x.took > longestTook || x.cost > longestTook {
		return errLong
	}
	e.took, e.charged, e.decoded = x.took, true, true
	if e.cost = x.cost; x.unserved {
		e.cost = x.guess
	}
	return nil
}

// record is what a line says, as far as it was read.
type record struct {
	*entry
	*accessLog
	isRequest bool
	wrong     bool // a value is not what it should be
	unserved  bool // it did not come to the backend, or not to its end
	took      time.Duration
	cost      time.Duration
	guess     time.Duration
}

// object reads the members of an object and tells whether it is one.
func (x *record) object(b []byte) bool {
	x.took = -1
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return false
	}
	if b = space(b[1 : len(b)-1]); len(b) == 0 {
		return true
	}
	for {
		name, rest, ok := x.string(b)
		if !ok {
			return false
		}
		rest = space(rest)
		if len(rest) == 0 || rest[0] != ':' {
			return false
		}
		if b, ok = x.member(name, space(rest[1:])); !ok {
			return false
		}
		if b = space(b); len(b) == 0 {
			return true
		}
		if b[0] != ',' {
			return false
		}
		b = space(b[1:])
	}
}

func space(b []byte) []byte { return bytes.TrimLeft(b, " \t") }

// member reads a value and keeps it if it is needed.
func (x *record) member(name, b []byte) (rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '"' {
		text, rest, ok := x.string(b)
		if ok {
			x.text(name, text)
		}
		return rest, ok
	}
	if len(b) > 0 && b[0] == '[' && string(name) == "classes" {
		return x.classes(b[1:])
	}
	value, rest, ok := plain(b)
	if !ok {
		return nil, false
	}
	x.value(name, value)
	return rest, true
}

// text takes in a string.
func (x *record) text(name, value []byte) {
	switch string(name) {
	case "msg":
		x.isRequest = string(value) == "request"
	case "time":
		x.wrong = !x.time(value) || x.wrong
	case "client":
		x.address = value
	case "method":
		x.method = value
	case "host":
		x.host = value
	case "path":
		x.target = value
	case "outcome":
		switch string(value) {
		case "refused", "redirected", "client gone":
			x.unserved = true
		}
	}
}

// time reads a time of RFC 3339.
func (x *record) time(b []byte) bool {
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil || t.Year() < 1990 || t.Year() > 2200 {
		return false
	}
	x.stamp = t
	return true
}

// value takes in what is no string.
func (x *record) value(name, value []byte) {
	switch string(name) {
	case "took_ms":
		x.milliseconds(&x.took, value)
	case "cost_ms":
		x.milliseconds(&x.cost, value)
	case "guess_ms":
		x.milliseconds(&x.guess, value)
	case "status", "lines_left_out":
		n, ok := number(value, 1)
		x.wrong = x.wrong || !ok
		if string(name) == "status" {
			x.status = int(n)
		} else {
			x.leftOut = int(n)
		}
	}
}

func (x *record) milliseconds(p *time.Duration, value []byte) {
	d, ok := number(value, time.Millisecond)
	*p, x.wrong = d, x.wrong || !ok
}

// classes reads the keys, of which the User-Agent's family stands for the header
// that is not in the log.
func (x *record) classes(b []byte) (rest []byte, ok bool) {
	for {
		b = space(b)
		if len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case ']':
			return b[1:], true
		case ',':
			b = b[1:]
		case '"':
			var key []byte
			if key, b, ok = x.string(b); !ok {
				return nil, false
			}
			if family, ok := bytes.CutPrefix(key, []byte("userAgent=")); ok {
				x.agent = family
			}
		default:
			return nil, false
		}
	}
}

// string cuts a string off. One with escapes is unescaped into text, which is the way
// of few.
func (a *accessLog) string(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	text, rest, ok = quoted(b)
	if !ok || bytes.IndexByte(text, '\\') < 0 {
		return text, rest, ok
	}
	var plain string
	if json.Unmarshal(b[:len(text)+2], &plain) != nil {
		return nil, nil, false
	}
	from := len(a.text)
	a.text = append(a.text, plain...)
	return a.text[from:len(a.text):len(a.text)], rest, true
}

// plain cuts off a number, a word, or a list or object, which may be nested.
func plain(b []byte) (value, rest []byte, ok bool) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			_, after, ok := quoted(b[i:])
			if !ok {
				return nil, nil, false
			}
			i = len(b) - len(after) - 1
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth < 0 {
				return nil, nil, false
			}
		case ',':
			if depth == 0 {
				return bytes.TrimRight(b[:i], " \t"), b[i:], i > 0
			}
		}
	}
	return bytes.TrimRight(b, " \t"), nil, depth == 0 && len(b) > 0
}
