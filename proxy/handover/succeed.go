package handover

import (
	"context"
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

	"golang.org/x/sys/unix"
)

// answerTime is how long a process waits for the answer of the other one, which usually comes at once.
const answerTime = 10 * time.Second

// These are the answers of the running process to the next one: it hands over everything, or it continues to
// serve for the reason that follows.
const (
	yours     = "yours"
	withdrawn = "withdrawn: "
	// longestMessage bounds a message, in bytes.
	longestMessage = 4096
)

// ErrWithdrawn means that the running process continues to serve, so the other one must end.
var ErrWithdrawn = errors.New("the running process continues to serve")

// ErrSilent means that the previous process did not confirm in time that it has stopped everything that only
// one process may do. The previous process may still serve.
var ErrSilent = errors.New("the previous process did not confirm the handover; it may still serve")

// line is a connection between the two processes. Each message is one packet of text. It must not be used concurrently.
type line struct{ conn net.Conn }

func newLine(f *os.File) (*line, error) {
	conn, err := net.FileConn(f) // conn has its own descriptor
	if err != nil {
		return nil, err
	}
	return &line{conn}, nil
}

func (l *line) send(text string) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	_, err := io.WriteString(l.conn, text)
	return err
}

func (l *line) receive() (string, error) {
	text := make([]byte, longestMessage)
	n, err := l.conn.Read(text)
	return string(text[:n]), err
}

// Successor is the process that takes this one's place. It must not be used concurrently.
type Successor struct{ *line }

// Start starts a program and hands it the sockets, which the program gets from Inherit. The program is started
// indirectly, by a process with the value of by before its arguments, which must call StartNext and end. The
// service manager then becomes the parent of the new process, and notices when that process ends.
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
		pid, _, err = syscall.StartProcess(program, append([]string{program, by}, args...), //nolint:gosec // program is the path of this program
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

// environment returns the environment without WATCHDOG_PID, which would bind the watchdog to this process.
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

// pair makes the two ends of a connection.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "successor"), os.NewFile(uintptr(fds[1]), predecessorName), nil
}

// StartNext is called by the process that Start starts. It starts the program with the given arguments and with
// everything that was handed over, and doesn't wait for the program.
func StartNext(program string, args []string) error {
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	var files []uintptr
	for fd := range firstInherited + min(max(n, 0), mostInherited) {
		files = append(files, uintptr(fd))
	}
	_, _, err := syscall.StartProcess(program, append([]string{program}, args...), &syscall.ProcAttr{Env: os.Environ(), Files: files}) //nolint:gosec // program is the path of this program
	return err
}

// Serves waits until the successor serves or the context ends, but no longer than limit. It returns the
// successor's process number. If it returns an error, this process continues to serve, and Serves has told the
// successor.
func (s *Successor) Serves(ctx context.Context, limit time.Duration) (pid int, err error) {
	defer func() {
		if err != nil {
			_ = s.send(withdrawn + err.Error()) // fails if the successor has already ended
			_ = s.conn.Close()
		}
	}()
	if err := s.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })()
	text, err := s.receive()
	switch {
	case ctx.Err() != nil:
		return 0, errors.New("this process is ending")
	case isEnd(err):
		return 0, errors.New("the new process ended before it served; its log shows why")
	case err != nil:
		return 0, fmt.Errorf("the new process does not serve: %w", err)
	}
	return strconv.Atoi(text)
}

// Confirm tells the successor that this process has stopped everything that only one process may do. If Confirm
// returns an error, the successor serves anyway.
func (s *Successor) Confirm() error {
	defer s.conn.Close()
	return s.send(yours)
}

// Predecessor is the process that runs until this one serves. It must not be used concurrently.
type Predecessor struct {
	*line
	wait time.Duration // how long to wait for an answer
}

func newPredecessor(f *os.File) (*Predecessor, error) {
	l, err := newLine(f)
	if err != nil {
		return nil, err
	}
	return &Predecessor{l, answerTime}, nil
}

// Serving tells the running process that this one serves, and waits until the running process has stopped
// everything that only one process may do.
//
// The error is ErrWithdrawn if the other process continues to serve; this one must then end. It is ErrSilent if
// the other process didn't answer in time; both may then serve. If the other one has ended, there is no error.
func (p *Predecessor) Serving() error {
	defer p.conn.Close()
	text := ""
	err := p.send(strconv.Itoa(os.Getpid()))
	if err == nil || isEnd(err) { // even if the connection has ended, the answer "withdrawn" may still be readable
		if err = p.conn.SetReadDeadline(time.Now().Add(p.wait)); err == nil {
			text, err = p.receive()
		}
	}
	switch {
	case text == yours, isEnd(err):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
	return fmt.Errorf("%w: %.100s", ErrWithdrawn, strings.TrimPrefix(text, withdrawn)) // unknown texts come from a different release
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
