package handover

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines are the ends of a connection between the process that runs and the next one. Real ones are started by the
// tests of cmd/tempomat-proxy.
func lines(t *testing.T) (*Successor, *Predecessor) {
	t.Helper()
	ours, theirs, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	l, err := newLine(ours)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPredecessor(theirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.conn.Close(), p.conn.Close() })
	return &Successor{l}, p
}

// TestGive: the next process hears all, and serves or does not.
func TestGive(t *testing.T) {
	hears := func(p *Predecessor) error {
		var v verdict
		if err := p.receive(&v, time.Minute); err != nil {
			return err
		}
		return errors.New(v.Withdrawn)
	}
	for name, c := range map[string]struct {
		next      func(p *Predecessor) error // does that, once it has heard all
		limit     time.Duration
		ends      bool // this process does
		err, told string
	}{
		"it serves":         {(*Predecessor).Serving, time.Minute, false, "", ""},
		"it ends":           {func(p *Predecessor) error { return p.conn.Close() }, time.Minute, false, "ended before it served", ""},
		"it is slow":        {hears, time.Millisecond, false, "does not serve", "does not serve"},
		"this process ends": {hears, time.Minute, true, "this process ends", "this process ends"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := lines(t)
			var heard []string
			done := make(chan error, 1)
			go func() {
				err := p.Parts(func(name string, data []byte) error {
					heard = append(heard, name+"="+string(data))
					return nil
				})
				if err == nil {
					err = c.next(p)
				}
				done <- err
			}()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			pid, err := s.Give(ctx, c.limit, func(send func(string, []byte) error) error {
				if c.ends {
					end()
				}
				return errors.Join(send("a", []byte("1")), send("b", []byte("2")))
			})
			if err == nil && pid == os.Getpid() {
				err = s.Confirm()
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if told := <-done; (told == nil) != (c.told == "") || told != nil && !strings.Contains(told.Error(), c.told) {
				t.Errorf("the next process was told %v, want %q", told, c.told)
			}
			if !slices.Equal(heard, []string{"a=1", "b=2"}) {
				t.Errorf("it has heard %q", heard)
			}
		})
	}
}

// TestStartFails: a program that cannot be started, or does not start the next one, is told.
func TestStartFails(t *testing.T) {
	for _, program := range []string{"/nowhere", "/bin/false"} {
		if _, err := Start(program, "start-next", nil, nil); err == nil || !strings.Contains(err.Error(), program) {
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
		runs, p := lines(t)
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
	}
}
