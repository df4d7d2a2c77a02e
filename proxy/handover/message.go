package handover

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	version = 1
	// mostSockets bounds what is passed at once; the kernel's own bound is 253.
	mostSockets = 64
	// longestLine bounds a message without its data, in bytes.
	longestLine = 64 << 10
	// mostData bounds the data of one part, in bytes.
	mostData = 64 << 20
)

// Limits are how long one side waits for the other.
type Limits struct {
	Answer time.Duration // for what the other side has ready: any message but the next
	Start  time.Duration // for "serving", as the other side starts
}

// message is one line of the conversation. Exactly one of its fields is set.
type message struct {
	Take      int      `json:"take,omitempty"` // the version that the Taker speaks
	Offer     *offer   `json:"offer,omitempty"`
	Part      *part    `json:"part,omitempty"`
	End       bool     `json:"end,omitempty"`
	Serving   *serving `json:"serving,omitempty"`
	Yours     bool     `json:"yours,omitempty"`
	Withdrawn string   `json:"withdrawn,omitempty"` // why
}

// offer goes with a descriptor for each of its sockets.
type offer struct {
	PID     int      `json:"pid"`
	Sockets []listed `json:"sockets"`
}

type listed struct {
	Role    string `json:"role"`
	Address string `json:"address"`
	Owned   bool   `json:"owned"`
}

// part is followed by Size bytes.
type part struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

type serving struct {
	Kept []int `json:"kept"` // indices of the offer's sockets
}

// ErrWithdrawn says that the process that runs goes on: the other one must not.
var ErrWithdrawn = errors.New("the process that runs goes on")

// line is a connection that messages go over. Not for concurrent use.
type line struct {
	conn   *net.UnixConn
	in     *bufio.Reader
	limits Limits
}

func newLine(conn *net.UnixConn, limits Limits) *line {
	return &line{conn: conn, in: bufio.NewReaderSize(conn, longestLine), limits: limits}
}

// send writes a message, and what follows it.
func (l *line) send(m message, data []byte) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := l.conn.SetWriteDeadline(time.Now().Add(l.limits.Answer)); err != nil {
		return err
	}
	if _, err := l.conn.Write(append(text, '\n')); err != nil || len(data) == 0 {
		return err
	}
	_, err = l.conn.Write(data)
	return err
}

// receive reads a message. The error of one that withdraws is ErrWithdrawn, and says
// why.
func (l *line) receive(limit time.Duration) (m message, err error) {
	if err := l.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return m, err
	}
	text, err := l.in.ReadSlice('\n')
	if err != nil {
		return m, err
	}
	return parse(text)
}

func parse(text []byte) (m message, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("not a message of a hand-over: %w", err)
	}
	if m.Withdrawn != "" {
		return m, fmt.Errorf("%w: %s", ErrWithdrawn, m.Withdrawn)
	}
	return m, nil
}

// data reads what follows a part's line.
func (l *line) data(p *part) ([]byte, error) {
	if p.Size < 0 || p.Size > mostData {
		return nil, fmt.Errorf("part %q has %d bytes; at most %d are taken", p.Name, p.Size, mostData)
	}
	b := make([]byte, p.Size)
	_, err := io.ReadFull(l.in, b)
	return b, err
}
