package replay

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// parseCase is a line, and what it says other than the usual one of its format; or why it is none.
type parseCase struct {
	name, line string
	other      func(*entry)
	err        error
}

func checkParse(t *testing.T, usual entry, cases []parseCase) {
	t.Helper()
	for _, c := range cases {
		got, err := parse(c.line)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if c.err != nil || err != nil {
			continue
		}
		want := usual
		if c.other != nil {
			c.other(&want)
		}
		got.stamp, want.size = got.stamp.UTC(), len(c.line)
		if *got != want {
			t.Errorf("%s: got  %+v\nwant %+v", c.name, *got, want)
		}
	}
}

func TestCombined(t *testing.T) {
	const begin, end = `192.0.2.1 - - [22/Nov/2026:11:42:33 +0100] "`, `" 200 512 "-" "Mozilla/5.0" `
	const get = begin + "GET /a?b=c HTTP/1.1"
	nginx := func(took time.Duration) func(*entry) {
		return func(e *entry) { e.took, e.arrival = took, false }
	}
	checkParse(t, entry{
		stamp: time.Date(2026, 11, 22, 10, 42, 33, 0, time.UTC), took: 1234 * time.Microsecond, arrival: true, coarse: true, status: 200,
		address: "192.0.2.1", method: "GET", target: "/a?b=c", agent: "Mozilla/5.0",
	}, []parseCase{
		{"usual", get + end + "1234", nil, nil},
		{"nginx", get + end + "1.234", nginx(1234 * time.Millisecond), nil},
		{"more fields", get + end + `"203.0.113.7, 10.0.0.1" - 0.002 0.001 .`, nginx(2 * time.Millisecond), nil},
		{"virtual host", "www.example.org:443 " + get + end + "1234", nil, nil},
		{"IPv6", strings.Replace(get, "192.0.2.1", "2001:db8::1", 1) + end + "1234", func(e *entry) { e.address = "2001:db8::1" }, nil},
		{"a user with a space", strings.Replace(get, "- -", "- Jane Doe", 1) + end + "1234", nil, nil},
		{"west", strings.Replace(get, "+0100", "-0130", 1) + end + "1234", func(e *entry) { e.stamp = e.stamp.Add(150 * time.Minute) }, nil},
		{"no agent", get + `" 200 - "-" "-" 1234`, func(e *entry) { e.agent = "" }, nil},
		{"quotes in the agent", get + `" 200 512 "\\" "a\"b\\" 1234`, func(e *entry) { e.agent = `a\"b\\` }, nil},
		{"HTTP/0.9", begin + "GET /a?b=c" + end + "1234", nil, nil},
		{"a space in the target", begin + "GET /a b HTTP/1.1" + end + "1234", func(e *entry) { e.target = "/a b" }, nil},
		{"no request", begin + "-" + end + "1234", nil, errNone},
		{"TLS to a plain port", begin + `\x16\x03\x01 \x02` + end + "1234", nil, errNone},
		{"no duration", get + end, nil, errDuration},
		{"common format", get + `" 200 512`, nil, errAgent},
		{"no address", strings.Replace(get, "192.0.2.1", "localhost", 1) + end + "1", nil, errAddress},
		{"no time", `192.0.2.1 - - "GET / HTTP/1.1"` + end + "1", nil, errTime},
		{"the 31st of February", strings.Replace(get, "22/Nov", "31/Feb", 1) + end + "1", nil, errTime},
		{"no status", get + `" ok 512 "-" "-" 1`, nil, errStatus},
		{"no end of the request", get, nil, errRequest},
		{"more than a day", get + end + "99999999999999999999", nil, errLong},
	})
}

func TestJournal(t *testing.T) {
	const begin = `{"level":"info","time":"2026-11-22T11:42:33.125Z","logger":"access","msg":"request",`
	const rest = `"client":"192.0.2.1","method":"GET","host":"h","path":"/a","status":200,"bytes":5,"outcome":"answered","took_ms":12.5,"cost_ms":9,"guess_ms":50,"classes":["slash32=192.0.2.1","userAgent=chrome windows"],"known":true}`
	checkParse(t, entry{
		stamp: time.Date(2026, 11, 22, 11, 42, 33, 125e6, time.UTC), took: 12500 * time.Microsecond, cost: 9 * time.Millisecond, charged: true, decoded: true,
		status: 200, address: "192.0.2.1", method: "GET", target: "/a", host: "h", agent: "chrome windows",
	}, []parseCase{
		{"usual", begin + rest, nil, nil},
		{"refused: the guess", begin + strings.Replace(strings.Replace(rest, "answered", "refused", 1), `"cost_ms":9`, `"cost_ms":0`, 1), func(e *entry) { e.cost = 50 * time.Millisecond }, nil},
		{"escapes", begin + strings.Replace(rest, `"/a"`, `"/\u00e4\"\\"`, 1), func(e *entry) { e.target = `/ä"\` }, nil},
		{"lines left out", begin + strings.Replace(rest, `"status"`, `"lines_left_out":7,"status"`, 1), func(e *entry) { e.leftOut = 7 }, nil},
		{"spaces, and what is not known", `{ "x" : {"a":[1,"}"]} , ` + begin[1:] + strings.Replace(rest, `"known":true`, `"known" : null`, 1), nil, nil},
		{"another line", `{"level":"info","msg":"serving","addresses":[":8888"]}`, nil, errNone},
		{"cut off", begin + `"client":"192`, nil, errJSON},
		{"no time", `{"msg":"request",` + rest, nil, errField},
		{"a bad number", begin + strings.Replace(rest, "12.5", `-1`, 1), nil, errField},
		{"more than a day", begin + strings.Replace(rest, "12.5", `1e9`, 1), nil, errLong},
		{"much more than a day", begin + strings.Replace(rest, "12.5", `100000000000000000000`, 1), nil, errLong},
	})
}

// FuzzParse: whatever is in a line, it is read or refused, and what was read holds.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`192.0.2.1 - - [22/Nov/2026:11:42:33 +0100] "GET /a?b=c HTTP/1.1" 200 512 "-" "Mozilla/5.0" 1234`,
		`h 2001:db8::1 - - [22/Nov/2026:11:42:33 -0100] "POST http://x HTTP/1.0" 404 - "\"" "" - "x" 0.5`,
		`{"time":"2026-11-22T11:42:33.125Z","msg":"request","client":"192.0.2.1","method":"GET","path":"/a","took_ms":12.5,"cost_ms":9}`,
		`{"msg":"request","x":{"a":["}"]},"path":"\u00e4\"\\","classes":["userAgent=x"]}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if line == "" {
			return
		}
		e, err := parse(line)
		if err != nil {
			return
		}
		if e.took < 0 || e.took > longestTook || e.cost < 0 || e.cost > longestTook || e.leftOut < 0 {
			t.Errorf("%q: took %s, cost %s, %d left out", line, e.took, e.cost, e.leftOut)
		}
		if y := e.stamp.Year(); y < 1989 || y > 2201 || e.address == "" && !e.charged || e.status < 0 {
			t.Errorf("%q: %+v", line, *e)
		}
		w := newWindow(1, &Lines{})
		if w.date(e) {
			w.add(e)
			if a := w.next(true); a == nil || newJob(a).request.URL.Path == "" && !e.decoded {
				t.Errorf("%q: it is lost in the window, or has no path", line)
			}
		}
	})
}
