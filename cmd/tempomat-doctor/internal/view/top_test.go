package view_test

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/admintest"
	"tempomat/proxy/admin/api"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Unix(int64(admintest.Now), 0)

// started returns a Model with the data for its pane.
func started(t testing.TB, s *admintest.Server, p view.Pane, width, height int) *view.Model {
	t.Helper()
	m := view.New(p)
	m.Resize(width, height)
	told(t, m, s, began)
	return m
}

// told fetches the documents that the Model wants, and passes them to the Model.
func told(t testing.TB, m *view.Model, s *admintest.Server, now time.Time) {
	t.Helper()
	w := m.Wants()
	d, err := w.Fetch(t.Context(), s)
	m.Take(now, d, err)
}

func press(m *view.Model, keys ...string) (last view.Effect) {
	for _, key := range keys {
		last = m.Press(key)
	}
	return last
}

// golden compares a frame with a file in testdata/doctor.
func golden(t *testing.T, name, got string) {
	t.Helper()
	testkit.Golden(t, *update, filepath.Join("..", "..", "..", "..", "testdata", "doctor", name), got)
}

func TestFrames(t *testing.T) {
	sizes := []struct{ width, height int }{{80, 24}, {200, 60}, {60, 15}}
	for p, name := range view.Panes() {
		for _, s := range sizes {
			m := started(t, admintest.New(), view.Pane(p), s.width, s.height)
			golden(t, fmt.Sprintf("top-%s-%dx%d.golden", name, s.width, s.height), m.Frame().String())
		}
	}
}

func TestFramesOfTexts(t *testing.T) {
	for _, c := range []struct {
		name string
		pane view.Pane
		keys []string
	}{
		{"page", view.PanePages, []string{"enter"}},
		{"page-hostile", view.PanePages, []string{"down", "down", "enter"}},
		{"help", view.PaneOverview, []string{"?"}},
	} {
		m := started(t, admintest.New(), c.pane, 80, 24)
		press(m, c.keys...)
		golden(t, "top-"+c.name+".golden", m.Frame().String())
	}
	m := started(t, admintest.New(), view.PaneKeys, 80, 24)
	if e := press(m, "down", "enter"); e.Explain != "10.1.0.1" {
		t.Fatalf("explain %q", e.Explain)
	}
	explained := admintest.Explain()
	m.Explained("10.1.0.1", &explained, nil)
	golden(t, "top-explain.golden", m.Frame().String())
}

// TestFindings checks the overview's sentences about servers in several states.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*api.OverviewReply)
		want   string
		not    string
	}{
		{"idle", func(o *api.OverviewReply) {
			*o = api.OverviewReply{Version: 1, Seconds: 10, CPUs: 8, Use: -1, Gate: limiter.GateState{Utilisation: -1}}
		},
			"The server has room: in the last 10 s, requests used 0 %.", "!"},
		{"busy with other things", func(o *api.OverviewReply) { o.CPU = 0.5 },
			"The CPUs are full, but not because of requests: 96 % of the CPUs are in use; in the last 10 s, requests used 6 %, and all programs except niced ones 95 %.", "has room"},
		{"an attack of two seconds", func(o *api.OverviewReply) { o.CPU, o.Use, o.Gate.Utilisation = 1.5, 0.22, 1 },
			"The server is full: 100 % of the CPUs are in use; in the last 10 s, requests used 19 %, and all programs except niced ones 22 %.", "not because"},
		{"busy with people", func(o *api.OverviewReply) { o.Groups[0].CPU = 9; o.CPU = 10 }, "  known use 90 % of the requests' CPU time", "!"},
		{"the gate sleeps", func(o *api.OverviewReply) {
			for i := range o.Groups {
				o.Groups[i].Waiting, o.Groups[i].P95 = 0, 9
			}
		}, "! The CPUs are full and people's pages are slow, but tempomat delays no requests.", "2 wait"},
		{"it only observes", func(o *api.OverviewReply) {
			o.Mode = "observe"
			for i := range o.Groups {
				o.Groups[i].Waiting, o.Groups[i].P95 = 0, 9
			}
		}, "  The CPUs are full and people's pages are slow. tempomat only observes (throttle.mode)", "Check in pane 6"},
		{"pages that sleep", func(o *api.OverviewReply) {
			o.CPU, o.Wasted, o.Use, o.Gate.Utilisation, o.Gate.Busy, o.Gate.Holding = 0.16, 0, 0.03, 0.03, 16, 14
			o.Places = []api.PlaceRow{{Group: "strangers", Shape: "/export", Count: 14}}
		}, "  The CPUs have room: 3 % of the CPUs are in use; in the last 10 s, requests used 2 %, and all programs except niced ones 3 %.\n" +
			"  Workers: 16 of 16 are in use, 14 of them by requests that compute little. Most common requests: 14 by strangers, for /export.", "CPU time"},
		{"estimated", func(o *api.OverviewReply) { o.Estimated = 0.9 }, "requests used 93 % (estimated from their duration)", "has room"},
		{"nobody has left", func(o *api.OverviewReply) { o.Wasted = 0 }, "The server is full", "wasted"},
	} {
		s := admintest.New()
		o := admintest.Overview()
		c.change(&o)
		s.Set("/v1/overview", o)
		got := started(t, s, view.PaneOverview, 200, 30).Frame().String()
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: want %q, not %q in\n%s", c.name, c.want, c.not, got)
		}
	}
}

