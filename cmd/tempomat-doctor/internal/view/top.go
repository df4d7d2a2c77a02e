// Package view shows the doctor's answers on a terminal: formatted numbers, tables, paragraphs, the explanation
// of a request, and `tempomat-doctor top`, a live, full-screen view of the server's users. All texts are escaped
// before they are printed, because clients choose URLs, User-Agents and keys.
//
// The live view's logic is in the Model. It is a state machine that receives documents of the admin API, keys and
// screen sizes, and makes a Frame of lines from them. It doesn't access a clock, a terminal or a socket, so tests
// can compare its frames with files. Live is the loop around the Model. Once prints a single frame.
//
// tcell draws on the terminal (v3.6, October 2026). It keeps a grid of cells, sends only the cells that have
// changed, and takes text and style separately. bubbletea v2 needs twice as many modules, one of them without a
// release. It also interprets escape sequences in its text, which is a risk if clients chose the text.
package view

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gdamore/tcell/v3"

	"tempomat/proxy/admin/api"
)

// askFor is the longest time that the proxy may take to answer.
const askFor = 10 * time.Second

// Once requests the documents once and prints a frame without colours, with the given width in columns and
// height in lines.
func Once(ctx context.Context, w io.Writer, from Source, p Pane, width, height int) error {
	m := New(p)
	if err := m.ask(ctx, from); err != nil {
		return err
	}
	m.Resize(width, height+1)
	f := m.Frame()
	f.Lines = f.Lines[:height] // omits the footer, because no keys can be pressed
	_, err := io.WriteString(w, f.String())
	return err
}

// ask requests the documents that the Model wants, and waits for them.
func (m *Model) ask(ctx context.Context, from Source) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	w := m.Wants()
	d, err := w.Fetch(ctx, from)
	m.Take(time.Now(), d, err)
	return err
}

// Live shows the Model on a screen until q is pressed or ctx is done. It waits for the first answer before it draws
// on the screen, and returns an error if there is no answer.
func Live(ctx context.Context, from Source, p Pane, interval time.Duration, open func() (tcell.Screen, error)) error {
	m := New(p)
	if err := m.ask(ctx, from); err != nil {
		return err
	}
	screen, err := open()
	if err != nil {
		return err
	}
	if err := screen.Init(); err != nil {
		return fmt.Errorf("can't use the terminal: %w", err)
	}
	defer screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{model: m, from: from, screen: screen, answers: make(chan func())}
	l.run(ctx, interval)
	cancel()
	l.questions.Wait()
	return nil
}

// loop passes keys, answers and the time to the Model, and its frames to the screen.
type loop struct {
	model     *Model
	from      Source
	screen    tcell.Screen
	questions sync.WaitGroup // in progress
	answers   chan func()    // functions by which the loop stores the answers
	asking    bool           // a request for the pane is in progress; there is at most one
	again     bool           // send another request after the answer, because the pane has changed
}

func (l *loop) run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	l.model.Resize(l.screen.Size())
	for {
		l.show()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !l.model.Paused() && !l.asking {
				l.ask(ctx)
			}
		case take := <-l.answers:
			take()
		case ev, ok := <-l.screen.EventQ():
			if !ok || l.event(ctx, ev) {
				return
			}
		}
	}
}

// question calls ask in another goroutine. The loop then calls the function that ask returned.
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
			l.model.Take(time.Now(), d, err)
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
		return func() { l.model.Explained(of, &r, err) }
	})
}

