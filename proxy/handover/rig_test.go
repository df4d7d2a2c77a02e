package handover

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patient is for what has to come.
var patient = Limits{Answer: 30 * time.Second, Start: 30 * time.Second}

// admin is a process that runs, as far as its admin socket goes.
func admin(t *testing.T, h http.Handler) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_ = s.Close()
		all.Wait()
	})
	return path
}

// outcome is how a hand-over ended for the process that ran.
type outcome struct {
	kept []int
	err  error
}

// giving is a process that hands over what it has.
func giving(t *testing.T, limits Limits, sockets []Socket, parts map[string]string) (path string, ended <-chan outcome) {
	t.Helper()
	ends := make(chan outcome, 1)
	return admin(t, Handler(func(conn *net.UnixConn) {
		g, err := Answer(conn, limits)
		if err != nil {
			ends <- outcome{err: err}
			return
		}
		if g.PID != os.Getpid() {
			t.Errorf("process %d asks, want %d", g.PID, os.Getpid())
		}
		kept, err := g.Give(sockets, func(send func(string, []byte) error) (err error) {
			for name, data := range parts {
				err = errors.Join(err, send(name, []byte(data)))
			}
			return err
		})
		if err == nil {
			err = g.Confirm()
		}
		ends <- outcome{kept, err}
	})), ends
}

func listen(t *testing.T, network, address string) Socket {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return Socket{Listener: l, Role: "serve", Address: address, Owned: true}
}

// say connects and says something.
func say(t *testing.T, to net.Addr, text string) {
	t.Helper()
	c, err := net.Dial(to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// heard is what the next one that connects says.
func heard(t *testing.T, l net.Listener) string {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}
