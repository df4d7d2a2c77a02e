package front

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"tempomat/proxy/certificates"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/http1"
)

// Entrance describes what the connections of a listener do before their first request: a PROXY protocol
// header, a TLS handshake, both, or neither. The zero Entrance is for plain HTTP.
type Entrance struct {
	// TLS is the configuration of TLS, with the protocols that it offers (NextProtos); nil: no TLS.
	TLS *tls.Config
	// Proxied is true if each connection begins with a PROXY protocol header, which names the client. Then
	// only peers that Options.Peer trusts may connect.
	Proxied bool
	// Handler serves the requests; nil: the Server's handler does.
	Handler http.Handler
}

// Step is a part of a connection's beginning, before its first request.
type Step string

// The possible steps.
const (
	StepProxied   Step = "PROXY"
	StepHandshake Step = "TLS"
)

// Result is the outcome of a step.
type Result string

// The possible results. Some occur only in one of the steps.
const (
	ResultOK          Result = "ok"
	ResultLate        Result = "timeout"
	ResultGone        Result = "gone"        // the client has closed the connection
	ResultPlain       Result = "plain_http"  // the client speaks HTTP instead of TLS
	ResultNothing     Result = "no_common"   // client and server have no version, cipher or protocol in common
	ResultUnwanted    Result = "unwanted"    // the client sent an alert, for example because it rejects the certificate
	ResultCertificate Result = "certificate" // there is no certificate for the name that the client asked for
	ResultOther       Result = "other"
	ResultUntrusted   Result = "untrusted" // the peer isn't allowed to send a PROXY protocol header
	ResultMalformed   Result = "malformed" // the peer sent no PROXY protocol header, or a malformed one
)

// Results returns all results that a step can have.
func (s Step) Results() []Result {
	if s == StepProxied {
		return []Result{ResultOK, ResultLate, ResultGone, ResultUntrusted, ResultMalformed, ResultOther}
	}
	return []Result{
		ResultOK, ResultLate, ResultGone, ResultPlain, ResultNothing, ResultUnwanted, ResultCertificate, ResultOther,
	}
}

// errUntrusted means that the peer isn't allowed to name its clients.
var errUntrusted = errors.New("the peer isn't a trusted proxy")

// start does the steps before the first request, and then starts a goroutine that serves the
// connection. A handshake needs a large stack, which this goroutine would keep for as long as the
// client is silent.
func (c *conn) start() {
	defer c.recovers()
	if c.readProxyHeader() && c.handshake() {
		go c.serve()
		return
	}
	c.end()
}

// tell reports the result of a step.
func (c *conn) tell(step Step, err error) {
	c.server.o.Stepped(step, resultOf(err), c.remote, err)
}

// readProxyHeader reads the header in which a proxy names its client, if the Entrance expects one. It returns
// false if the connection must be closed.
func (c *conn) readProxyHeader() bool {
	if !c.entrance.Proxied {
		return true
	}
	h, err := c.receiveProxyHeader()
	if err == nil && h.source.IsValid() {
		c.place.Leave() // from now on the connection counts as the client's
		if !c.enter(h.source.String()) {
			err = net.ErrClosed
		}
	}
	c.tell(StepProxied, err)
	if h.secure {
		c.secure = c.server.secure
	}
	return err == nil
}

// receiveProxyHeader reads the PROXY protocol header. It keeps the bytes after the header.
func (c *conn) receiveProxyHeader() (h proxyHeader, err error) {
	if !c.trusted {
		return h, errUntrusted
	}
	r := bufio.NewReaderSize(c.below(), inSize)
	if h, err = readProxyHeader(r); err != nil {
		return h, err
	}
	rest, _ := r.Peek(r.Buffered()) // can't fail, because the bytes are buffered
	switch {
	case len(rest) == 0: // an empty slice would keep the reader's memory for as long as the connection lives
	case c.tls != nil:
		c.tls.below.buffered = rest
	default:
		c.memory = c.server.memory.in.Get().(*[inSize]byte)
		c.in.Resume(c.Conn, c.memory[:], copy(c.memory[:], rest))
	}
	return h, nil
}

