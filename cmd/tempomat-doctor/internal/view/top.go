// Package view shows the doctor's answers on a terminal: readable numbers, tables, paragraphs, the
// explanation of a request, and `tempomat-doctor top`, a live, full-screen view of the server's users.
// Clients choose URLs, User-Agents and keys; these can't control the terminal.
//
// The live view's decisions are in the Model: a state machine that gets documents of the admin API, keys
// and sizes, and makes a Frame of cells from them. It reads no clock, no terminal and no socket, so
// tests compare frames with files. Live is the loop around it, Once prints one frame.
//
// The terminal is tcell's (v3.6, October 2026): a grid of cells of which only those that
// changed are sent is just what a Frame is, for seven modules; bubbletea v2 needs twice as
// many, a renderer without a release among them, and works on lines of text with escapes, which
// is a risk with text that clients chose.
package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/gdamore/tcell/v3"
	"golang.org/x/sys/unix"

	"tempomat/proxy/admin/api"
)

// askFor is how long the proxy may take to answer.
const askFor = 10 * time.Second

// Once asks once and prints a frame without colours. Width and height are those of the
// frame, in columns and lines.
func Once(ctx context.Context, w io.Writer, from Source, o Options, width, height int) error {
	m := New(o)
	if err := m.ask(ctx, from); err != nil {
		return err
	}
	m.Resize(width, height+1)
	f := m.Frame()
	f.Height-- // the keys are of no use here
	_, err := io.WriteString(w, f.String())
	return err
}

// ask asks for what the Model wants, and waits for it.
func (m *Model) ask(ctx context.Context, from Source) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	w := m.Wants()
	d, err := w.Fetch(ctx, from)
	m.Take(time.Now(), w, d, err)
	return err
}

// Live shows the Model on a screen until q is pressed or ctx is done. Live waits for the first
// answer before it touches the screen: a proxy that does not answer at all is an error.
func Live(ctx context.Context, from Source, o Options, open func() (tcell.Screen, error)) error {
	m := New(o)
	if err := m.ask(ctx, from); err != nil {
		return err
	}
	screen, err := open()
	if err != nil {
		return err
	}
	if err := screen.Init(); err != nil {
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{model: m, from: from, screen: screen, answers: make(chan func())}
	l.run(ctx)
	cancel()
	l.questions.Wait()
	return nil
}

// loop carries keys, answers and the time to the Model, and its frames to the screen.
type loop struct {
	model     *Model
	from      Source
	screen    tcell.Screen
	questions sync.WaitGroup // under way
	answers   chan func()    // what is to be done with each, by the loop
	asking    bool           // a question for the pane is under way: there is never more than one
	again     bool           // ask once more after the answer, because other things are shown now
}

func (l *loop) run(ctx context.Context) {
	tick := time.NewTicker(l.model.options.Interval)
	defer tick.Stop()
	l.model.Resize(l.screen.Size())
	show := true
	for {
		if show {
			l.show()
		}
		show = true
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.model.Tick(time.Now())
			if !l.model.Paused() && !l.asking {
				l.ask(ctx)
			}
			show = l.model.Away() // else nothing has changed until the answer comes
		case take := <-l.answers:
			take()
		case ev, ok := <-l.screen.EventQ():
			if !ok || l.event(ctx, ev) {
				return
			}
		}
	}
}

// question asks, without the loop waiting for it, which then does what ask returns.
func (l *loop) question(ctx context.Context, ask func(context.Context) (take func())) {
	l.questions.Go(func() {
		limited, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		take := ask(limited)
		select {
		case l.answers <- take:
		case <-ctx.Done():
		}
	})
}

func (l *loop) ask(ctx context.Context) {
	if l.asking {
		l.again = true
		return
	}
	l.asking, l.again = true, false
	w := l.model.Wants()
	l.question(ctx, func(limited context.Context) func() {
		d, err := w.Fetch(limited, l.from)
		return func() {
			l.asking = false
			l.model.Take(time.Now(), w, d, err)
			if l.again {
				l.ask(ctx)
			}
		}
	})
}

func (l *loop) explain(ctx context.Context, of string) {
	l.question(ctx, func(limited context.Context) func() {
		var r api.ExplainReply
		err := l.from.Get(limited, "/v1/explain", url.Values{"of": {of}}, &r)
		return func() { l.model.Explained(of, r, err) }
	})
}

// event does what the terminal tells, and says whether that was to quit.
func (l *loop) event(ctx context.Context, ev tcell.Event) (quit bool) {
	switch ev := ev.(type) {
	case *tcell.EventResize:
		// Not ev.Size: tmux 3.3 answers lines and columns the wrong way round when it is
		// asked by an escape sequence; the kernel's answer is right.
		l.redraw()
		l.model.Resize(l.screen.Size())
	case *tcell.EventKey:
		e := l.model.Press(keyName(ev))
		if e.Quit {
			return true
		}
		if e.Suspend {
			l.suspend()
		}
		if e.Redraw {
			l.redraw()
		}
		if e.Ask && !l.model.Paused() {
			l.ask(ctx)
		}
		if e.Explain != "" {
			l.explain(ctx, e.Explain)
		}
	}
	return false
}

