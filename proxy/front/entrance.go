package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"tempomat/proxy/certificates"
	"tempomat/proxy/http1"
	"tempomat/proxy/proxyheader"
)

// Entrance is how the connections of a listener begin, before their first request. The zero
// Entrance is that of a plain one.
type Entrance struct {
	// TLS is spoken there; nil: it is not. It says which protocols there are (NextProtos).
	TLS *tls.Config
	// Proxied says that each connection begins with a header of the PROXY protocol, which
	// tells who the client is. Only peers that Options.Trusts are let in.
	Proxied bool
	// Handler serves requests there; nil: the Server's does.
	Handler http.Handler
}

// begins tells whether something comes before the first request.
func (e *Entrance) begins() bool { return e.TLS != nil || e.Proxied }

// Step is what a connection does before its first request.
type Step string

// The steps.
const (
	StepProxied   Step = "PROXY"
	StepHandshake Step = "TLS"
)

// Result is how a step went.
type Result string

// The results, of either step or of one of them.
const (
	ResultOK          Result = "ok"
	ResultLate        Result = "timeout"
	ResultGone        Result = "gone"        // the client has closed the connection
	ResultTooLong     Result = "too_long"    // it sent more than a handshake needs
	ResultPlain       Result = "plain_http"  // it does not speak TLS, but HTTP
	ResultGarbage     Result = "garbage"     // it does not speak TLS, nor HTTP
	ResultNothing     Result = "no_common"   // no version, cipher or protocol that both have
	ResultUnwanted    Result = "unwanted"    // the client does not like the certificate, or something else
	ResultCertificate Result = "certificate" // there is none for it
	ResultOther       Result = "other"
	ResultUntrusted   Result = "untrusted" // it must not send a header of the PROXY protocol
	ResultMalformed   Result = "malformed" // what it sent is none
)

// Results are all that a step may have.
func (s Step) Results() []Result {
	if s == StepProxied {
		return []Result{ResultOK, ResultLate, ResultGone, ResultUntrusted, ResultMalformed, ResultOther}
	}
	return []Result{
		ResultOK, ResultLate, ResultGone, ResultTooLong, ResultPlain, ResultGarbage, ResultNothing, ResultUnwanted,
		ResultCertificate, ResultOther,
	}
}

// errUntrusted is of a peer that may not say who its client is.
var errUntrusted = errors.New("the peer is no trusted proxy")

// greet does all that comes before the first request, and has the connection served. The
// handshake takes a large stack, which would be kept for as long as the client is silent.
func (c *conn) greet() {
	defer c.recovers()
	if c.introduce() && c.shakeHands() {
		go c.serve()
		return
	}
	c.end()
}

// tell tells of a step.
func (c *conn) tell(step Step, err error) {
	if c.server.o.Stepped != nil {
		c.server.o.Stepped(step, resultOf(err), c.remote, err)
	}
}

// introduce reads who the client is, if a proxy says so.
func (c *conn) introduce() bool {
	if !c.entrance.Proxied {
		return true
	}
	h, err := c.readProxied()
	if err == nil && h.Source.IsValid() {
		err = c.rename(h.Source)
	}
	c.tell(StepProxied, err)
	if h.Secure {
		c.secure = c.server.secure
	}
	return err == nil
}

// readProxied reads the header of the PROXY protocol. What came with it is kept.
func (c *conn) readProxied() (h proxyheader.Header, err error) {
	if c.server.o.Trusts == nil || !c.server.o.Trusts(c.remote) {
		return h, errUntrusted
	}
	below := c.below()
	c.memory = c.server.memory.in.Get().(*inMemory)
	n, size := 0, 0
	for size == 0 {
		var more int
		if more, err = below.Read(c.memory.bytes[n:]); more == 0 && err != nil {
			break
		}
		n += more
		if h, size, err = proxyheader.Parse(c.memory.bytes[:n]); err != nil {
			break
		}
	}
	if err != nil || n == size || c.tls != nil {
		if err == nil && n > size {
			c.tls.below.early = append([]byte(nil), c.memory.bytes[size:n]...)
		}
		c.giveBack()
		return h, err
	}
	c.in.Resume(c.Conn, c.memory.bytes[:], copy(c.memory.bytes[:], c.memory.bytes[size:n]))
	return h, nil
}

// rename has the connection be that of another client.
func (c *conn) rename(client netip.AddrPort) error {
	c.remote = client.String()
	if c.place == nil {
		return nil
	}
	c.place.Leave()
	if c.place = c.server.o.Enter(c.below(), c.remote); c.place == nil {
		return net.ErrClosed
	}
	return nil
}

// shakeHands does the handshake of TLS.
func (c *conn) shakeHands() bool {
	if c.tls == nil {
		return true
	}
	trusted := c.server.o.Trusts != nil && c.server.o.Trusts(c.remote)
	proto, err := c.tls.shakeHands(c.server.turns, turnOf(c.remote, trusted))
	c.tell(StepHandshake, err)
	switch {
	case err != nil && resultOf(err) == ResultPlain && c.work():
		c.turnAway(c.below(), http.StatusBadRequest, "this port is for HTTPS")
		return false
	case err != nil:
		return false
	case proto == certificates.ChallengeProtocol: // the certificate authority has seen the certificate it looked for
		return false
	}
	c.secure = c.server.secure
	return c.waitsAnew(time.Now())
}

// resultOf says in a word what an error means.
func resultOf(err error) Result {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case err == nil:
		return ResultOK
	case errors.Is(err, errUntrusted):
		return ResultUntrusted
	case errors.Is(err, proxyheader.ErrMalformed):
		return ResultMalformed
	case errors.Is(err, errHandshakeTooLong):
		return ResultTooLong
	case errors.Is(err, certificates.ErrNone):
		return ResultCertificate
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return ResultLate // who is late is closed
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ResultGone
	case errors.As(err, &header):
		if looksLikeHTTP(header.RecordHeader[:]) {
			return ResultPlain
		}
		return ResultGarbage
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return ResultUnwanted
	case strings.Contains(err.Error(), "no cipher suite supported"), strings.Contains(err.Error(), "unsupported versions"),
		strings.Contains(err.Error(), "no supported versions"), strings.Contains(err.Error(), "unsupported application protocols"):
		return ResultNothing
	}
	return ResultOther
}

// looksLikeHTTP tells whether five bytes may begin a request.
func looksLikeHTTP(said []byte) bool {
	for i, b := range said {
		if b == ' ' && i >= 3 {
			return true
		}
		if b < 'A' || b > 'Z' {
			return false
		}
	}
	return true
}

// turnAway answers a client that has sent no request, and waits until the client has read that.
// The connection is the caller's to close.
func (c *conn) turnAway(to net.Conn, status int, why string) {
	if c.server.o.Refused != nil {
		c.server.o.Refused()
	}
	text := http.StatusText(status) + ": " + why + "\n"
	if status == http.StatusRequestHeaderFieldsTooLarge {
		text += "A site that has set too many cookies can cause this: delete its cookies in your browser, and try again.\n"
	}
	b := http1.AppendStatus(nil, status, "")
	b = http1.AppendField(b, "Content-Type", "text/plain; charset=utf-8")
	b = http1.AppendField(b, "Cache-Control", "no-store")
	b = http1.AppendLength(b, int64(len(text)))
	b = append(append(b, "Connection: close\r\n\r\n"...), text...)
	_ = to.SetWriteDeadline(time.Now().Add(lingerSilence)) // without it only the goroutine waits
	if _, err := to.Write(b); err == nil {
		c.linger()
	}
}
