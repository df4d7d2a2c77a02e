//go:build world

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// recorder is the backend at the end of the garden. It takes what comes for what RFC 9112
// says that it is, and nothing else, and keeps every request that came to its end. A
// request tells by its path who it is, and what kind of answer it wants: /ID/KIND.
type recorder struct {
	address string

	mu      sync.Mutex // guards the following
	records []record
	faults  []string // what is no request
	open    map[net.Conn]bool
}

// record is a request that came to its end.
type record struct{ id, method, target, body string }

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &recorder{address: l.Addr().String(), open: map[net.Conn]bool{}}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.keep(c, true)
			done.Go(func() {
				defer b.keep(c, false)
				b.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		for c := range b.open {
			_ = c.Close()
		}
		b.mu.Unlock()
		done.Wait()
	})
	return b
}

func (b *recorder) keep(c net.Conn, opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[c] = opened; !opened {
		delete(b.open, c)
		_ = c.Close()
	}
}

// of is what came of a request.
func (b *recorder) of(id string) (all []record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.records {
		if r.id == id {
			all = append(all, r)
		}
	}
	return all
}

// all is what came.
func (b *recorder) all() (records []record, faults []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]record(nil), b.records...), append([]string(nil), b.faults...)
}

func (b *recorder) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// serve answers request after request.
func (b *recorder) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		h, err := readStrictHead(in)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				b.fault("%v", err)
			}
			return
		}
		if h.kind == "early" || h.kind == "refused" {
			_, _ = io.WriteString(c, h.answer(""))
			_, _ = io.Copy(io.Discard, in)
			return
		}
		if h.fields["expect"] != "" {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, whole, err := h.readBody(in)
		if err != nil {
			b.fault("%s: %v", h.line, err)
		}
		if err != nil || !whole {
			return
		}
		b.mu.Lock()
		b.records = append(b.records, record{h.id, h.method, h.target, body})
		b.mu.Unlock()
		if _, err := io.WriteString(c, h.answer(body)); err != nil || h.closes() {
			return
		}
	}
}

// strictHead is the head of a request.
type strictHead struct {
	line, method, target string
	id, kind             string
	fields               map[string]string // in lower case
}

// readStrictHead reads one. The error is io.EOF if the connection ended before it.
func readStrictHead(in *bufio.Reader) (*strictHead, error) {
	h := &strictHead{fields: map[string]string{}}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, io.EOF // who gives up may do so anywhere
		}
		text, ok := strings.CutSuffix(line, "\r\n")
		if !ok || strings.ContainsAny(text, "\r\x00") {
			return nil, fmt.Errorf("a line that ends in several places: %q", line)
		}
		switch {
		case h.line == "":
			words := strings.Split(text, " ")
			if len(words) != 3 || !strings.HasPrefix(words[1], "/") || words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0" {
				return nil, fmt.Errorf("no request line: %q", line)
			}
			h.line, h.method, h.target = text, words[0], words[1]
			h.id, h.kind, _ = strings.Cut(h.target[1:], "/")
			h.kind, _, _ = strings.Cut(h.kind, "?")
		case text == "":
			return h, nil
		default:
			name, value, ok := strings.Cut(text, ":")
			key := strings.ToLower(name)
			if !ok || name == "" || strings.ContainsAny(name, " \t") {
				return nil, fmt.Errorf("no field: %q in %s", line, h.line)
			}
			if _, twice := h.fields[key]; twice && (key == "host" || key == "content-length" || key == "transfer-encoding") {
				return nil, fmt.Errorf("twice: %q in %s", line, h.line)
			}
			h.fields[key] = strings.Trim(value, " \t")
		}
	}
}

