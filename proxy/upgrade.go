package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/backend"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// upgrade connects the client with the backend, which have agreed on another
// protocol, until both have closed, or one has and the other one does not take
// what comes, or nothing comes of either for too long.
func (u *Upstream) upgrade(x *exchange, out *backend.Request, res *backend.Answer) {
	asked := out.Fields.Get("Upgrade")
	agreed := upgradeOf(res.Fields)
	if asked == "" || !strings.EqualFold(protocolName(asked), protocolName(agreed)) || !printable(agreed) {
		u.explain(x, fmt.Errorf("the backend upgrades to %q where %q was asked for", agreed, asked))
		return
	}
	detacher, ok := x.client.writer.served.(interface {
		Detach() (net.Conn, []byte, error)
	})
	if !ok {
		u.explain(x, errors.New("a stream of HTTP/2 cannot be upgraded"))
		return
	}
	client, early, err := detacher.Detach()
	if err != nil {
		u.explain(x, fmt.Errorf("upgrade: %w", err))
		return
	}
	defer client.Close()
	x.client.writer.status = res.Status
	x.stream(time.Now())
	x.leaveHead() // it may be open for days, and the backend has agreed
	back := res.Tunnel()
	if err := writeSwitch(client, agreed, res); err != nil {
		x.log.outcome = telemetry.ClientGone
		_ = back.Close()
		return
	}
	d := dialogue{log: u.log, limit: x.policy.Upgrade, close: func() { _ = client.Close(); _ = back.Close() }}
	defer x.client.conn.closing.upgrades.add(d.close)()
	d.hold(client, io.MultiReader(bytes.NewReader(early), client), back)
	if d.idle.Load() {
		u.log.Info("closed an upgraded connection that was idle", zap.Duration("limit", d.limit),
			zap.String("path", telemetry.Clip(x.request.URL.Path)))
	}
}

// writeSwitch writes the head of an answer that agrees to a protocol: the backend's, except for what
// is for its own connection only (RFC 9110, 7.6.1), and what is for the proxy alone.
func writeSwitch(w io.Writer, agreed string, res *backend.Answer) error {
	h := endToEnd(nil, res.Fields)
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", agreed)
	b := h.Append(http1.AppendStatus(nil, http.StatusSwitchingProtocols, ""), nil)
	_, err := w.Write(append(b, "\r\n"...))
	return err
}

// add notes a connection until it is removed, and has it closed as the server ends.
func (u *upgrades) add(closeIt func()) (remove func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		closeIt()
		return func() {}
	}
	if u.open == nil {
		u.open = make(map[*func()]struct{})
	}
	u.open[&closeIt] = struct{}{}
	u.all.Add(1)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, &closeIt)
		u.all.Done()
	}
}

// end closes all connections, those to come included, and waits until they are written down.
func (u *upgrades) end() {
	u.mu.Lock()
	u.ended = true
	for closeIt := range u.open {
		(*closeIt)()
	}
	u.mu.Unlock()
	u.all.Wait()
}

// dialogue is what goes both ways after an upgrade.
type dialogue struct {
	log   *zap.Logger
	limit time.Duration // longest silence; 0: none
	close func()        // closes both sides
	last  atomic.Int64  // Unix nanoseconds of the last piece that was passed on
	idle  atomic.Bool   // it was closed for its silence
	timer *time.Timer
}

// hold passes on what both sides say until they have closed.
func (d *dialogue) hold(client io.Writer, fromClient io.Reader, back io.ReadWriter) {
	defer d.close()
	d.last.Store(time.Now().UnixNano())
	if d.limit > 0 {
		armed := make(chan struct{})
		d.timer = time.AfterFunc(d.limit, func() { <-armed; d.look() })
		close(armed)
		defer d.timer.Stop()
	}
	ends := make(chan error, 2)
	go func() { ends <- d.copy(back, fromClient) }()
	go func() { ends <- d.copy(client, back) }()
	for range cap(ends) {
		if err := <-ends; err != nil {
			d.close()
		}
	}
}

// look closes both sides if nothing was passed on for too long.
func (d *dialogue) look() {
	left := d.limit - time.Since(time.Unix(0, d.last.Load()))
	if left > 0 {
		d.timer.Reset(left)
		return
	}
	d.idle.Store(true)
	d.close()
}

// copy passes on what comes, and then that it is over.
func (d *dialogue) copy(dst io.Writer, src io.Reader) (err error) {
	defer survive(d.log, &err)
	piece := make([]byte, smallPiece)
	for {
		n, err := src.Read(piece)
		if n > 0 {
			if _, err := dst.Write(piece[:n]); err != nil {
				return err
			}
			d.last.Store(time.Now().UnixNano())
		}
		switch {
		case err == io.EOF:
			if half, ok := dst.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
			return io.ErrClosedPipe // it cannot be told but by closing
		case err != nil:
			return err
		}
	}
}
