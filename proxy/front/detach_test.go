package front

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestDetach gives a connection away, with what was read of it.
func TestDetach(t *testing.T) {
	dial, s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = c.Write(early)
			_, _ = io.Copy(c, c)
		}()
		if _, _, err := w.(*Response).Detach(); !errors.Is(err, http.ErrHijacked) {
			panic("it was given away twice")
		}
	}, nil)
	c := dial()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nearly ")
	_, _ = io.WriteString(c, "late")
	got := make([]byte, len("early late"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "early late" {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Shutdown(t.Context()); err != nil { // it is nobody's here
		t.Error(err)
	}
	_ = c.Close()
}

// TestDetachLeavesNoDeadline gives a connection away whose deadlines, which are of the
// requests before, have passed.
func TestDetachLeavesNoDeadline(t *testing.T) {
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		past := time.Unix(1, 0)
		_, _ = w.(*Response).SetWriteDeadline(past), w.(*Response).SetReadDeadline(past)
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = c.Write(early)
			_, _ = io.Copy(c, c)
		}()
	}, nil)
	c := dial()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nhello")
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// placeOf notes what its connection does.
type placeOf struct{ did chan string }

func (p placeOf) Busy() bool          { p.did <- "busy"; return true }
func (p placeOf) Idle(time.Time) bool { p.did <- "idle"; return true }
func (p placeOf) Leave()              { p.did <- "left" }

// TestPlaceOfOneThatIsGivenAway: it waits from then on, until the handler is done with it.
func TestPlaceOfOneThatIsGivenAway(t *testing.T) {
	p := placeOf{make(chan string, 10)}
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		_ = c.Close()
	}, func(o *Options) { o.Enter = func(io.Closer, string) Place { return p } })
	_, _ = io.WriteString(dial(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{"idle", "busy", "idle", "left"} { // the first is its beginning
		if got := <-p.did; got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
}