// readBody reads it; whole is false if the connection ended before its end.
func (h *strictHead) readBody(in *bufio.Reader) (body string, whole bool, err error) {
	length, hasLength := h.fields["content-length"]
	coding, hasCoding := h.fields["transfer-encoding"]
	switch {
	case hasLength && hasCoding:
		return "", false, fmt.Errorf("a length and a transfer coding")
	case hasCoding && strings.EqualFold(coding, "chunked"):
		return readStrictChunks(in)
	case hasCoding:
		return "", false, fmt.Errorf("transfer coding %q", coding)
	case !hasLength:
		return "", true, nil
	}
	n, err := strconv.ParseUint(length, 10, 31)
	if err != nil {
		return "", false, fmt.Errorf("length %q", length)
	}
	all := make([]byte, n)
	_, short := io.ReadFull(in, all)
	return string(all), short == nil, nil
}

// readLine reads a line; false: the connection ended before its end.
func readLine(in *bufio.Reader) (string, bool) {
	line, err := in.ReadString('\n')
	return line, err == nil
}

func readStrictChunks(in *bufio.Reader) (body string, whole bool, err error) {
	for {
		line, ok := readLine(in)
		if !ok {
			return "", false, nil
		}
		size, _, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ";")
		n, err := strconv.ParseUint(size, 16, 31)
		if err != nil || !strings.HasSuffix(line, "\r\n") || strings.Count(line, "\r") > 1 {
			return "", false, fmt.Errorf("chunk %q", line)
		}
		if n == 0 {
			break
		}
		chunk := make([]byte, n+2)
		if n, _ := io.ReadFull(in, chunk); n < len(chunk) {
			return "", false, nil
		}
		if string(chunk[n:]) != "\r\n" {
			return "", false, fmt.Errorf("a chunk of %d bytes that ends in %q", n, chunk[n:])
		}
		body += string(chunk[:n])
	}
	for { // trailers
		line, ok := readLine(in)
		switch {
		case !ok:
			return "", false, nil
		case line == "\r\n":
			return body, true, nil
		case !strings.HasSuffix(line, "\r\n") || !strings.Contains(line, ":"):
			return "", false, fmt.Errorf("trailer %q", line)
		}
	}
}

// closes tells whether the answer ends the connection.
func (h *strictHead) closes() bool {
	return h.kind == "end" || strings.EqualFold(h.fields["connection"], "close") || strings.HasSuffix(h.line, "HTTP/1.0")
}

// contentOf is what the answer to a request says.
func contentOf(id, method, body string) string {
	return fmt.Sprintf("%s %s with %d bytes\n", id, method, len(body))
}

// answer is the kind that is asked for.
func (h *strictHead) answer(body string) string {
	content := contentOf(h.id, h.method, body)
	head := "X-Id: " + h.id + "\r\nCache-Control: no-store\r\nContent-Type: text/plain\r\n"
	if h.closes() || h.kind == "early" || h.kind == "refused" {
		head += "Connection: close\r\n"
	}
	sent := func(status, content string) string {
		length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(content))
		if h.method == "HEAD" {
			content = ""
		}
		return "HTTP/1.1 " + status + "\r\n" + head + length + content
	}
	switch h.kind {
	case "chunks", "extended", "trailer":
		s := "HTTP/1.1 200 OK\r\n" + head + chunkedField + "\r\n"
		if h.method == "HEAD" {
			return s
		}
		extends := ""
		if h.kind == "extended" {
			extends = ";e=1"
		}
		s += fmt.Sprintf("3%s\r\n%s\r\n%x\r\n%s\r\n0\r\n", extends, content[:3], len(content)-3, content[3:])
		if h.kind == "trailer" {
			s += "X-Trail: " + h.id + "\r\n"
		}
		return s + "\r\n"
	case "end":
		return "HTTP/1.1 200 OK\r\n" + head + "\r\n" + content
	case "nothing":
		return "HTTP/1.1 204 No Content\r\n" + head + "\r\n"
	case "unchanged":
		return "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n" + head + "\r\n"
	case "hints":
		return "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + sent("200 OK", content)
	case "part":
		head += fmt.Sprintf("Content-Range: bytes 2-5/%d\r\n", len(content))
		return sent("206 Partial Content", content[2:6])
	case "early":
		return sent("413 Content Too Large", content)
	case "refused":
		return sent("403 Forbidden", content)
	default:
		return sent("200 OK", content)
	}
}