// handshake does the TLS handshake.
func (c *conn) handshake() bool {
	if c.tls == nil {
		return true
	}
	of := c.remote // address whose turns the handshake takes; a trusted proxy has turns for each connection, because it serves many clients
	if !c.trusted {
		of = connlimit.ClientOf(c.peer).String()
	}
	proto, err := c.tls.handshake(of)
	c.tell(StepHandshake, err)
	switch {
	case err != nil && resultOf(err) == ResultPlain && c.work():
		c.turnAway(c.below(), http.StatusBadRequest, "this port is for HTTPS")
		return false
	case err != nil:
		return false
	case proto == certificates.ChallengeProtocol: // the certificate authority needed only the handshake for its challenge
		return false
	}
	c.secure = c.server.secure
	return c.waits(time.Now())
}

// resultOf returns the Result for an error.
func resultOf(err error) Result {
	var header tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case err == nil:
		return ResultOK
	case errors.Is(err, errUntrusted):
		return ResultUntrusted
	case errors.Is(err, certificates.ErrNone):
		return ResultCertificate
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return ResultLate // the sweep has closed the connection, because the client took too long
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ResultGone
	case errors.Is(err, errNoProxyHeader):
		return ResultMalformed
	case errors.As(err, &header) && looksLikeHTTP(header.RecordHeader[:]):
		return ResultPlain
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return ResultUnwanted
	case strings.Contains(err.Error(), "no cipher suite supported"), strings.Contains(err.Error(), "unsupported versions"),
		strings.Contains(err.Error(), "no supported versions"), strings.Contains(err.Error(), "unsupported application protocols"):
		return ResultNothing
	}
	return ResultOther
}

// looksLikeHTTP reports whether the five bytes of a TLS record header may begin an HTTP request.
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

// refusal returns the answer to a request whose head the handler doesn't get, because it is invalid or late.
func (s *Server) refusal(status int, why string) (fields http1.Fields, text string) {
	s.o.Refused()
	text = http.StatusText(status) + ": " + why + "\n"
	if status == http.StatusRequestHeaderFieldsTooLarge {
		text += "This can happen if a site has set too many cookies: delete the site's cookies in your browser, and try again.\n"
	}
	fields.Add("Content-Type", "text/plain; charset=utf-8")
	fields.Add("Cache-Control", "no-store")
	fields.Add("Content-Length", strconv.Itoa(len(text)))
	return fields, text
}

// turnAway answers a client that sent no valid request, and briefly waits until the client has read the answer.
// The caller then closes the connection.
func (c *conn) turnAway(to net.Conn, status int, why string) {
	fields, text := c.server.refusal(status, why)
	b := fields.Append(http1.AppendStatus(nil, status, ""), nil)
	b = append(append(b, "Connection: close\r\n\r\n"...), text...)
	_ = to.SetWriteDeadline(time.Now().Add(drainSilence)) // if it fails, only this goroutine waits longer
	if _, err := to.Write(b); err == nil {
		c.drainClient()
	}
}

// proxyHeader is the content of a PROXY protocol header, version 1 or 2, in which a proxy describes its
// client (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
type proxyHeader struct {
	// source is the client's address. It is invalid if the proxy speaks for itself (LOCAL, as in health
	// checks), or doesn't know the address (UNKNOWN, AF_UNSPEC), or if the client uses a unix socket. The peer
	// then counts as the client.
	source netip.AddrPort
	// secure is true if the client used TLS to connect to the proxy (PP2_TYPE_SSL).
	secure bool
}

// errNoProxyHeader means that the connection doesn't begin with a PROXY protocol header.
var errNoProxyHeader = errors.New("no PROXY protocol header")

// clientSSL is PP2_CLIENT_SSL: the client used TLS.
const clientSSL = 0x01

// readProxyHeader reads a header. The library limits its length to 107 bytes in version 1, which must arrive
// in one piece, and to 4 KB in version 2.
func readProxyHeader(r *bufio.Reader) (proxyHeader, error) {
	const unspecified = "\r\n\r\n\x00\r\nQUIT\n\x21\x00" // AF_UNSPEC, which the library rejects
	first, err := r.Peek(1)
	if err != nil {
		return proxyHeader{}, err // checked here, because the library would report this as a malformed header
	}
	if first[0] == unspecified[0] {
		if b, err := r.Peek(len(unspecified) + 2); err == nil && string(b[:len(unspecified)]) == unspecified {
			_, err = r.Discard(len(b) + int(binary.BigEndian.Uint16(b[len(unspecified):])))
			return proxyHeader{}, err
		}
	}
	parsed, err := proxyproto.Read(r)
	if err != nil {
		return proxyHeader{}, fmt.Errorf("%w: %w", errNoProxyHeader, err)
	}
	return meaningOf(parsed)
}

// meaningOf interprets a parsed header.
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
