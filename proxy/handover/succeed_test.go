package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// nextCommand has the test's own binary start itself once more, and nextWay says what it does then.
const (
	nextCommand = "start-next"
	nextWay     = "TEST_NEXT_WAY"
)

// TestMain has the test's own binary be the next process where it is asked to.
func TestMain(m *testing.M) {
	switch way := os.Getenv(nextWay); {
	case len(os.Args) > 1 && os.Args[1] == nextCommand:
		if err := StartNext(os.Args[0], os.Args[2:]); err != nil {
			panic(err)
		}
	case way != "":
		beNext(way)
	default:
		goleak.VerifyTestMain(m)
	}
}

// beNext tells the first one that connects what it has heard.
func beNext(way string) {
	in, err := Inherit()
	if err != nil {
		panic(err)
	}
	var heard []string
	err = in.From.Parts(func(name string, data []byte) error {
		heard = append(heard, name+"="+string(data))
		return nil
	})
	switch {
	case err != nil:
	case way == "ends":
		return
	case way == "is slow": // and hears of the other one's patience first
		var m verdict
		if err = in.From.receive(&m, time.Minute); err == nil {
			err = errors.New(m.Withdrawn)
		}
	default:
		err = in.From.Serving()
	}
	c, e := in.Sockets[0].Accept()
	if e != nil {
		panic(e)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s %q %v %q", in.Sockets[0].Address, heard, err, os.Getenv("LISTEN_FDS"))
}

// TestSuccessor starts real processes: one that serves, one that ends, one that takes too long,
// and one as this process ends.
func TestSuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		way       string
		limit     time.Duration
		ends      bool // this process does
		err, told string
	}{
		"it serves":         {"serves", time.Minute, false, "", `:80 ["a=1" "b=2"] <nil> ""`},
		"it ends":           {"ends", time.Minute, false, "ended before it served", ""},
		"it is slow":        {"is slow", time.Millisecond, false, "does not serve", "does not serve"},
		"this process ends": {"is slow", time.Minute, true, "this process ends", "this process ends"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(nextWay, c.way)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			next, err := Start(os.Args[0], nextCommand, nil, []Socket{{Listener: l, Address: ":80"}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			pid, err := next.Give(ctx, c.limit, func(send func(string, []byte) error) error {
				if c.ends {
					end()
				}
				return errors.Join(send("a", []byte("1")), send("b", []byte("2")))
			})
			if err == nil && pid > 0 && pid != os.Getpid() {
				err = next.Confirm()
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if c.told == "" {
				return
			}
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if said, err := io.ReadAll(conn); !strings.Contains(string(said), c.told) {
				t.Errorf("the next process says %q %v, want %q", said, err, c.told)
			}
		})
	}
}

// TestStartFails: a program that cannot be started, or does not start the next one, is told.
func TestStartFails(t *testing.T) {
	for _, program := range []string{"/nowhere", "/bin/false"} {
		if _, err := Start(program, nextCommand, nil, nil); err == nil || !strings.Contains(err.Error(), program) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestServing: what the process that serves does if the other one does not confirm.
func TestServing(t *testing.T) {
	for name, c := range map[string]struct {
		says any
		ends bool
		want error
	}{
		"it confirms":       {verdict{}, false, nil},
		"it ends":           {nil, true, nil},
		"it withdraws":      {verdict{Withdrawn: "too late"}, true, ErrWithdrawn},
		"it is silent":      {nil, false, ErrSilent},
		"it makes no sense": {part{Name: "a"}, false, ErrSilent},
	} {
		ours, theirs, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		runs, err := newLine(ours)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPredecessor(theirs)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = ours.Close(), theirs.Close()
		if c.says != nil {
			if err := runs.send(c.says); err != nil {
				t.Error(err)
			}
		}
		if c.ends {
			_ = runs.conn.Close()
		}
		p.wait = 100 * time.Millisecond
		if err := p.Serving(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		_ = runs.conn.Close()
	}
}
