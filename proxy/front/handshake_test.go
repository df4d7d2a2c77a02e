package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHandshakesThatFail has clients not come to a request.
func TestHandshakesThatFail(t *testing.T) {
	const plain = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: 36\r\nConnection: close\r\n\r\nBad Request: this port is for HTTPS\n"
	hello := clientHello(t)
	for name, tc := range map[string]struct {
		say    string
		config *tls.Config // a client that shakes hands; nil: it says say
		stay   bool        // the client does not close
		want   Result
		hear   string
	}{
		"HTTP":              {say: getHello, want: ResultPlain, hear: plain},
		"HTTP, long":        {say: "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n" + strings.Repeat("x", 99999), want: ResultPlain, hear: plain},
		"garbage":           {say: "\x00\x01\x02\x03\x04\x05\x06", want: ResultGarbage},
		"HTTP/2":            {say: preface, want: ResultPlain, hear: plain},
		"nothing":           {want: ResultGone},
		"half a hello":      {say: hello[:len(hello)/2], want: ResultGone},
		"silence":           {stay: true, want: ResultLate},
		"half, and silence": {say: hello[:len(hello)/2], stay: true, want: ResultLate},
		"huge":              {say: "\x16\x03\x01\x3f\xff\x01\x00\xff\x00" + strings.Repeat("\x00", 0x3ffb) + "\x16\x03\x01\x3f\xff" + strings.Repeat("\x00", 0x3fff), stay: true, want: ResultTooLong},
		"old":               {config: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}, want: ResultNothing},
		"another protocol":  {config: &tls.Config{NextProtos: []string{"imap"}, InsecureSkipVerify: true}, want: ResultNothing},
		"distrust":          {config: &tls.Config{ServerName: "a.example", MaxVersion: tls.VersionTLS12}, want: ResultUnwanted},
	} {
		t.Run(name, func(t *testing.T) {
			_, l, _, seen := overTLS(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("served") }),
				func(o *Options) {
					if tc.want == ResultLate {
						o.Header = 50 * time.Millisecond
					}
				})
			c := connect(t, l)
			if tc.config != nil {
				if err := tls.Client(c, tc.config).Handshake(); err == nil {
					t.Error("the handshake succeeds")
				}
			} else {
				_, _ = io.WriteString(c, tc.say)
			}
			if !tc.stay {
				_ = c.CloseWrite()
			}
			if got := <-seen.all; got != "TLS "+string(tc.want) {
				t.Errorf("the server says %q, want %s", got, tc.want)
			}
			got, err := io.ReadAll(c)
			if got := string(got); tc.hear != "" && got != tc.hear || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the client hears %q, %v, want %q", got, err, tc.hear)
			}
		})
	}
}

// clientHello is what a client says first.
func clientHello(t *testing.T) string {
	t.Helper()
	near, far := net.Pipe()
	go func() { _ = tls.Client(near, &tls.Config{ServerName: "a.example"}).Handshake() }()
	b := make([]byte, 64<<10)
	n, err := far.Read(b)
	_ = far.Close()
	_ = near.Close()
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestSecuredCloseDoesNotWait has a server cut a client that takes nothing of an answer: TLS
// would wait for it to hear that nothing more comes.
func TestSecuredCloseDoesNotWait(t *testing.T) {
	full := make(chan struct{})
	dial, _, s, _ := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = w.(*Response).SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				close(full)
				return
			}
		}
	}), nil)
	c := dial()
	_, _ = io.WriteString(c, getHello)
	<-full
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
