package front

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestDetach takes over a connection, with the bytes that were read from it, and without its earlier deadlines,
// which have passed. The server no longer waits for the connection.
func TestDetach(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		past := time.Unix(1, 0)
		_, _ = w.(*Response).SetWriteDeadline(past), w.(*Response).SetReadDeadline(past)
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, io.MultiReader(bytes.NewReader(early), c))
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		if _, _, err := w.(*Response).Detach(); !errors.Is(err, http.ErrHijacked) {
			panic("it was given away twice")
		}
	}
	dial, plain := start(t, handler, nil)
	dialTLS, _, secure, _ := overTLS(t, http.HandlerFunc(handler), nil)
	for c, s := range map[interface {
		net.Conn
		CloseWrite() error
	}]*Server{dial(): plain, dialTLS(): secure} {
		_, _ = io.WriteString(c, getHello+"early ")
		_, _ = io.WriteString(c, "late")
		got := make([]byte, len("early late"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early late" {
			t.Errorf("%T: %q, %v", c, got, err)
		}
		testkit.Must(t, s.Shutdown(t.Context())) // the connection no longer belongs to the server
		_ = c.CloseWrite()
		if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
			t.Errorf("%T: then %q, %v", c, rest, err)
		}
	}
}

// placeOf records the calls for its connection.
type placeOf struct{ did chan string }

func (p placeOf) Busy() bool          { p.did <- "busy"; return true }
func (p placeOf) Idle(time.Time) bool { p.did <- "idle"; return true }
func (p placeOf) Leave()              { p.did <- "left" }

// TestPlaceOfOneThatIsGivenAway: a connection that was taken over counts as idle until its handler
// returns.
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
	for _, want := range []string{"idle", "busy", "idle", "left"} { // the first "idle" is for the new connection
		testkit.Same(t, want, <-p.did, "the connection is")
	}
}
