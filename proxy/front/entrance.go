package front

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"tempomat/proxy/certificates"
	"tempomat/proxy/http1"
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

// begins reports whether something comes before the first request.
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

// start does all that comes before the first request, and has the connection served. The
// handshake takes a large stack, which would be kept for as long as the client is silent.
func (c *conn) start() {
	defer c.recovers()
	if c.readProxyHeader() && c.handshake() {
		go c.serve()
		return
	}
	c.end()
}

// tell reports a step.
func (c *conn) tell(step Step, err error) {
	if c.server.o.Stepped != nil {
		c.server.o.Stepped(step, resultOf(err), c.remote, err)
	}
}

// readProxyHeader finds out which client a proxy speaks for, on entrances of proxies.
func (c *conn) readProxyHeader() bool {
	if !c.entrance.Proxied {
		return true
	}
	h, err := c.receiveProxyHeader()
	if err == nil && h.source.IsValid() {
		err = c.setClient(h.source)
	}
	c.tell(StepProxied, err)
	if h.secure {
		c.secure = c.server.secure
	}
	return err == nil
}

// receiveProxyHeader reads the header of the PROXY protocol. The bytes that came with it are kept.
func (c *conn) receiveProxyHeader() (h proxyHeader, err error) {
	if c.server.o.Trusts == nil || !c.server.o.Trusts(c.remote) {
		return h, errUntrusted
	}
	below := c.below()
	c.memory = c.server.memory.in.Get().(*[inSize]byte)
	n, size := 0, 0
	for size == 0 {
		var more int
		if more, err = below.Read(c.memory[n:]); more == 0 && err != nil {
			break
		}
		n += more
		if h, size, err = parseProxyHeader(c.memory[:n]); err != nil {
			break
		}
	}
	if err != nil || n == size || c.tls != nil {
		if err == nil && n > size {
			c.tls.below.buffered = append([]byte(nil), c.memory[size:n]...)
		}
		c.giveBack()
		return h, err
	}
	c.in.Resume(c.Conn, c.memory[:], copy(c.memory[:], c.memory[size:n]))
	return h, nil
}

// setClient has the connection be that of another client.
func (c *conn) setClient(client netip.AddrPort) error {
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

// handshake does that of TLS.
func (c *conn) handshake() bool {
	if c.tls == nil {
		return true
	}
	trusted := c.server.o.Trusts != nil && c.server.o.Trusts(c.remote)
	proto, err := c.tls.handshake(c.server.turns, turnOf(c.remote, trusted))
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
	return c.beginsToWait(time.Now())
}

// resultOf is an error's meaning in one word.
func resultOf(err error) Result {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case err == nil:
		return ResultOK
	case errors.Is(err, errUntrusted):
		return ResultUntrusted
	case errors.Is(err, errNoProxyHeader):
		return ResultMalformed
	case errors.Is(err, errHandshakeTooLong):
		return ResultTooLong
	case errors.Is(err, certificates.ErrNone):
		return ResultCertificate
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return ResultLate // a late client's connection is closed
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

// looksLikeHTTP reports whether five bytes may begin a request.
func looksLikeHTTP(received []byte) bool {
	for i, b := range received {
		if b == ' ' && i >= 3 {
			return true
		}
		if b < 'A' || b > 'Z' {
			return false
		}
	}
	return true
}

const tooManyCookies = "A site that has set too many cookies can cause this: delete its cookies in your browser, and try again.\n"

// turnAway answers a client that has sent no request, and waits until the client has read that.
// The connection is the caller's to close.
func (c *conn) turnAway(to net.Conn, status int, why string) {
	if c.server.o.Refused != nil {
		c.server.o.Refused()
	}
	text := http.StatusText(status) + ": " + why + "\n"
	if status == http.StatusRequestHeaderFieldsTooLarge {
		text += tooManyCookies
	}
	b := http1.AppendStatus(nil, status, "")
	b = http1.AppendField(b, "Content-Type", "text/plain; charset=utf-8")
	b = http1.AppendField(b, "Cache-Control", "no-store")
	b = http1.AppendLength(b, int64(len(text)))
	b = append(append(b, "Connection: close\r\n\r\n"...), text...)
	_ = to.SetWriteDeadline(time.Now().Add(drainSilence)) // without it only the goroutine waits
	if _, err := to.Write(b); err == nil {
		c.drainClient()
	}
}

// proxyHeader is what a proxy sends at the beginning of a connection, of the client that it
// speaks for: the PROXY protocol of HAProxy, version 1 and 2
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt). Its size is measured here, so
// that a header may come in pieces and is never longer than it may be; its content is read by
// github.com/pires/go-proxyproto.
type proxyHeader struct {
	// source is the client's address. It is invalid if the proxy speaks for itself (LOCAL, as
	// health checks do), does not know it (UNKNOWN, AF_UNSPEC), or has it from a unix socket: then
	// the peer is the client.
	source netip.AddrPort
	// secure is that the client came to the proxy over TLS (PP2_TYPE_SSL).
	secure bool
}

// errNoProxyHeader is for bytes that are not a header.
var errNoProxyHeader = errors.New("no header of the PROXY protocol")

const (
	signature1 = "PROXY "
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	most1      = 107            // bytes of a header of version 1
	fixed2     = 16             // bytes of one of version 2 before what its length counts
	most2      = fixed2 + 2<<10 // bytes of a whole one: the specification has 536, and certificates may be in it
	clientSSL  = 0x01           // PP2_CLIENT_SSL: the client came over TLS
)

// parseProxyHeader reads the header that the bytes begin with, and returns how many of them it
// takes; 0: more have to come. An error is errNoProxyHeader. It keeps nothing of the bytes.
func parseProxyHeader(received []byte) (h proxyHeader, size int, err error) {
	size, err = measureProxyHeader(received)
	if size == 0 || err != nil {
		return proxyHeader{}, 0, err
	}
	if isUnspecified(received) { // which the library refuses
		return proxyHeader{}, size, nil
	}
	parsed, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(received[:size]), size))
	if err != nil {
		return proxyHeader{}, 0, fmt.Errorf("%w: %w", errNoProxyHeader, err)
	}
	if h, err = meaningOf(parsed); err != nil {
		return proxyHeader{}, 0, err
	}
	return h, size, nil
}