// suspend gives the terminal back to the shell until it is told to go on.
func (l *loop) suspend() {
	if err := l.screen.Suspend(); err != nil {
		return
	}
	// To this thread: it stops before the call returns, not some time after the terminal was
	// taken again.
	runtime.LockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
	runtime.UnlockOSThread()
	_ = l.screen.Resume()
	l.redraw()
}

func (l *loop) redraw() {
	l.screen.Clear()
	l.screen.Sync()
}

// show shows the frame. The screen sends the cells that have changed.
func (l *loop) show() {
	f := l.model.Frame()
	for y := range f.Height {
		for x := range f.Width {
			if c := f.Cell(x, y); c.Text != "" {
				l.screen.Put(x, y, c.Text, tcellStyle(c.Style))
			}
		}
	}
	l.screen.Show()
}

// tcellStyle is how a terminal shows a style: with the 8 colours that all have, in the
// shades that its user chose; tcell leaves them out where NO_COLOR is set or there are none.
func tcellStyle(s Style) tcell.Style {
	plain := tcell.StyleDefault
	in := func(colour int) tcell.Style { return plain.Foreground(tcell.PaletteColor(colour)) }
	on := func(colour int) tcell.Style { return in(0).Background(tcell.PaletteColor(colour)) }
	return map[Style]tcell.Style{
		Faint: plain.Dim(true), Strong: plain.Bold(true), Marked: plain.Reverse(true),
		Good: in(2), Warning: in(3), Bad: in(1).Bold(true),
		Known: on(2), Newcomers: on(6), Strangers: on(3), Robots: on(5), Exempt: on(7), Wasted: on(1),
	}[s]
}

// keyName is a key as the Model knows it; "" is one that it does not know.
func keyName(ev *tcell.EventKey) string {
	if ev.Key() == tcell.KeyRune {
		if ev.Modifiers()&^tcell.ModShift != 0 {
			return ""
		}
		return ev.Str()
	}
	return map[tcell.Key]string{
		tcell.KeyTab: "tab", tcell.KeyBacktab: "backtab", tcell.KeyEnter: "enter", tcell.KeyEscape: "esc",
		tcell.KeyBackspace: "backspace", tcell.KeyDelete: "backspace",
		tcell.KeyUp: "up", tcell.KeyDown: "down", tcell.KeyLeft: "left", tcell.KeyRight: "right",
		tcell.KeyPgUp: "pgup", tcell.KeyPgDn: "pgdn", tcell.KeyHome: "home", tcell.KeyEnd: "end",
		tcell.KeyCtrlC: "ctrl-c", tcell.KeyCtrlL: "ctrl-l", tcell.KeyCtrlZ: "ctrl-z",
	}[ev.Key()]
}

// Source answers with documents of the admin API.
type Source interface {
	Get(ctx context.Context, path string, query url.Values, reply any) error
}

// Data is the last answers. What the open pane does not show is from when its own pane was
// open.
type Data struct {
	Overview api.OverviewReply
	Shapes   api.ShapesReply
	Queue    api.QueueReply
	Recent   api.RecentReply
	Classes  api.ClassesReply
	Buckets  api.BucketsReply
	Series   api.SeriesReply
}

// Wants says which documents the open pane shows. The overview is always asked for.
type Wants struct {
	Pane   Pane
	Series bool   // what was before
	Class  string // of the keys; "": the first
	Sort   string // what comes first of them
	before Data   // what was asked for last
}

// mostRows is how many rows of a document are requested: more than the tallest screens have,
// because filters search in them.
const mostRows = 200

// How many pages are requested, because each has many parts: for the overview, and for their pane.
const (
	fewPages  = 20
	mostPages = 50
)

// Fetch asks for documents; all else is as before. It has no time limit of its own. With an error the
// overview may have been answered anyway.
func (w Wants) Fetch(ctx context.Context, from Source) (Data, error) {
	d := w.before
	d.Overview = api.OverviewReply{}
	err := get(ctx, from, "/v1/overview", nil, &d.Overview)
	if err == nil && w.Series {
		err = get(ctx, from, "/v1/series", url.Values{"minutes": {"5"}}, &d.Series)
	}
	if err != nil {
		return d, err
	}
	first := func(rows int) url.Values { return url.Values{"limit": {strconv.Itoa(rows)}} }
	switch w.Pane {
	case PaneOverview:
		err = get(ctx, from, "/v1/shapes", first(fewPages), &d.Shapes)
	case PanePages:
		err = get(ctx, from, "/v1/shapes", first(mostPages), &d.Shapes)
	case PaneQueue:
		err = get(ctx, from, "/v1/queue", first(mostRows), &d.Queue)
	case PaneVerdicts:
		err = get(ctx, from, "/v1/recent", first(mostRows), &d.Recent)
	case PaneKeys:
		err = get(ctx, from, "/v1/classes", nil, &d.Classes)
		if all := d.Classes.Classes; err == nil && len(all) > 0 {
			query := first(mostRows)
			query.Set("class", cmp.Or(w.Class, all[0].Name))
			query.Set("sort", w.Sort)
			err = get(ctx, from, "/v1/buckets", query, &d.Buckets)
		}
	default: // the overview has it
	}
	return d, err
}

// get asks for a document that takes the place of the one before.
func get[T any](ctx context.Context, from Source, path string, query url.Values, to *T) error {
	var reply T
	err := from.Get(ctx, path, query, &reply)
	if err == nil {
		*to = reply
	}
	return err
}
