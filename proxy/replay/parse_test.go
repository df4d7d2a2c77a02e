package replay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// read is what a line said, with texts of its own.
type read struct {
	Stamp                                string
	Took, Cost                           time.Duration
	Arrival, Coarse, Charged             bool
	Status                               int
	Address, Method, Target, Host, Agent string
	LeftOut                              int
}

func readOf(e entry) read {
	return read{
		e.stamp.UTC().Format(time.RFC3339Nano), e.took, e.cost, e.arrival, e.coarse, e.charged, e.status,
		string(e.address), string(e.method), string(e.target), string(e.host), string(e.agent), e.leftOut,
	}
}

func TestCombined(t *testing.T) {
	const begin, end = `192.0.2.1 - - [22/Nov/2026:11:42:33 +0100] "`, `" 200 512 "-" "Mozilla/5.0" `
	usual := read{
		Stamp: "2026-11-22T10:42:33Z", Took: 1234 * time.Microsecond, Arrival: true, Coarse: true, Status: 200,
		Address: "192.0.2.1", Method: "GET", Target: "/a?b=c", Agent: "Mozilla/5.0",
	}
	with := func(f func(*read)) read {
		r := usual
		f(&r)
		return r
	}
	for _, c := range []struct {
		name   string
		format Format
		line   string
		want   read
		err    error
	}{
		{"usual", Apache, begin + "GET /a?b=c HTTP/1.1" + end + "1234", usual, nil},
		{"nginx", Nginx, begin + "GET /a?b=c HTTP/1.1" + end + "1.234", with(func(r *read) { r.Took, r.Arrival = 1234*time.Millisecond, false }), nil},
		{"more fields", Nginx, begin + "GET /a?b=c HTTP/1.1" + end + `"203.0.113.7, 10.0.0.1" - 0.002 0.001 .`, with(func(r *read) { r.Took, r.Arrival = 2*time.Millisecond, false }), nil},
		{"virtual host", Apache, "www.example.org:443 " + begin + "GET /a?b=c HTTP/1.1" + end + "1234", usual, nil},
		{"IPv6", Apache, strings.Replace(begin, "192.0.2.1", "2001:db8::1", 1) + "GET /a?b=c HTTP/1.1" + end + "1234", with(func(r *read) { r.Address = "2001:db8::1" }), nil},
		{"a user with a space", Apache, strings.Replace(begin, "- -", "- Jane Doe", 1) + "GET /a?b=c HTTP/1.1" + end + "1234", usual, nil},
		{"west", Apache, strings.Replace(begin, "+0100", "-0130", 1) + "GET /a?b=c HTTP/1.1" + end + "1234", with(func(r *read) { r.Stamp = "2026-11-22T13:12:33Z" }), nil},
		{"no agent", Apache, begin + `GET /a?b=c HTTP/1.1" 200 - "-" "-" 1234`, with(func(r *read) { r.Agent = "" }), nil},
		{"quotes in the agent", Apache, begin + `GET /a?b=c HTTP/1.1" 200 512 "\\" "a\"b\\" 1234`, with(func(r *read) { r.Agent = `a\"b\\` }), nil},
		{"HTTP/0.9", Apache, begin + "GET /a?b=c" + end + "1234", usual, nil},
		{"a space in the target", Apache, begin + "GET /a b HTTP/1.1" + end + "1234", with(func(r *read) { r.Target = "/a b" }), nil},
		{"no request", Apache, begin + "-" + end + "1234", read{}, errNone},
		{"TLS to a plain port", Apache, begin + `\x16\x03\x01 \x02` + end + "1234", read{}, errNone},
		{"no duration", Apache, begin + "GET / HTTP/1.1" + end, read{}, errDuration},
		{"common format", Apache, begin + `GET / HTTP/1.1" 200 512`, read{}, errAgent},
		{"no address", Apache, strings.Replace(begin, "192.0.2.1", "localhost", 1) + "GET / HTTP/1.1" + end + "1", read{}, errAddress},
		{"no time", Apache, `192.0.2.1 - - "GET / HTTP/1.1"` + end + "1", read{}, errTime},
		{"the 31st of February", Apache, strings.Replace(begin, "22/Nov", "31/Feb", 1) + "GET / HTTP/1.1" + end + "1", read{}, errTime},
		{"no status", Apache, begin + `GET / HTTP/1.1" ok 512 "-" "-" 1`, read{}, errStatus},
		{"no end of the request", Apache, begin + `GET / HTTP/1.1`, read{}, errRequest},
		{"more than a day", Nginx, begin + "GET / HTTP/1.1" + end + "99999999999999999999", read{}, errLong},
	} {
		var e entry
		err := c.format.parser().parse([]byte(c.line), &e)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		} else if err == nil {
			if diff := cmp.Diff(c.want, readOf(e)); diff != "" {
				t.Errorf("%s: - want, + got\n%s", c.name, diff)
			}
		}
	}
}

