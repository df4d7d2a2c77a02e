// Package proxyheader reads what a proxy says at the beginning of a connection of the client
// that it speaks for: the PROXY protocol of HAProxy, version 1 and 2
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt). What comes is measured here,
// so that a header may come in pieces and is never longer than it may be; what it says is read
// by github.com/pires/go-proxyproto.
package proxyheader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

// Header is what a proxy says of a connection.
type Header struct {
	// Source is the client's address. It is invalid if the proxy speaks for itself (LOCAL, as
	// health checks do), does not know it (UNKNOWN, AF_UNSPEC), or has it from a unix socket: then the peer
	// is who it is.
	Source netip.AddrPort
	// Secure says that the client came to the proxy over TLS (PP2_TYPE_SSL).
	Secure bool
}

// ErrMalformed is of what is no header.
var ErrMalformed = errors.New("no header of the PROXY protocol")

const (
	signature1 = "PROXY "
	signature2 = "\r\n\r\n\x00\r\nQUIT\n"
	most1      = 107            // bytes of a header of version 1
	fixed2     = 16             // bytes of one of version 2 before what its length counts
	most2      = fixed2 + 2<<10 // bytes of a whole one: the specification has 536, and certificates may be in it
	clientSSL  = 0x01           // PP2_CLIENT_SSL: the client came over TLS
)

// Parse reads the header that the bytes begin with, and tells how many of them it takes; 0:
// more have to come. An error is ErrMalformed. It keeps nothing of the bytes.
func Parse(said []byte) (h Header, size int, err error) {
	size, err = measure(said)
	if size == 0 || err != nil {
		return Header{}, 0, err
	}
	if isUnspecified(said) { // which the library refuses
		return Header{}, size, nil
	}
	parsed, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(said[:size]), size))
	if err != nil {
		return Header{}, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if h, err = meaning(parsed); err != nil {
		return Header{}, 0, err
	}
	return h, size, nil
}

// isUnspecified tells whether a whole header is one of version 2 that speaks for a client of no known
// protocol (AF_UNSPEC): what follows it is to be skipped.
func isUnspecified(said []byte) bool {
	at := len(signature2)
	return said[0] == signature2[0] && said[at] == 0x21 && said[at+1] == 0x00
}

// measure tells how long a header is; 0: that is not known yet, or not all of it has come.
func measure(said []byte) (int, error) {
	switch {
	case begins(said, signature1):
		if end := bytes.IndexByte(said[:min(len(said), most1)], '\n'); end >= 0 {
			return end + 1, nil
		}
		if len(said) >= most1 {
			return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrMalformed, most1)
		}
		return 0, nil
	case begins(said, signature2):
		if len(said) < fixed2 {
			return 0, nil
		}
		size := fixed2 + int(binary.BigEndian.Uint16(said[fixed2-2:]))
		switch {
		case size > most2:
			return 0, fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, size, most2)
		case len(said) < size:
			return 0, nil
		}
		return size, nil
	}
	return 0, ErrMalformed
}

// begins tells whether what was said is a signature or its beginning, or begins with it.
func begins(said []byte, signature string) bool {
	n := min(len(said), len(signature))
	return string(said[:n]) == signature[:n]
}

// meaning is what a header that was parsed says.
func meaning(p *proxyproto.Header) (h Header, err error) {
	if p.Command.IsLocal() || p.TransportProtocol.IsUnspec() || p.TransportProtocol.IsUnix() {
		return Header{}, nil
	}
	tcp, ok := p.SourceAddr.(*net.TCPAddr)
	if !ok {
		return Header{}, fmt.Errorf("%w: %T is no address of TCP", ErrMalformed, p.SourceAddr)
	}
	at := tcp.AddrPort()
	h.Source = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if !h.Source.IsValid() || h.Source.Addr().IsUnspecified() {
		return Header{}, fmt.Errorf("%w: %s is no client's address", ErrMalformed, at)
	}
	tlvs, err := p.TLVs()
	if err != nil {
		return Header{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, t := range tlvs {
		if t.Type == proxyproto.PP2_TYPE_SSL && len(t.Value) > 0 && t.Value[0]&clientSSL != 0 {
			h.Secure = true
		}
	}
	return h, nil
}
