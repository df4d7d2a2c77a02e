package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter"
)

// line is one of Apache's, so many seconds after a full hour.
func line(at int, address, target, agent string, took time.Duration) string {
	t := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC).Add(time.Duration(at) * time.Second)
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 1 \"-\" \"%s\" %d\n",
		address, t.Format("02/Jan/2006:15:04:05 -0700"), target, agent, took.Microseconds())
}

func run(t *testing.T, log io.Reader) *Report {
	t.Helper()
	r, err := Run(t.Context(), log, shipped(t, limiter.Fair))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWrongFormat says what is expected where nothing can be read.
func TestWrongFormat(t *testing.T) {
	good := line(0, "192.0.2.1", "/", "x", time.Millisecond)
	for name, c := range map[string]struct{ log, want string }{
		"empty":        {"", "the log is empty"},
		"common":       {strings.Repeat(`192.0.2.1 - - [22/Nov/2026:11:42:33 +0100] "GET / HTTP/1.1" 200 512`+"\n", 3), "line 1: no Referer and User-Agent"},
		"no duration":  {strings.Repeat(strings.Replace(good, "1000\n", "\n", 1), 5000), "line 5: no duration"},
		"another log":  {strings.Repeat("Nov 22 11:42:33 host sshd[1]: hello\n", 3), "line 1: "},
		"only startup": {`{"msg":"serving"}` + "\n", "none of its lines is of a request"},
	} {
		_, err := Run(t.Context(), strings.NewReader(c.log), shipped(t, limiter.Fair))
		var wrong *FormatError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
			continue
		}
		for _, word := range []string{"LogFormat", "%D", "log_format", "$request_time", "access: all"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error does not say %s", name, word)
			}
		}
	}
}

// TestBadLines counts them and names the first ones.
func TestBadLines(t *testing.T) {
	good := line(0, "192.0.2.1", "/", "x", time.Millisecond)
	log := good + "garbage\n\n" + strings.Replace(good, "GET / HTTP/1.1", "-", 1) +
		strings.Repeat("x", 3*longestLine) + "\n" + good + strings.Repeat("more\n", 10) + strings.TrimSuffix(good, "\n")
	got := run(t, strings.NewReader(log)).Lines
	if got.Requests != 3 || got.Bad != 12 || got.None != 1 || len(got.Faults) != faultsNamed {
		t.Errorf("%+v", got)
	}
	if f := got.Faults; f[0].Line != 2 || f[1].Line != 5 || f[1].Reason != errTooLong.Error() || f[2].Line != 7 {
		t.Errorf("%+v", f)
	}
}

// TestReadFails tells a broken log from its end.
func TestReadFails(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(line(0, "192.0.2.1", "/", "x", time.Millisecond)), &failing{})
	if _, err := Run(t.Context(), broken, shipped(t, limiter.Fair)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// endless is a log that never ends, and cancels when much of it was read.
type endless struct {
	of     byte
	left   int
	cancel context.CancelFunc
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left--; e.left == 0 {
		e.cancel()
	}
	if e.left < -100 {
		return 0, errors.New("it was read on")
	}
	for i := range p {
		p[i] = e.of
	}
	return len(p), nil
}

// TestCancelled: a log without requests, all of whose lines are empty or that is one line,
// is read no longer than until the context ends.
func TestCancelled(t *testing.T) {
	for _, of := range []byte{'\n', 0} {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := Run(ctx, &endless{of, 100, cancel}, shipped(t, limiter.Fair)); !errors.Is(err, context.Canceled) {
			t.Errorf("a log of %q: %v", of, err)
		}
	}
}

// TestWindow takes requests out in the order of their arrival, none lost, as long as
// lines are not too far behind others.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		var all []entry
		epoch := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
		for range n {
			all = append(all, entry{
				stamp:   epoch.Add(time.Duration(rapid.IntRange(0, 300_000).Draw(t, "end")) * time.Millisecond),
				took:    time.Duration(rapid.IntRange(0, 50_000).Draw(t, "took")) * time.Millisecond,
				address: "192.0.2.1", method: "GET", target: "/",
			})
		}
		slices.SortFunc(all, func(a, b entry) int { return a.stamp.Compare(b.stamp) })
		for i := range all { // several processes write: lines change places with near ones
			if j := i + rapid.IntRange(0, 3).Draw(t, "swap"); j < n && all[j].stamp.Sub(all[i].stamp) < disorder {
				all[i], all[j] = all[j], all[i]
			}
		}
		w := newWindow(2, &Lines{})
		out, last, cost := 0, time.Duration(math.MinInt64), time.Duration(0)
		take := func(end bool) {
			for a := w.next(end); a != nil; a = w.next(end) {
				if a.at < last {
					t.Fatalf("%s comes after %s", a.at, last)
				}
				last = a.at
				out++
				cost += a.cost
			}
		}
		for i := range all {
			if w.date(&all[i]) {
				take(false)
				w.add(&all[i])
			}
		}
		take(true)
		if out != n || w.counts.Unordered != 0 {
			t.Fatalf("%d of %d came out, %d were left out", out, n, w.counts.Unordered)
		}
		if most := 2 * (350*time.Second + piece); cost > most {
			t.Fatalf("they cost %s of %s that there were", cost, most)
		}
	})
}

