package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestHandOver: who waits to be accepted is, by the process that takes over; all parts
// arrive; and files stay, and go, with their owner.
func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	tcp := listen(t, "tcp", "127.0.0.1:0")
	kept := listen(t, "unix", filepath.Join(dir, "kept"))
	left := listen(t, "unix", filepath.Join(dir, "left"))
	parts := map[string]string{"known": strings.Repeat("x", 3<<20), "empty": "", "lines": "a\nb\n"}
	path, ended := giving(t, patient, []Socket{tcp, kept, left}, parts)
	for _, s := range []Socket{kept, left} {
		s.LeaveFile(true)
	}

	taker, err := Ask(t.Context(), path, patient)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := taker.Parts(func(name string, data []byte) error {
		got[name] = string(data)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range parts {
		if got[name] != want {
			t.Errorf("part %s: %d bytes, want %d", name, len(got[name]), len(want))
		}
	}
	if len(got) != len(parts) || len(taker.Sockets) != 3 || taker.PID != os.Getpid() {
		t.Fatalf("%d parts, %d sockets, of process %d", len(got), len(taker.Sockets), taker.PID)
	}
	for i, s := range taker.Sockets {
		if want := []Socket{tcp, kept, left}[i]; s.Role != "serve" || s.Address != want.Address || !s.Owned || s.Addr().String() != want.Addr().String() {
			t.Errorf("socket %d is %+v at %s, want %s", i, s, s.Addr(), want.Addr())
		}
	}
	say(t, tcp.Addr(), "waits at the port")
	say(t, kept.Addr(), "waits at the file")
	ours := []Socket{taker.Sockets[1], taker.Sockets[0]}
	if err := taker.Serving(ours); err != nil {
		t.Fatal(err)
	}
	if o := <-ended; o.err != nil || fmt.Sprint(o.kept) != "[0 1]" {
		t.Fatalf("it ended with %v, %v", o.kept, o.err)
	}
	left.LeaveFile(false)
	Close([]Socket{tcp, kept, left}) // as the process that ran drains
	if gone(kept.Address) || !gone(left.Address) {
		t.Errorf("the file of the socket that was kept is gone: %t; that of the other one: %t", gone(kept.Address), gone(left.Address))
	}
	if at := heard(t, ours[1]); at != "waits at the port" {
		t.Errorf("%q at the port", at)
	}
	if at := heard(t, ours[0]); at != "waits at the file" {
		t.Errorf("%q at the file", at)
	}
	Close(ours)
	if !gone(kept.Address) {
		t.Error("the file is left behind")
	}
}

// TestBothAccept: neither process blocks the other one, nor itself, as they share a socket.
func TestBothAccept(t *testing.T) {
	tcp := listen(t, "tcp", "127.0.0.1:0")
	path, ended := giving(t, patient, []Socket{tcp}, nil)
	var all sync.WaitGroup
	accept := func(l net.Listener) {
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}
		})
	}
	accept(tcp)
	taker, err := Ask(t.Context(), path, patient)
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Parts(nil); err != nil {
		t.Fatal(err)
	}
	accept(taker.Sockets[0])
	ask := func() {
		t.Helper()
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "x")
		_ = c.(*net.TCPConn).CloseWrite()
		if text, err := io.ReadAll(c); err != nil || string(text) != "x" {
			t.Fatalf("%q, %v", text, err)
		}
	}
	for range 50 {
		ask()
	}
	if err := taker.Serving(taker.Sockets); err != nil {
		t.Fatal(err)
	}
	if o := <-ended; o.err != nil {
		t.Fatal(o.err)
	}
	_ = tcp.Close()
	for range 50 {
		ask()
	}
	Close(taker.Sockets)
	all.Wait()
}