// event handles an event of the terminal, and reports whether the user quits.
func (l *loop) event(ctx context.Context, ev tcell.Event) (quit bool) {
	switch ev := ev.(type) {
	case *tcell.EventResize:
		// ev.Size isn't used, because tmux 3.3 swaps lines and columns in its answer to the escape sequence.
		// The kernel reports the correct size.
		l.redraw()
		l.model.Resize(l.screen.Size())
	case *tcell.EventKey:
		e := l.model.Press(keyName(ev))
		if e.Quit {
			return true
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

func (l *loop) redraw() {
	l.screen.Clear()
	l.screen.Sync()
}

// show shows the frame. The screen sends only the cells that have changed.
func (l *loop) show() {
	f := l.model.Frame()
	l.screen.Clear()
	for y, line := range f.Lines {
		x := 0
		for _, s := range line {
			style := tcellStyle(s.Style)
			l.screen.PutStrStyled(x, y, s.Text, style)
			x += Width(s.Text)
			l.screen.FillArea(x, y, f.Width-x, 1, ' ', style)
		}
	}
	l.screen.Show()
}

// tcellStyle converts a style. It uses the 8 colours that all terminals have, in the shades that the user
// chose. tcell omits colours if NO_COLOR is set or the terminal has none.
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

// keyName returns the Model's name of a key, or "" if the Model doesn't use it.
func keyName(ev *tcell.EventKey) string {
	if ev.Key() == tcell.KeyRune {
		if ev.Modifiers()&^tcell.ModShift != 0 {
			return ""
		}
		return ev.Str()
	}
	return map[tcell.Key]string{
		tcell.KeyTab: "tab", tcell.KeyBacktab: "backtab", tcell.KeyEnter: "enter", tcell.KeyEscape: "esc",
		tcell.KeyUp: "up", tcell.KeyDown: "down", tcell.KeyLeft: "left", tcell.KeyRight: "right",
		tcell.KeyPgUp: "pgup", tcell.KeyPgDn: "pgdn", tcell.KeyHome: "home", tcell.KeyEnd: "end",
		tcell.KeyCtrlC: "ctrl-c", tcell.KeyCtrlL: "ctrl-l",
	}[ev.Key()]
}

// Source gets documents of the admin API.
type Source interface {
	Get(ctx context.Context, path string, query url.Values, reply any) error
}

// Data holds the last answers. A document that the open pane doesn't need stays as it was when its pane was
// last open.
type Data struct {
	Overview api.OverviewReply
	Shapes   api.ShapesReply
	Queue    api.QueueReply
	Recent   api.RecentReply
	Classes  api.ClassesReply
	Buckets  api.BucketsReply
}

// Wants lists the documents that the open pane needs. The overview is always one of them.
type Wants struct {
	Pane   Pane
	Class  string // the class of the keys; "": the first
	Sort   string // the order of the keys
	before Data   // the previous answers
}

// mostPages is the number of pages that are requested. It is small because each page has many parts.
const mostPages = 30

// Fetch requests the wanted documents and leaves the others unchanged. It has no time limit of its own. Even if it
// returns an error, the overview may be new.
func (w Wants) Fetch(ctx context.Context, from Source) (Data, error) {
	d := w.before
	d.Overview = api.OverviewReply{}
	if err := get(ctx, from, "/v1/overview", nil, &d.Overview); err != nil {
		return d, err
	}
	path, query := w.Pane.Document()
	var err error
	switch w.Pane {
	case PaneOverview, PanePages:
		err = get(ctx, from, "/v1/shapes", url.Values{"limit": {strconv.Itoa(mostPages)}}, &d.Shapes)
	case PaneQueue:
		err = get(ctx, from, path, query, &d.Queue)
	case PaneVerdicts:
		err = get(ctx, from, path, query, &d.Recent)
	case PaneKeys:
		err = get(ctx, from, "/v1/classes", nil, &d.Classes)
		if all := d.Classes.Classes; err == nil && len(all) > 0 {
			query.Set("class", cmp.Or(w.Class, all[0].Name))
			query.Set("sort", w.Sort)
			err = get(ctx, from, path, query, &d.Buckets)
		}
	default: // the overview contains the gate's numbers
	}
	return d, err
}

// get requests a document, and replaces the previous one if there is no error.
func get[T any](ctx context.Context, from Source, path string, query url.Values, to *T) error {
	var reply T
	err := from.Get(ctx, path, query, &reply)
	if err == nil {
		*to = reply
	}
	return err
}