// TestUnordered leaves out what is far behind others, and has what took longer than
// the window come late.
func TestUnordered(t *testing.T) {
	far := int((Window + disorder).Seconds()) + 1
	log := line(1700, "192.0.2.1", "/", "x", time.Millisecond) +
		line(2000, "192.0.2.1", "/", "x", time.Millisecond) +
		line(2000-far, "192.0.2.1", "/", "x", time.Millisecond) + // left out
		line(2000-far+10, "192.0.2.1", "/", "x", time.Millisecond) +
		line(1500, "192.0.2.1", "/", "x", 8*time.Minute) // it ends at 1980, when 1700 is over
	got := run(t, strings.NewReader(log)).Lines
	if got.Requests != 4 || got.Unordered != 1 || got.Clipped != 1 {
		t.Errorf("%+v", got)
	}
}

// TestCrowd divides the CPUs among those who were there at the same time.
func TestCrowd(t *testing.T) {
	c := crowd{cpus: 2}
	for range 20 {
		c.add(10*time.Second, 18*time.Second)
	}
	c.add(30*time.Second, 31*time.Second)
	for name, x := range map[string]struct{ from, to, want time.Duration }{
		"among twenty": {10 * time.Second, 18 * time.Second, 800 * time.Millisecond},
		"alone":        {30 * time.Second, 31 * time.Second, time.Second},
		"a moment":     {30 * time.Second, 30*time.Second + 7*time.Millisecond, 7 * time.Millisecond},
	} {
		if got := c.cost(x.from, x.to); (got - x.want).Abs() > time.Microsecond {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
}

// TestIdle skips the time in which nobody comes: years of ticks would take hours.
func TestIdle(t *testing.T) {
	log := line(0, "192.0.2.1", "/", "x", time.Second) + line(10*365*86400, "192.0.2.1", "/", "x", time.Second)
	if r := run(t, strings.NewReader(log)); r.Total.Known.Requests+r.Total.Strangers.Requests != 2 || len(r.Hours) != 2 {
		t.Errorf("%+v", r.Total)
	}
}

// TestBounded: neither many keys nor many hours, nor many lines, take memory without
// end.
func TestBounded(t *testing.T) {
	var log strings.Builder
	for i := range 3 * keysKept / 2 {
		log.WriteString(line(i*3600, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "/", "x", time.Millisecond))
	}
	p := newPlayer(strings.NewReader(log.String()), shipped(t, limiter.Fair))
	if err := p.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range p.tally.classes {
		if len(c.keys) > keysKept {
			t.Errorf("%s: %d keys", c.name, len(c.keys))
		}
	}
	if n := len(p.tally.hours); n != hoursKept {
		t.Errorf("%d hours, want %d", n, hoursKept)
	}
	if p.tally.total.Requests != 3*keysKept/2 {
		t.Errorf("%+v", p.tally.total)
	}
}

// TestMemory: what is kept of a log is bounded, however long that is.
func TestMemory(t *testing.T) {
	const lines = 2 * windowSize
	p := newPlayer(newGenerated(lines, lines*120*time.Millisecond), shipped(t, limiter.Fair))
	if err := p.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(p)
	if m.HeapAlloc > 60<<20 {
		t.Errorf("%d MB", m.HeapAlloc>>20)
	}
}

// TestLongLines: a log of the longest lines is sorted in as little memory.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 3000)
	text := strings.TrimSpace(line(0, "192.0.2.1", "/"+long, long, time.Millisecond))
	w := newWindow(1, &Lines{})
	for range 20_000 {
		e, err := parse(text)
		if err != nil || !w.date(e) {
			t.Fatal(err)
		}
		w.add(e)
		for w.next(false) != nil {
		}
	}
	if w.bytes > windowBytes || w.bytes < windowBytes/2 {
		t.Errorf("%d bytes", w.bytes)
	}
}
