package handover

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrNobody says that no process answers.
var ErrNobody = errors.New("nobody answers")

// ErrSilent says that the other side serves no more, or may: it did not say that it
// gave everything up.
var ErrSilent = errors.New("the process that ran did not say that it gave everything up")

// Taker is the side of the process that starts. Not for concurrent use.
type Taker struct {
	line *line
	// PID is the process that runs, by its own account.
	PID int
	// Sockets are those that it offered. Close, or Serving, closes those that are not
	// kept.
	Sockets []Socket
}

// Ask asks the process that answers on the unix socket at path for its sockets. The
// error is ErrNobody where there is none, and ErrWithdrawn if it will not.
func Ask(ctx context.Context, path string, limits Limits) (t *Taker, err error) {
	dialer := net.Dialer{Timeout: limits.Answer}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	if err != nil {
		return nil, explain(err, path, 0, limits) // it is full: nobody accepts
	}
	u := conn.(*net.UnixConn)
	defer func() {
		if err != nil {
			_ = u.Close()
		}
	}()
	if err := u.SetDeadline(time.Now().Add(limits.Answer)); err != nil { // before ctx may end it
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = u.SetDeadline(time.Unix(1, 0)) })()
	pid, uid, err := peer(u)
	if err != nil {
		return nil, err
	}
	if us := os.Geteuid(); us != 0 && uid != 0 && int64(uid) != int64(us) {
		return nil, fmt.Errorf("process %d at %s is of user %d: neither root's nor of this one's user, %d", pid, path, uid, us)
	}
	t = &Taker{line: newLine(u, limits)}
	if err = t.upgrade(); err == nil {
		err = t.offered()
	}
	switch {
	case err == nil:
		return t, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, explain(err, path, pid, limits)
}

// explain says what can be done about a process that does not answer.
func explain(err error, path string, pid int, limits Limits) error {
	who := "a process"
	if pid != 0 {
		who = fmt.Sprintf("process %d", pid)
	}
	late, ok := errors.AsType[net.Error](err) // also of a dial, which is no os.ErrDeadlineExceeded, and EAGAIN
	switch {
	case isEnd(err):
		return fmt.Errorf("%s at %s broke off", who, path)
	case !ok || !late.Timeout():
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s at %s did not hand over within %s: it hangs, or is stopped. End it (kill -9), and start without -replace",
		who, path, limits.Answer)
}

// upgrade goes on from HTTP to the hand-over, by the deadline that the connection has.
func (t *Taker) upgrade() error {
	ask := "POST " + Path + " HTTP/1.1\r\nHost: tempomat\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\nContent-Length: 0\r\n\r\n"
	if _, err := t.line.conn.Write([]byte(ask)); err != nil {
		return err
	}
	res, err := http.ReadResponse(t.line.in, &http.Request{Method: http.MethodPost})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusSwitchingProtocols:
		return t.line.send(message{Take: version}, nil)
	case http.StatusNotFound:
		return errors.New("the process that runs does not know -replace: it is older, or no tempomat-proxy. Restart it the usual way")
	}
	why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // what there is of it
	return fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(why)))
}

// offered reads the offer, with the sockets.
func (t *Taker) offered() error {
	conn := t.line.conn
	if t.line.in.Buffered() > 0 { // nothing comes before it is asked for
		return errors.New("not a hand-over: it spoke too early")
	}
	text, rest, fds, err := receiveSockets(conn)
	if err != nil {
		return err
	}
	m, err := parse(text)
	if err == nil && m.Offer == nil {
		err = errors.New("not a hand-over: no offer came")
	}
	if err != nil {
		closeAll(fds)
		return err
	}
	t.PID = m.Offer.PID
	t.Sockets, err = listeners(fds, m.Offer.Sockets)
	t.line.in = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), conn), longestLine)
	return err
}

// Parts calls take with each part of what the process that runs remembers. It goes on
// to the end also after take's error, which it returns.
func (t *Taker) Parts(take func(name string, data []byte) error) error {
	var failed error
	for {
		m, err := t.line.receive(t.line.limits.Answer)
		switch {
		case err != nil && isEnd(err):
			return fmt.Errorf("process %d broke off. Start without -replace if it has ended", t.PID)
		case err != nil:
			return err
		case m.End:
			return failed
		case m.Part == nil:
			return errors.New("not a hand-over: neither a part nor its end came")
		}
		data, err := t.line.data(m.Part)
		if err != nil {
			return err
		}
		failed = errors.Join(failed, take(m.Part.Name, data))
	}
}

// Serving tells the process that runs that this one does, with those sockets of its, and
// waits until it has given everything else up. The others are closed. What is kept is
// owned from then on.
//
// The error is ErrWithdrawn if the process that ran goes on, and this one must end. It is
// ErrSilent if the process did not answer in time; this one serves then, and the other
// one may too. That the process ended is no error.
func (t *Taker) Serving(kept []Socket) error {
	defer t.line.conn.Close()
	s := &serving{Kept: []int{}}
	for i, offered := range t.Sockets {
		if slices.ContainsFunc(kept, func(k Socket) bool { return k.Listener == offered.Listener }) {
			s.Kept = append(s.Kept, i)
		} else {
			_ = offered.Close() // the other process's is still open
		}
	}
	err := t.line.send(message{Serving: s}, nil)
	if err == nil || isEnd(err) { // it may have withdrawn before
		_, err = t.line.receive(t.line.limits.Answer)
	}
	if errors.Is(err, ErrWithdrawn) {
		return err
	}
	for i := range kept {
		kept[i].own()
	}
	if err == nil || isEnd(err) {
		return nil
	}
	return fmt.Errorf("%w: process %d: %w", ErrSilent, t.PID, err)
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// Close gives up: the process that runs goes on.
func (t *Taker) Close() {
	Close(t.Sockets)
	_ = t.line.conn.Close() // the other side sees its end
}
