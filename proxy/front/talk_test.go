package front

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// recorder writes records of TLS 1.3 that package tls would not.
type recorder struct {
	net.Conn
	aead cipher.AEAD
	iv   []byte
	seq  uint64
}

// recording shakes hands, and returns who writes what comes after that.
func recording(t *testing.T, l net.Listener) *recorder {
	t.Helper()
	var secrets bytes.Buffer
	c := tls.Client(connect(t, l), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: &secrets})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(secrets.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(after)[1])
	if err != nil {
		t.Fatal(err)
	}
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		if os.Getenv("CI") != "" {
			t.Fatal("a CPU that computes AES is needed")
		}
		t.Skip("without AES in the CPU another cipher is taken")
	}
	expand := func(label string, n int) []byte {
		info := append([]byte{0, byte(n), byte(len("tls13 " + label))}, "tls13 "+label+"\x00"...)
		key, err := hkdf.Expand(sha256.New, secret, string(info), n)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	block, _ := aes.NewCipher(expand("key", 16))
	aead, _ := cipher.NewGCM(block)
	return &recorder{Conn: c.NetConn(), aead: aead, iv: expand("iv", 12)}
}

// record writes one, of a content type.
func (r *recorder) record(kind byte, content []byte) error {
	nonce := bytes.Clone(r.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, r.seq) {
		nonce[4+i] ^= b
	}
	r.seq++
	n := len(content) + 1 + r.aead.Overhead()
	head := []byte{23, 3, 3, byte(n >> 8), byte(n)}
	_, err := r.Write(r.aead.Seal(head, nonce, append(bytes.Clone(content), kind), head))
	return err
}

// TestLongMessageAfterHandshake has a client send a message of a handshake that is over, which
// TLS would keep until it is complete.
func TestLongMessageAfterHandshake(t *testing.T) {
	const handshake, data = 22, 23
	for name, before := range map[string]string{"at first": "", "after a request": getHello, "in a head": getHello[:10]} {
		t.Run(name, func(t *testing.T) {
			_, l, _, _ := overTLS(t, http.HandlerFunc(script), nil)
			c := recording(t, l)
			if before != "" {
				_ = c.record(data, []byte(before))
			}
			_ = c.record(handshake, []byte{24, 0, 0xff, 0xff})
			for range 15 {
				if err := c.record(handshake, make([]byte, 4<<10)); err != nil {
					return // it is closed
				}
			}
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it is kept, and waited for the rest")
			}
		})
	}
}
