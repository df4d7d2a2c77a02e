package handover

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// answerTime bounds how long a process waits for what the other one has ready.
const answerTime = 10 * time.Second

// part is some of what a process remembers; without a name: that was all.
type part struct {
	Name string
	Data []byte
}

// serving notes that the next process serves.
type serving struct{ PID int }

// verdict is what the process that runs says to that.
type verdict struct {
	Withdrawn string // why it goes on; empty: all is the next one's
}

// ErrWithdrawn says that the running process goes on, so the other one must not.
var ErrWithdrawn = errors.New("the process that runs goes on")

// ErrSilent says that the process that ran serves no more, or may: it did not say that it
// gave everything up.
var ErrSilent = errors.New("the process that ran did not confirm that it gave everything up")

// line is a connection between the two. Not for concurrent use.
type line struct {
	conn *net.UnixConn
	out  *gob.Encoder
	in   *gob.Decoder
}

func newLine(f *os.File) (*line, error) {
	conn, err := net.FileConn(f) // it has a descriptor of its own
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("a %T is no connection with another process", conn)
	}
	return &line{conn: u, out: gob.NewEncoder(u), in: gob.NewDecoder(u)}, nil
}

func (l *line) send(what any) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	return l.out.Encode(what)
}

func (l *line) receive(what any, limit time.Duration) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	return l.in.Decode(what)
}

// Successor is the process that is to take this one's place. Not for concurrent use.
type Successor struct{ *line }

// Start starts a program with sockets, which get to it as Inherited. It does so by way of
// another process, which calls StartNext for the word `by` before the program's arguments: a
// service manager notices the end of a process whose parent has ended before.
func Start(program, by string, args []string, sockets []Socket) (*Successor, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	l, err := newLine(ours)
	_ = ours.Close()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range sockets {
		names = append(names, s.name())
	}
	names = append(names, predecessorName)
	env := append(environment(), "LISTEN_PID="+anyProcess, fmt.Sprint("LISTEN_FDS=", len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	pid := 0
	err = withDescriptors(sockets, []uintptr{0, 1, 2}, func(fds []uintptr) (err error) {
		pid, _, err = syscall.StartProcess(program, append([]string{program, by}, args...), //nolint:gosec // the program itself
			&syscall.ProcAttr{Env: env, Files: append(fds, theirs.Fd())})
		return err
	})
	if err == nil {
		err = waitFor(pid)
	}
	if err != nil {
		_ = l.conn.Close()
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &Successor{l}, nil
}

// environment is this process's, without what is said of this very process: the watchdog is to
// listen to the next one as well.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WATCHDOG_PID=") })
}

func waitFor(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	return err
}

// pair makes two ends of a connection.
func pair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fds[0]), "successor"), os.NewFile(uintptr(fds[1]), predecessorName), nil
}

// StartNext is for the process that Start starts: it starts the program with other arguments
// and all that was handed over, and does not wait for it.
func StartNext(program string, args []string) error {
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	var files []uintptr
	for fd := range firstInherited + min(max(n, 0), mostInherited) {
		files = append(files, uintptr(fd))
	}
	_, _, err := syscall.StartProcess(program, append([]string{program}, args...), &syscall.ProcAttr{Env: os.Environ(), Files: files}) //nolint:gosec // the program itself
	return err
}

// Give gives the successor what parts sends, and waits until it serves, for as long as given
// and until the context ends. It returns the successor's number. After an error this process
// goes on, as the other one is told.
func (s *Successor) Give(ctx context.Context, limit time.Duration, parts func(send func(name string, data []byte) error) error) (pid int, err error) {
	defer func() {
		if err != nil {
			_ = s.send(verdict{Withdrawn: err.Error()}) // it may have gone
			_ = s.conn.Close()
		}
	}()
	if err := parts(func(name string, data []byte) error { return s.send(part{name, data}) }); err != nil {
		return 0, err
	}
	if err := s.send(part{}); err != nil {
		return 0, err
	}
	if err := s.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })()
	var m serving
	switch err := s.in.Decode(&m); {
	case ctx.Err() != nil:
		return 0, errors.New("this process ends")
	case isEnd(err):
		return 0, errors.New("the new process ended before it served; its log shows why")
	case err != nil:
		return 0, fmt.Errorf("the new process does not serve: %w", err)
	}
	return m.PID, nil
}

// Confirm tells the successor that all is its own now. That it cannot be told changes nothing:
// it serves.
func (s *Successor) Confirm() error {
	defer s.conn.Close()
	return s.send(verdict{})
}

// Predecessor is the process that runs until this one serves. Not for concurrent use.
type Predecessor struct {
	*line
	wait time.Duration // until it has answered
}

func newPredecessor(f *os.File) (*Predecessor, error) {
	l, err := newLine(f)
	if err != nil {
		return nil, err
	}
	return &Predecessor{l, answerTime}, nil
}

// Parts calls take with each part of what the process that runs remembers. It goes on to the
// end also after take's error, which it returns.
func (p *Predecessor) Parts(take func(name string, data []byte) error) (failed error) {
	for {
		var m part
		if err := p.receive(&m, p.wait); err != nil {
			return fmt.Errorf("the running process did not hand over what it remembers: %w", err)
		}
		if m.Name == "" {
			return failed
		}
		failed = errors.Join(failed, take(m.Name, m.Data))
	}
}

// Serving tells the process that runs that this one serves, and waits until it has given
// everything up.
//
// The error is ErrWithdrawn if the other process goes on, and this one must end. It is
// ErrSilent if the other one did not answer in time; this one serves then, and the other one
// may as well. That the other one ended is no error.
func (p *Predecessor) Serving() error {
	defer p.conn.Close()
	err := p.send(serving{os.Getpid()})
	var m verdict
	if err == nil || isEnd(err) { // it may have withdrawn before
		err = p.receive(&m, p.wait)
	}
	switch {
	case m.Withdrawn != "":
		return fmt.Errorf("%w: %s", ErrWithdrawn, m.Withdrawn)
	case err == nil || isEnd(err):
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSilent, err)
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
