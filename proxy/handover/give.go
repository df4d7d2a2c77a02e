package handover

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// Path is where a Taker asks, and protocol what it asks to go on with.
const (
	Path     = "/v1/replace"
	protocol = "tempomat-handover"
)

// Handler has serve talk with whoever asks, over a connection that is closed as serve
// returns. It is for a server of HTTP/1.1 on a unix socket.
func Handler(serve func(conn *net.UnixConn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != protocol {
			http.Error(w, "only for tempomat-proxy -replace", http.StatusUpgradeRequired)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, "not over this protocol", http.StatusUpgradeRequired)
			return
		}
		defer conn.Close()
		socket := conn
		if outer, ok := conn.(interface{ NetConn() net.Conn }); ok {
			socket = outer.NetConn()
		}
		unix, ok := socket.(*net.UnixConn)
		if !ok {
			return // nobody can ask over another one
		}
		_ = unix.SetDeadline(time.Time{}) // if it cannot be, what follows fails too
		if _, err := unix.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n")); err != nil {
			return
		}
		serve(unix)
	})
}

// Giver is the side of the process that runs. Not for concurrent use.
type Giver struct {
	line *line
	PID  int // of the process that asks
}

// Answer hears what is asked for. If the error is not nil the other side has been told,
// and may not have what it asks for.
func Answer(conn *net.UnixConn, limits Limits) (*Giver, error) {
	g := &Giver{line: newLine(conn, limits)}
	pid, uid, err := peer(conn)
	if err != nil {
		return nil, g.Withdraw(err)
	}
	g.PID = pid
	if us := os.Geteuid(); uid != 0 && int64(uid) != int64(us) {
		return nil, g.Withdraw(fmt.Errorf("process %d is of user %d; only root and user %d may take over", pid, uid, us))
	}
	m, err := g.line.receive(limits.Answer)
	if err != nil {
		return nil, err
	}
	if m.Take != version {
		return nil, g.Withdraw(fmt.Errorf("process %d speaks version %d of the hand-over, this one %d", pid, m.Take, version))
	}
	return g, nil
}

// Withdraw tells the other side that this process goes on, and why. It returns that.
func (g *Giver) Withdraw(why error) error {
	_ = g.line.send(message{Withdrawn: why.Error()}, nil) // it may have gone
	return why
}

// Give hands over at most 64 sockets, and what parts sends, each at most 64 MiB, which the other
// side checks, and waits until that serves. It returns which of the sockets that has kept. After an
// error, which the other side is told, this process goes on.
func (g *Giver) Give(sockets []Socket, parts func(send func(name string, data []byte) error) error) (kept []int, err error) {
	o := offer{PID: os.Getpid()}
	for _, s := range sockets {
		o.Sockets = append(o.Sockets, listed{s.Role, s.Address, s.Owned})
	}
	text, err := json.Marshal(message{Offer: &o})
	if err != nil {
		return nil, g.Withdraw(err)
	}
	if err := g.line.conn.SetWriteDeadline(time.Now().Add(g.line.limits.Answer)); err != nil {
		return nil, g.Withdraw(err)
	}
	if err := sendSockets(g.line.conn, append(text, '\n'), sockets); err != nil {
		return nil, g.Withdraw(err)
	}
	if err := parts(func(name string, data []byte) error {
		return g.line.send(message{Part: &part{name, len(data)}}, data)
	}); err != nil {
		return nil, g.Withdraw(err)
	}
	if err := g.line.send(message{End: true}, nil); err != nil {
		return nil, g.Withdraw(err)
	}
	m, err := g.line.receive(g.line.limits.Start)
	if err != nil {
		return nil, g.Withdraw(fmt.Errorf("process %d does not serve: %w", g.PID, err))
	}
	if m.Serving == nil {
		return nil, g.Withdraw(fmt.Errorf("process %d said something else than that it serves", g.PID))
	}
	for _, i := range m.Serving.Kept {
		if i < 0 || i >= len(sockets) {
			return nil, g.Withdraw(fmt.Errorf("process %d keeps socket %d of %d", g.PID, i, len(sockets)))
		}
	}
	return m.Serving.Kept, nil
}

// Confirm tells the other side that all is its own now. That it cannot be told changes
// nothing: it serves.
func (g *Giver) Confirm() error { return g.line.send(message{Yours: true}, nil) }