// isUnspecified reports whether a whole header is one of version 2 that speaks for a client of no known
// protocol (AF_UNSPEC): what follows it is to be skipped.
func isUnspecified(received []byte) bool {
	at := len(signature2)
	return received[0] == signature2[0] && received[at] == 0x21 && received[at+1] == 0x00
}

// measureProxyHeader returns how long a header is; 0: that is not known yet, or not all of it has come.
func measureProxyHeader(received []byte) (int, error) {
	switch {
	case begins(received, signature1):
		if end := bytes.IndexByte(received[:min(len(received), most1)], '\n'); end >= 0 {
			return end + 1, nil
		}
		if len(received) >= most1 {
			return 0, fmt.Errorf("%w: a line of more than %d bytes", errNoProxyHeader, most1)
		}
		return 0, nil
	case begins(received, signature2):
		if len(received) < fixed2 {
			return 0, nil
		}
		size := fixed2 + int(binary.BigEndian.Uint16(received[fixed2-2:]))
		switch {
		case size > most2:
			return 0, fmt.Errorf("%w: %d bytes, more than %d", errNoProxyHeader, size, most2)
		case len(received) < size:
			return 0, nil
		}
		return size, nil
	}
	return 0, errNoProxyHeader
}

// begins reports whether what was received is a signature or its beginning, or begins with it.
func begins(received []byte, signature string) bool {
	n := min(len(received), len(signature))
	return string(received[:n]) == signature[:n]
}

// meaningOf is what a header that was parsed says.
func meaningOf(p *proxyproto.Header) (h proxyHeader, err error) {
	if p.Command.IsLocal() || p.TransportProtocol.IsUnspec() || p.TransportProtocol.IsUnix() {
		return proxyHeader{}, nil
	}
	tcp, ok := p.SourceAddr.(*net.TCPAddr)
	if !ok {
		return proxyHeader{}, fmt.Errorf("%w: %T is not a TCP address", errNoProxyHeader, p.SourceAddr)
	}
	at := tcp.AddrPort()
	h.source = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if !h.source.IsValid() || h.source.Addr().IsUnspecified() {
		return proxyHeader{}, fmt.Errorf("%w: %s is not a client's address", errNoProxyHeader, at)
	}
	tlvs, err := p.TLVs()
	if err != nil {
		return proxyHeader{}, fmt.Errorf("%w: %w", errNoProxyHeader, err)
	}
	for _, t := range tlvs {
		if t.Type == proxyproto.PP2_TYPE_SSL && len(t.Value) > 0 && t.Value[0]&clientSSL != 0 {
			h.secure = true
		}
	}
	return h, nil
}
