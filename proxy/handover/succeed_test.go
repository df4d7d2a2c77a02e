package handover

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines returns the ends of a connection between the running process and the next one. Only the tests in
// cmd/tempomat-proxy start real processes.
func lines(t *testing.T) (*Successor, *Predecessor) {
	t.Helper()
	ours, theirs, err := pair()
	testkit.Must(t, err)
	defer ours.Close()
	defer theirs.Close()
	l, err := newLine(ours)
	testkit.Must(t, err)
	p, err := newPredecessor(theirs)
	testkit.Must(t, err)
	t.Cleanup(func() { _, _ = l.conn.Close(), p.conn.Close() })
	return &Successor{l}, p
}

// TestServes: the next process serves, or fails to serve.
func TestServes(t *testing.T) {
	hears := func(p *Predecessor) error {
		text, err := p.receive()
		return errors.Join(err, errors.New(text))
	}
	for name, c := range map[string]struct {
		next      func(p *Predecessor) error // actions of the next process
		limit     time.Duration
		ends      bool // whether this process ends
		err, told string
	}{
		"it serves":         {(*Predecessor).Serving, time.Minute, false, "", ""},
		"it ends":           {func(p *Predecessor) error { return p.conn.Close() }, time.Minute, false, "ended before it served", ""},
		"it is slow":        {hears, time.Millisecond, false, "does not serve", "does not serve"},
		"this process ends": {hears, time.Minute, true, "this process is ending", "this process is ending"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := lines(t)
			done := make(chan error, 1)
			go func() { done <- c.next(p) }()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			if c.ends {
				end()
			}
			pid, err := s.Serves(ctx, c.limit)
			if err == nil && pid == os.Getpid() {
				err = s.Confirm()
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if told := <-done; (told == nil) != (c.told == "") || told != nil && !strings.Contains(told.Error(), c.told) {
				t.Errorf("the next process was told %v, want %q", told, c.told)
			}
		})
	}
}

// TestStartFails: Start reports a program that can't be started, or doesn't start the next one.
func TestStartFails(t *testing.T) {
	for _, program := range []string{"/nowhere", "/bin/false"} {
		if _, err := Start(program, "start-next", nil, nil); err == nil || !strings.Contains(err.Error(), program) {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestServing checks the new process if the other one doesn't confirm.
func TestServing(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		ends bool
		want error
	}{
		"it confirms":       {yours, false, nil},
		"it ends":           {"", true, nil},
		"it withdraws":      {withdrawn + "too late", true, ErrWithdrawn},
		"it is silent":      {"", false, ErrSilent},
		"it makes no sense": {"\x0f\xff", false, ErrWithdrawn},
	} {
		runs, p := lines(t)
		if c.says != "" {
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