// TestNobody: no process, or one that has died, is no failure.
func TestNobody(t *testing.T) {
	dir := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	for _, name := range []string{"none", "dead"} {
		if _, err := Ask(t.Context(), filepath.Join(dir, name), patient); !errors.Is(err, ErrNobody) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHangs: of a process that does not answer it is told what can be done.
func TestHangs(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Ask(t.Context(), l.Addr().String(), Limits{Answer: 1})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("a process at %s did not hand over", l.Addr())) {
		t.Errorf("without the time to connect: %v", err)
	}
	for limit := time.Millisecond; ; limit *= 2 {
		_, err = Ask(t.Context(), l.Addr().String(), Limits{Answer: limit})
		if err == nil || limit > patient.Answer || !strings.Contains(err.Error(), "a process at ") {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d at %s did not hand over", os.Getpid(), l.Addr())) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := Ask(ctx, l.Addr().String(), patient); !errors.Is(err, context.Canceled) {
		t.Errorf("it is to end: %v", err)
	}
}

// TestNoHandOver: what else may answer.
func TestNoHandOver(t *testing.T) {
	speaks := func(lines string) http.Handler {
		return Handler(func(conn *net.UnixConn) {
			_, _ = newLine(conn, patient).receive(patient.Answer)
			_, _ = io.WriteString(conn, lines)
		})
	}
	for name, c := range map[string]struct {
		h    http.Handler
		want string
	}{
		"an older one":     {http.NotFoundHandler(), "does not know -replace"},
		"another protocol": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 403) }), "403 Forbidden: no"},
		"not a line":       {speaks("hello\n"), "not a message"},
		"no line":          {speaks("hello"), "broke off"},
		"no offer":         {speaks(`{"end":true}` + "\n"), "no offer"},
		"no sockets":       {speaks(`{"offer":{"pid":1,"sockets":[{"role":"serve"}]}}` + "\n"), "0 descriptors came for 1 sockets"},
		"no end of a line": {speaks(strings.Repeat("x", longestLine+1)), "more than"},
		"it will not":      {speaks(`{"withdrawn":"no time"}` + "\n"), "goes on: no time"},
	} {
		if _, err := Ask(t.Context(), admin(t, c.h), patient); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestBadParts: what remembers nothing that can be understood.
func TestBadParts(t *testing.T) {
	for lines, want := range map[string]string{
		`{"part":{"name":"known","size":-1}}`:           "-1 bytes",
		`{"part":{"name":"known","size":999999999999}}`: "999999999999 bytes",
		`{"part":{"name":"known","size":9}}` + "\nxyz":  "unexpected EOF",
		`{"yours":true}`:          "neither a part",
		``:                        "process 1 broke off",
		`{"withdrawn":"no time"}`: "goes on: no time",
		"{\"part\":{\"name\":\"a\"}}\n{\"end\":true}": "not taken",
	} {
		path := admin(t, Handler(func(conn *net.UnixConn) {
			_, _ = newLine(conn, patient).receive(patient.Answer)
			_, _ = io.WriteString(conn, `{"offer":{"pid":1}}`+"\n")
			if lines != "" {
				_, _ = io.WriteString(conn, lines+"\n")
			}
		}))
		taker, err := Ask(t.Context(), path, patient)
		if err != nil {
			t.Fatal(err)
		}
		err = taker.Parts(func(string, []byte) error { return errors.New("not taken") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", lines, err, want)
		}
		taker.Close()
	}
}

// TestTakerFails: a process that does not come to serve leaves everything as it was.
func TestTakerFails(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		do     func(*Taker)
	}{
		"it ends":           {patient, (*Taker).Close},
		"it takes too long": {Limits{Answer: patient.Answer, Start: time.Millisecond}, func(*Taker) {}},
		"it talks nonsense": {patient, func(t *Taker) { _ = t.line.send(message{Yours: true}, nil) }},
		"it keeps others":   {patient, func(t *Taker) { _ = t.line.send(message{Serving: &serving{Kept: []int{1}}}, nil) }},
	} {
		tcp := listen(t, "tcp", "127.0.0.1:0")
		path, ended := giving(t, c.limits, []Socket{tcp}, nil)
		taker, err := Ask(t.Context(), path, patient)
		if err != nil {
			t.Fatal(err)
		}
		if err := taker.Parts(nil); err != nil {
			t.Fatal(err)
		}
		c.do(taker)
		if o := <-ended; o.err == nil {
			t.Errorf("%s: the hand-over went well", name)
		}
		taker.Close()
		say(t, tcp.Addr(), "still there")
		if got := heard(t, tcp); got != "still there" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestServing: what the process that serves does if the other one does not confirm.
func TestServing(t *testing.T) {
	for name, c := range map[string]struct {
		ends   func(g *Giver)
		limits Limits
		want   error
	}{
		"it confirms":    {func(g *Giver) { _ = g.Confirm() }, patient, nil},
		"it ends":        {func(*Giver) {}, patient, nil},
		"it withdraws":   {func(g *Giver) { _ = g.Withdraw(errors.New("too late")) }, patient, ErrWithdrawn},
		"it is silent":   {nil, Limits{Answer: 100 * time.Millisecond}, ErrSilent},
		"it is no sense": {func(g *Giver) { _, _ = io.WriteString(g.line.conn, "hello\n") }, patient, ErrSilent},
	} {
		over := make(chan struct{})
		path := admin(t, Handler(func(conn *net.UnixConn) {
			g, err := Answer(conn, patient)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := g.Give(nil, func(func(string, []byte) error) error { return nil }); err != nil {
				t.Error(err)
			}
			if c.ends == nil {
				<-over
				return
			}
			c.ends(g)
		}))
		taker, err := Ask(t.Context(), path, patient)
		if err != nil {
			t.Fatal(err)
		}
		if err := taker.Parts(nil); err != nil {
			t.Fatal(err)
		}
		taker.line.limits = c.limits
		if err := taker.Serving(nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		close(over)
	}
}