// TestTheFirstLineSaysWhatIsWrong: every pane's first line shows the worst condition, on screens of any size. The
// overview also shows the remedy, and the other panes say where to find it, in sentences that aren't cut.
func TestTheFirstLineSaysWhatIsWrong(t *testing.T) {
	s, o := admintest.New(), admintest.Overview()
	o.Conditions = []api.Condition{
		{Name: "backend-down", Bad: true, What: "The backend is down: 40 of 40 requests in the last 10 s got 502.", Do: "Start your web server."},
		{Name: "reload-rejected", What: "The last reload was rejected.", Do: "Run tempomat-proxy -check."},
	}
	o.CPU, o.Use, o.Gate.Utilisation, o.Groups = 0, 0.01, 0.01, nil
	s.Set("/v1/overview", o)
	for p, height := range []int{15, 24, 40, 15, 24, 40} {
		f := started(t, s, view.Pane(p), 80, height).Frame()
		if !strings.HasPrefix(f.String(), "! The backend is down: 40 of 40 requests in the last 10 s got 502. (+1)") || f.Lines[0][0].Style != view.Bad {
			t.Errorf("pane %d of %d lines is\n%s", p, height, f)
		}
		if p > 0 && !strings.Contains(strings.ReplaceAll(f.String(), "\n", " "), "(+1) Pane 1 shows what to do.") {
			t.Errorf("pane %d of %d lines cuts its first sentence:\n%s", p, height, f)
		}
	}
	got := started(t, s, view.PaneOverview, 200, 30).Frame().String()
	for _, want := range []string{"got 502. Start your web server.", "The last reload was rejected. Run tempomat-proxy -check."} {
		if !strings.Contains(got, want) || strings.Contains(got, "has room") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestPartsAreOfAWhole: while an attack begins, the pages add up to more than the groups. Still, no part is
// greater than 100 %.
func TestPartsAreOfAWhole(t *testing.T) {
	s := admintest.New()
	o, pages := admintest.Overview(), admintest.Shapes()
	o.CPU, o.Groups[2].CPU = 1.2, 1
	pages.Rows = pages.Rows[:2]
	pages.Rows[0].CPU, pages.Rows[0].Groups = 3, map[string]float64{"strangers": 3}
	pages.Rows[1].CPU, pages.Rows[1].Groups = 1, map[string]float64{"strangers": 1}
	s.Set("/v1/overview", o)
	s.Set("/v1/shapes", pages)
	got := started(t, s, view.PaneOverview, 200, 30).Frame().String()
	for _, want := range []string{"; 75 % of it is /wiki/index.php", "Another 25 % is /wiki/Special:RecentChanges", "3.00  75 %", "1.00  25 %"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// row returns the text of the marked row.
func row(f *view.Frame) string {
	text := ""
	for _, line := range f.Lines[min(10, len(f.Lines)):] {
		for _, s := range line {
			if s.Style == view.Marked {
				text += s.Text
			}
		}
	}
	return text
}

func TestKeys(t *testing.T) {
	s := admintest.New()
	m := started(t, s, view.PaneOverview, 200, 40)
	s.Asked()
	for i, c := range []struct {
		keys  []string
		want  string // in the marked row
		asked string
	}{
		{[]string{"3"}, "/wiki/index.php?title&action", "/v1/shapes?limit=30"},
		{[]string{"down"}, "RecentChanges", ""},
		{[]string{"down", "k", "pgdn", "home", "end"}, "/blog/1986/*", ""},
		{[]string{"home", "tab"}, "10.1.0.0", "/v1/queue?limit=200"},
		{[]string{"tab"}, "03:00:00", "/v1/recent?limit=200"},
		{[]string{"2"}, "10.1.0.0", "/v1/classes /v1/buckets?class=slash32&limit=200&sort=cpu"},
		{[]string{"right"}, "10.1.0.0", "/v1/classes /v1/buckets?class=slash24&limit=200&sort=cpu"},
		{[]string{"left", "left"}, "10.1.0.0", "/v1/classes /v1/buckets?class=userAgent&limit=200&sort=cpu"},
		{[]string{"s"}, "", "/v1/classes /v1/buckets?class=userAgent&limit=200&sort=rate"},
		{[]string{"s", "s", "s"}, "", "/v1/classes /v1/buckets?class=userAgent&limit=200&sort=last"},
		{[]string{"backtab", "backtab"}, "", ""},
	} {
		press(m, c.keys...)
		told(t, m, s, began)
		if got := row(m.Frame()); !strings.Contains(got, c.want) {
			t.Errorf("%d %q: marked is %q, want %q", i, c.keys, got, c.want)
		}
		asked := slices.DeleteFunc(s.Asked(), func(p string) bool { return p == "/v1/overview" })
		if got := strings.Join(asked, " "); c.asked != "" && got != c.asked {
			t.Errorf("%d %q: asked for %q, want %q", i, c.keys, got, c.asked)
		}
	}
}

// TestRowStays: the marked row stays marked when new rows come before it.
func TestRowStays(t *testing.T) {
	s := admintest.New()
	m := started(t, s, view.PanePages, 120, 40)
	press(m, "down")
	before := row(m.Frame())
	shapes := admintest.Shapes()
	shapes.Rows[0].CPU = 1.5 // the sum stays the same, and so do the parts of the rows
	shapes.Rows = append([]api.ShapeRow{{Shape: "/new", CPU: 1.42}, {Shape: "/newer", CPU: 1.41}}, shapes.Rows...)
	s.Set("/v1/shapes", shapes)
	told(t, m, s, began)
	if after := row(m.Frame()); !slices.Equal(strings.Fields(after), strings.Fields(before)) { // the widths of columns may change
		t.Errorf("marked was %q, is %q", before, after)
	}
	s.Set("/v1/shapes", api.ShapesReply{})
	told(t, m, s, began)
	press(m, "up", "down", "enter")
	testkit.Same(t, "", row(m.Frame()), "marked in an empty table")
}

func TestEffects(t *testing.T) {
	m := started(t, admintest.New(), view.PaneVerdicts, 80, 24)
	for _, c := range []struct {
		key  string
		want view.Effect
	}{
		{"p", view.Effect{}}, {"p", view.Effect{Ask: true}}, {"ctrl-l", view.Effect{Redraw: true}}, {"s", view.Effect{}}, {"left", view.Effect{}},
		{"4", view.Effect{Ask: true}}, {"", view.Effect{}}, {"x", view.Effect{}}, {"5", view.Effect{Ask: true}},
		{"enter", view.Effect{Explain: "r000000"}}, {"q", view.Effect{}}, {"?", view.Effect{}}, {"ctrl-c", view.Effect{Quit: true}},
		{"esc", view.Effect{}}, {"q", view.Effect{Quit: true}},
	} {
		testkit.Same(t, c.want, m.Press(c.key), "%q", c.key)
	}
}

// TestAway: while the proxy doesn't answer, top says so and shows the last answers. After that, it continues.
func TestAway(t *testing.T) {
	s := admintest.New()
	m := started(t, s, view.PaneQueue, 80, 24)
	whole := m.Frame().String()
	s.Away(errors.New("nobody answers on /run/\x1b[2J: is tempomat-proxy running?"))
	told(t, m, s, began.Add(time.Second))
	got := m.Frame().String()
	if want := `No answer since 03:00:01 UTC; still trying: nobody answers on /run/\x1b[2J`; !strings.Contains(got, want) {
		t.Errorf("not told: %s", got)
	}
	if !strings.Contains(got, "10.1.0.3") {
		t.Errorf("what it said last is gone: %s", got)
	}
	s.Away(nil)
	told(t, m, s, began.Add(14*time.Second))
	testkit.Same(t, whole, m.Frame().String(), "the frame as before")
}

// TestOnePaneLacks: if a document is missing, its pane says so and the others work.
func TestOnePaneLacks(t *testing.T) {
	s := admintest.New()
	m := started(t, s, view.PaneOverview, 120, 24)
	s.Without("/v1/queue")
	press(m, "4")
	told(t, m, s, began.Add(time.Second))
	if got, want := m.Frame().String(), "The proxy doesn't send the data for this pane: there is no /v1/queue"; !strings.Contains(got, want) {
		t.Errorf("not told: %s", got)
	}
	press(m, "1")
	told(t, m, s, began.Add(2*time.Second))
	if got := m.Frame().String(); strings.Contains(got, "does not tell") || !strings.Contains(got, "CPU 7.41 of 8 [") {
		t.Errorf("the overview does not go on: %s", got)
	}
}

// TestAnyScreen: with any keys and sizes, a frame has the height of the screen, its lines fit the width, and
// all of its characters are printable.
func TestAnyScreen(t *testing.T) {
	names := []string{"tab", "backtab", "1", "2", "3", "4", "5", "6", "up", "down", "pgup", "pgdn", "home", "end", "left", "right",
		"enter", "esc", "s", "p", "?", "q", "ö", "\x1b"}
	s, explained := admintest.New(), admintest.Explain()
	rapid.Check(t, func(rt *rapid.T) {
		m := view.New(view.PaneOverview)
		if rapid.Bool().Draw(rt, "told") {
			m = started(t, s, view.Pane(rapid.IntRange(0, 5).Draw(rt, "pane")), 80, 24)
		}
		for range rapid.IntRange(0, 8).Draw(rt, "keys") {
			width, height := rapid.IntRange(0, 130).Draw(rt, "width"), rapid.IntRange(0, 40).Draw(rt, "height")
			m.Resize(width, height)
			if e := m.Press(rapid.SampledFrom(names).Draw(rt, "key")); e.Explain != "" {
				m.Explained(e.Explain, &explained, nil)
			}
			f := m.Frame()
			if len(f.Lines) != height && width > 0 {
				rt.Fatalf("a frame of %d lines on %dx%d", len(f.Lines), width, height)
			}
			check(rt, f)
		}
	})
}

func check(t *rapid.T, f *view.Frame) {
	for y, line := range f.Lines {
		text := ""
		for _, s := range line {
			text += s.Text
		}
		if view.Width(text) > f.Width || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == 0x202e }) {
			t.Fatalf("line %d of %d columns: %q", y, f.Width, text)
		}
	}
}

// TestDocs: the manual shows the frame that top draws.
func TestDocs(t *testing.T) {
	manual := testkit.ReadFile(t, "../../../../docs/doctor.md")
	for line := range strings.Lines(started(t, admintest.New(), view.PaneOverview, 80, 24).Frame().String()) {
		if line != "\n" && !strings.Contains(manual, "    "+line) {
			t.Errorf("docs/doctor.md lacks %q", line)
		}
	}
}
