package http1

import (
	"bytes"
	"net/http"
	"strconv"
)

// Request is the head of a request to be written.
type Request struct {
	Method, Target, Host string
	// Fields are written, except for those that frame the body, because Length determines the framing.
	Fields Fields
	// Length is the length of the body. 0 means that there is no body; a negative length means chunks.
	Length int64
}

// Append writes the head.
func (r *Request) Append(b []byte) []byte {
	b = append(appendText(append(b, r.Method...), " ", r.Target), " HTTP/1.1\r\n"...)
	b = AppendField(b, "Host", r.Host)
	b = r.Fields.Append(b, skipsFraming)
	switch { // methods that usually have a body get a length even if the body is empty (RFC 9110, 8.6)
	case r.Length > 0, r.Length == 0 && (r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch):
		b = AppendLength(b, r.Length)
	case r.Length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}

// skipsFraming reports whether Append writes the field itself.
func skipsFraming(name string) bool {
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding":
		return true
	}
	return false
}

// AppendField writes a field. It ensures that the value doesn't begin another line.
func AppendField(b []byte, name, value string) []byte {
	return append(appendText(append(b, name...), ": ", value), "\r\n"...)
}

// appendText appends a text. It replaces characters that could end the line with spaces.
func appendText(b []byte, before, text string) []byte {
	b = append(b, before...)
	at := len(b)
	b = append(b, text...)
	for _, end := range []byte{'\r', '\n', 0} {
		for i := bytes.IndexByte(b[at:], end); i >= 0; i = bytes.IndexByte(b[at:], end) {
			b[at+i] = ' '
		}
	}
	return b
}

// AppendStatus writes the first line of an answer. If the reason is empty, AppendStatus writes the usual
// one.
func AppendStatus(b []byte, status int, reason string) []byte {
	if reason == "" {
		reason = http.StatusText(status)
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	return append(appendText(b, " ", reason), "\r\n"...)
}

// AppendLength writes the length of a body.
func AppendLength(b []byte, n int64) []byte {
	b = append(b, "Content-Length: "...)
	return append(strconv.AppendInt(b, n, 10), "\r\n"...)
}

const (
	// ChunkRoom is the room, in bytes, for the line before the data of a chunk: 16 digits and CR LF.
	ChunkRoom = 18
	// chunkEnd follows the data of a chunk.
	chunkEnd = "\r\n"
)

// Chunk makes a chunk of the n bytes in b that follow the first ChunkRoom bytes. b needs room for two more
// bytes. Chunk returns the part of b to send.
func Chunk(b []byte, n int) []byte {
	var size [ChunkRoom]byte
	head := append(strconv.AppendInt(size[:0], int64(n), 16), chunkEnd...)
	from := ChunkRoom - len(head)
	copy(b[from:], head)
	end := ChunkRoom + n
	return b[from : end+copy(b[end:], chunkEnd)]
}

// AppendSize writes the line before the data of a chunk of n bytes.
func AppendSize(b []byte, n int) []byte {
	return append(strconv.AppendInt(b, int64(n), 16), chunkEnd...)
}

// AppendLastChunk writes the end of a body in chunks.
func AppendLastChunk(b []byte, trailer Fields) []byte {
	return append(trailer.Append(append(b, "0\r\n"...), nil), chunkEnd...)
}