func TestJournal(t *testing.T) {
	const begin = `{"level":"info","time":"2026-11-22T11:42:33.125Z","logger":"access","msg":"request",`
	usual := read{
		Stamp: "2026-11-22T11:42:33.125Z", Took: 12500 * time.Microsecond, Cost: 9 * time.Millisecond, Charged: true,
		Status: 200, Address: "192.0.2.1", Method: "GET", Target: "/a", Host: "h", Agent: "chrome windows",
	}
	with := func(f func(*read)) read {
		r := usual
		f(&r)
		return r
	}
	const rest = `"client":"192.0.2.1","method":"GET","host":"h","path":"/a","status":200,"bytes":5,"outcome":"answered","took_ms":12.5,"cost_ms":9,"guess_ms":50,"classes":["slash32=192.0.2.1","userAgent=chrome windows"],"known":true}`
	for _, c := range []struct {
		name, line string
		want       read
		err        error
	}{
		{"usual", begin + rest, usual, nil},
		{"refused: the guess", begin + strings.Replace(strings.Replace(rest, "answered", "refused", 1), `"cost_ms":9`, `"cost_ms":0`, 1), with(func(r *read) { r.Cost = 50 * time.Millisecond }), nil},
		{"escapes", begin + strings.Replace(rest, `"/a"`, `"/\u00e4\"\\"`, 1), with(func(r *read) { r.Target = `/ä"\` }), nil},
		{"lines left out", begin + strings.Replace(rest, `"status"`, `"lines_left_out":7,"status"`, 1), with(func(r *read) { r.LeftOut = 7 }), nil},
		{"spaces, and what is not known", `{ "x" : {"a":[1,"}"]} , ` + begin[1:] + strings.Replace(rest, `"known":true`, `"known" : null`, 1), usual, nil},
		{"another line", `{"level":"info","msg":"serving","addresses":[":8888"]}`, read{}, errNone},
		{"not JSON", "[]", read{}, errJSON},
		{"cut off", begin + `"client":"192`, read{}, errJSON},
		{"no time", `{"msg":"request",` + rest, read{}, errField},
		{"a bad number", begin + strings.Replace(rest, "12.5", `-1`, 1), read{}, errField},
		{"more than a day", begin + strings.Replace(rest, "12.5", `1e9`, 1), read{}, errLong},
		{"much more than a day", begin + strings.Replace(rest, "12.5", `100000000000000000000`, 1), read{}, errLong},
	} {
		var e entry
		err := Tempomat.parser().parse([]byte(c.line), &e)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		} else if err == nil {
			if diff := cmp.Diff(c.want, readOf(e)); diff != "" {
				t.Errorf("%s: - want, + got\n%s", c.name, diff)
			}
		}
	}
}

// TestDetect finds the format by the first lines.
func TestDetect(t *testing.T) {
	const line = `192.0.2.1 - - [22/Nov/2026:11:42:33 +0100] "GET / HTTP/1.1" 200 512 "-" "Mozilla/5.0" `
	for name, c := range map[string]struct {
		log  string
		want Format
	}{
		"microseconds":        {line + "1234\n" + line + "7\n" + line + "88000\n", Apache},
		"with a fraction":     {line + "0.000\n", Nginx},
		"after a bad line":    {"garbage\n" + line + "0.000\n", Nginx},
		"an agent with a dot": {strings.Replace(line, "5.0", "5.0 1.5", 1) + "1234\n", Apache},
		"ours":                {`{"msg":"serving"}` + "\n", Tempomat},
		"nothing":             {"", Nginx},
	} {
		if got := newLines(strings.NewReader(c.log), Auto).format; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// FuzzCombined: whatever is in a line, it is read or refused, and what was read holds.
func FuzzCombined(f *testing.F) {
	f.Add([]byte(`192.0.2.1 - - [22/Nov/2026:11:42:33 +0100] "GET /a?b=c HTTP/1.1" 200 512 "-" "Mozilla/5.0" 1234`))
	f.Add([]byte(`h 2001:db8::1 - - [22/Nov/2026:11:42:33 -0100] "POST http://x HTTP/1.0" 404 - "\"" "" - "x" 0.5`))
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, format := range []Format{Apache, Nginx} {
			var e entry
			if format.parser().parse(line, &e) == nil {
				checkEntry(t, line, &e)
			}
		}
	})
}

func checkEntry(t *testing.T, line []byte, e *entry) {
	t.Helper()
	if e.took < 0 || e.took > longestTook || e.cost < 0 || e.cost > longestTook || e.leftOut < 0 {
		t.Errorf("%q: took %s, cost %s, %d left out", line, e.took, e.cost, e.leftOut)
	}
	if y := e.stamp.Year(); y < 1989 || y > 2201 || len(e.address) == 0 && !e.charged || e.status < 0 {
		t.Errorf("%q: %v", line, readOf(*e))
	}
	w := window{counts: &Lines{}}
	if w.put(e); w.next(false) == nil {
		if a := w.next(true); a == nil || newJob(a).request.URL.Path == "" && !e.decoded {
			t.Errorf("%q: it is lost in the window, or has no path", line)
		}
	}
}

// FuzzJournal: whatever is in a line, it is read or refused, and what was read holds.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"time":"2026-11-22T11:42:33.125Z","msg":"request","client":"192.0.2.1","method":"GET","path":"/a","took_ms":12.5,"cost_ms":9}`))
	f.Add([]byte(`{"msg":"request","x":{"a":["}"]},"path":"\u00e4\"\\","classes":["userAgent=x"]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var e entry
		if Tempomat.parser().parse(line, &e) == nil {
			checkEntry(t, line, &e)
		}
	})
}
