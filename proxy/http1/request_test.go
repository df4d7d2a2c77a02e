package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

func TestAppendRequest(t *testing.T) {
	for name, c := range map[string]struct {
		r    Request
		want string
	}{
		"no body": {
			Request{Method: "GET", Target: "/a%2Fb?c=d;e", Host: "site", Fields: made("B: 2", "B: 3", "A: 1", "Content-Length: 7")},
			lines("GET /a%2Fb?c=d;e HTTP/1.1", "Host: site", "B: 2", "B: 3", "A: 1", "", ""),
		},
		"a length": {
			Request{Method: "GET", Target: "/", Host: "site", Fields: made("Transfer-Encoding: chunked"), Length: 12},
			lines("GET / HTTP/1.1", "Host: site", "Content-Length: 12", "", ""),
		},
		"a POST of nothing": {
			Request{Method: "POST", Target: "/", Host: "site"},
			lines("POST / HTTP/1.1", "Host: site", "Content-Length: 0", "", ""),
		},
		"a PUT of nothing": {
			Request{Method: "PUT", Target: "/", Host: "site"},
			lines("PUT / HTTP/1.1", "Host: site", "Content-Length: 0", "", ""),
		},
		"a PATCH of nothing": {
			Request{Method: "PATCH", Target: "/", Host: "site"},
			lines("PATCH / HTTP/1.1", "Host: site", "Content-Length: 0", "", ""),
		},
		"chunks": {
			Request{Method: "PUT", Target: "/", Host: "site", Length: -1},
			lines("PUT / HTTP/1.1", "Host: site", "Transfer-Encoding: chunked", "", ""),
		},
		"a value of several lines": {
			Request{Method: "GET", Target: "/", Host: "site", Fields: Fields{{"A", "A", "b\r\nC: d\x00"}}},
			lines("GET / HTTP/1.1", "Host: site", "A: b  C: d ", "", ""),
		},
	} {
		testkit.Same(t, c.want, string(c.r.Append(nil)), "%s", name)
	}
}

func TestAppendStatus(t *testing.T) {
	for _, c := range []struct {
		status       int
		reason, want string
	}{{404, "", "HTTP/1.1 404 Not Found\r\n"}, {404, "Gone\nfishing", "HTTP/1.1 404 Gone fishing\r\n"}, {799, "", "HTTP/1.1 799 \r\n"}} {
		testkit.Same(t, c.want, string(AppendStatus(nil, c.status, c.reason)), "%d %q", c.status, c.reason)
	}
}

// TestBodyInChunks: package net/http can read a body that this package writes in chunks.
func TestBodyInChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 5000), 0, 5).Draw(t, "pieces")
		r := Request{Method: "POST", Target: "/", Host: "site", Length: -1, Fields: made("Trailer: Sum")}
		text := r.Append(nil)
		for _, piece := range pieces {
			memory := make([]byte, ChunkRoom+len(piece)+2)
			copy(memory[ChunkRoom:], piece)
			text = append(text, Chunk(memory, len(piece))...)
		}
		text = AppendLastChunk(text, made("Sum: x"))
		q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		testkit.Must(t, err)
		body, err := io.ReadAll(q.Body)
		if err != nil || !bytes.Equal(body, bytes.Join(pieces, nil)) || q.Trailer.Get("Sum") != "x" {
			t.Fatalf("read %d bytes, trailer %v, error %v", len(body), q.Trailer, err)
		}
	})
}

// FuzzAppendRequest: whatever a header contains, net/http reads exactly one request, with the given framing,
// from the written bytes.
func FuzzAppendRequest(f *testing.F) {
	f.Add("A", "b\r\nContent-Length: 5", int64(3))
	f.Fuzz(func(t *testing.T, name, value string, length int64) {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c > 0x7f || !tokenBytes[c] }) {
			return // a header that was read has no other names
		}
		name = http.CanonicalHeaderKey(name)
		if name == "Host" || name == "Expect" || name == "Connection" || length > 1<<20 {
			return
		}
		r := Request{Method: "POST", Target: "/", Host: "site", Fields: Fields{{name, name, value}}, Length: max(length, -1)}
		q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.Append(nil))))
		if err != nil {
			return // net/http rejects a value with a control character
		}
		if q.ContentLength != r.Length || len(q.Header) > 2 {
			t.Fatalf("a length of %d becomes %d, with %v", r.Length, q.ContentLength, q.Header)
		}
	})
}
