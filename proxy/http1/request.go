package http1

import (
	"net/http"
	"strconv"
	"strings"
)

// Request is the head of a request as it is written.
type Request struct {
	Method, Target, Host string
	// Fields are written except for what frames the body, which Length says.
	Fields Fields
	// Length is that of the body: 0: there is none; negative: it is sent in chunks.
	Length int64
	// Announced is the names of what follows a body in chunks.
	Announced []string
}

// Append writes the head.
func (r *Request) Append(b []byte) []byte {
	b = append(appendText(append(b, r.Method...), " ", r.Target), " HTTP/1.1\r\n"...)
	b = AppendField(b, "Host", r.Host)
	b = r.Fields.Append(b, skipsFraming)
	return append(r.appendFraming(b), "\r\n"...)
}

// skipsFraming reports which fields the message writes itself.
func skipsFraming(name string) bool {
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
		return true
	}
	return false
}

// appendFraming says where the body ends. A method that means one to be there says
// so though it is empty (RFC 9110, 8.6).
func (r *Request) appendFraming(b []byte) []byte {
	switch {
	case r.Length > 0, r.Length == 0 && (r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch):
		b = AppendLength(b, r.Length)
	case r.Length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		if len(r.Announced) > 0 {
			b = AppendField(b, "Trailer", strings.Join(r.Announced, ", "))
		}
	}
	return b
}

// AppendField writes a field. A value can not begin another line.
func AppendField(b []byte, name, value string) []byte {
	return append(appendText(append(b, name...), ": ", value), "\r\n"...)
}

// appendText appends a text, with a space in the place of what would end a line.
func appendText(b []byte, before, text string) []byte {
	b = append(b, before...)
	at := len(b)
	b = append(b, text...)
	for i := at; i < len(b); i++ {
		if c := b[i]; c == '\r' || c == '\n' || c == 0 {
			b[i] = ' '
		}
	}
	return b
}

// AppendStatus writes the first line of an answer. The reason is the usual one if it is
// empty.
func AppendStatus(b []byte, status int, reason string) []byte {
	if reason == "" {
		reason = http.StatusText(status)
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	return append(appendText(b, " ", reason), "\r\n"...)
}

// AppendLength writes how long a body is.
func AppendLength(b []byte, n int64) []byte {
	b = append(b, "Content-Length: "...)
	return append(strconv.AppendInt(b, n, 10), "\r\n"...)
}

const (
	// ChunkRoom is what a chunk takes before its data, at most: 16 digits and the end
	// of a line.
	ChunkRoom = 18
	// chunkEnd is what follows them.
	chunkEnd = "\r\n"
)

// Chunk makes a chunk of n bytes that lie in b after ChunkRoom bytes; there is room
// for two more. It returns the part of b that is to be sent.
func Chunk(b []byte, n int) []byte {
	var size [ChunkRoom]byte
	head := append(strconv.AppendInt(size[:0], int64(n), 16), chunkEnd...)
	from := ChunkRoom - len(head)
	copy(b[from:], head)
	end := ChunkRoom + n
	return b[from : end+copy(b[end:], chunkEnd)]
}

// AppendSize writes what is before the data of a chunk of n bytes.
func AppendSize(b []byte, n int) []byte {
	return append(strconv.AppendInt(b, int64(n), 16), chunkEnd...)
}

// AppendLastChunk writes the end of a body in chunks.
func AppendLastChunk(b []byte, trailer Fields) []byte {
	return append(trailer.Append(append(b, "0\r\n"...), nil), chunkEnd...)
}
