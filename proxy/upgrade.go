package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/backend"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// upgrade passes bytes between the client and the backend, which have agreed on another protocol. It ends
// when both sides have closed, when one side accepts nothing for too long, or when neither side sends
// anything for too long.
func (u *Upstream) upgrade(x *exchange, out *backend.Request, res *backend.Answer) {
	asked := out.Fields.Get("Upgrade")
	agreed := upgradeOf(res.Fields)
	if asked == "" || !strings.EqualFold(protocolName(asked), protocolName(agreed)) || !printable(agreed) {
		u.explain(x, fmt.Errorf("the backend agreed to upgrade to %q, but the client asked for %q", agreed, asked))
		return
	}
	detacher, ok := x.client.writer.served.(interface {
		Detach() (net.Conn, []byte, error)
	})
	if !ok {
		u.explain(x, errors.New("an HTTP/2 stream can't be upgraded"))
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
	back := res.Tunnel()
	d := dialogue{client: client, back: back, limit: x.policy.Upgrade, log: u.log}
	defer x.client.conn.closing.upgrades.add(d.close)()
	_ = client.SetWriteDeadline(time.Now().Add(x.policy.Write)) // if it fails, writing fails
	if err := writeSwitch(client, agreed, res); err != nil {
		x.log.outcome = telemetry.ClientGone
		_ = back.Close()
		return
	}
	_ = client.SetWriteDeadline(time.Time{}) // hold sets its own
	if d.hold(io.MultiReader(bytes.NewReader(early), client)) {
		u.log.Info("closed an upgraded connection: both sides were silent, or one read nothing", zap.Duration("limit", d.limit),
			zap.String("path", telemetry.Clip(x.request.URL.Path)))
	}
}

// writeSwitch writes the header of the answer that agrees to a protocol: the backend's header without the
// fields for its own connection (RFC 9110, 7.6.1) and those meant only for the proxy.
func writeSwitch(w io.Writer, agreed string, res *backend.Answer) error {
	h := endToEnd(nil, res.Fields)
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", agreed)
	b := h.Append(http1.AppendStatus(nil, http.StatusSwitchingProtocols, ""), nil)
	_, err := w.Write(append(b, "\r\n"...))
	return err
}

// add registers a connection until remove is called. If the server shuts down before that, it calls closeIt.
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

// end closes all connections, including those that are added later, and waits until all are removed.
func (u *upgrades) end() {
	u.mu.Lock()
	u.ended = true
	for closeIt := range u.open {
		(*closeIt)()
	}
	u.mu.Unlock()
	u.all.Wait()
}

// dialogue is an upgraded connection with its two sides.
type dialogue struct {
	client, back net.Conn
	limit        time.Duration // longest silence of both sides, and longest time in which one accepts nothing; 0: none
	log          *zap.Logger
}

func (d *dialogue) close() {
	_ = d.client.Close()
	_ = d.back.Close()
}

// hold passes bytes in both directions until both sides have closed. idle is true if hold closed them because
// neither side had sent anything for too long, or one had accepted nothing.
func (d *dialogue) hold(fromClient io.Reader) (idle bool) {
	defer d.close()
	d.listen(time.Now())
	ends := make(chan error, 2)
	go func() { ends <- d.copy(d.back, fromClient) }()
	go func() { ends <- d.copy(d.client, d.back) }()
	for range cap(ends) {
		if err := <-ends; err != nil {
			idle = idle || errors.Is(err, os.ErrDeadlineExceeded)
			d.close()
		}
	}
	return idle
}

// listen extends the read deadlines of both sides. Each deadline is set deadlineStep later than the limit requires,
// because later bytes may not extend it.
func (d *dialogue) listen(now time.Time) (until time.Time) {
	if d.limit > 0 {
		until = now.Add(d.limit + deadlineStep)
	}
	_ = d.client.SetReadDeadline(until) // if it fails, hold only waits longer for a silent side
	_ = d.back.SetReadDeadline(until)
	return until
}

// copy passes on what one side sends, and then closes the other side for writing. At most once per deadlineStep it
// renews the deadlines. Only bytes for a side extend the time in which the side must accept them, because a side that
// reads nothing may still send.
func (d *dialogue) copy(dst net.Conn, src io.Reader) (err error) {
	defer survive(d.log, &err)
	piece := make([]byte, smallPiece)
	var renewed time.Time
	for {
		n, err := src.Read(piece)
		if n > 0 {
			if now := time.Now(); now.Sub(renewed) >= deadlineStep {
				renewed = now
				_ = dst.SetWriteDeadline(d.listen(now))
			}
			if _, err := dst.Write(piece[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			if half, ok := dst.(interface{ CloseWrite() error }); ok {
				return half.CloseWrite()
			}
			return io.ErrClosedPipe // such a connection can't be closed in one direction: hold closes all of it
		case err != nil:
			return err
		}
	}
}
