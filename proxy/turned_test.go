package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"go.uber.org/zap"

	"tempomat/proxy/front"
	"tempomat/proxy/h2bound"
)

// said is a connection whose client has said all that it ever will.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (said) RemoteAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }
func (said) Close() error                 { return nil }

// TestConnectionsTogether has a client leave many requests behind, some with each
// connection. A trusted proxy's clients are many.
func TestConnectionsTogether(t *testing.T) {
	const streams, connections = 200, 30
	text := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	for n := range streams {
		text = binary.BigEndian.AppendUint32(append(text, 0, 0, 3, 1, 5), uint32(2*n+1)) // HEADERS
		text = append(text, 0x82, 0x84, 0x86)
	}
	for name, trusted := range map[string]bool{"a stranger": false, "a trusted proxy": true} {
		t.Run(name, func(t *testing.T) {
			l := newTurned(ServerOptions{Log: zap.NewNop(), Peer: func(string) (netip.Addr, bool) {
				return netip.MustParseAddr("192.0.2.1"), trusted
			}})
			cut := 0
			for range connections {
				go l.add(&front.Turned{Conn: said{Reader: bytes.NewReader(text)}})
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, c); errors.Is(err, h2bound.Unanswered) {
					cut++
				} else if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
			}
			if (cut > 0) == trusted {
				t.Errorf("%d of %d connections were cut", cut, connections)
			}
		})
	}
}
