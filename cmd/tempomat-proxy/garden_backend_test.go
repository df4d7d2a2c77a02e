//go:build world

package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is the backend at the end of the garden. It records every request that arrives completely. A request's
// path, /ID/KIND, contains the request's name and the kind of answer that the client wants.
type recorder struct {
	address string

	mu      sync.Mutex // guards the fields below
	records []record
	faults  []string // in bodies
}

// record is a request that arrived completely.
type record struct{ id, method, target, body string }

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	b := &recorder{}
	s := httptest.NewUnstartedServer(b)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients and servers may disconnect at any point
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	b.address = s.Listener.Addr().String()
	return b
}

// of returns the records of a request.
func (b *recorder) of(id string) []record {
	all, _ := b.all()
	return slices.DeleteFunc(all, func(r record) bool { return r.id != id })
}

func (b *recorder) all() ([]record, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.records), slices.Clone(b.faults)
}

// contentOf returns the content of the answer to a request.
func contentOf(id, method, body string) string {
	return fmt.Sprintf("%s %s with %d bytes\n", id, method, len(body))
}

// ServeHTTP implements http.Handler.
func (b *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, kind, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "/")
	kind, _, _ = strings.Cut(kind, "?")
	w.Header().Set("X-Id", id)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain")
	if status, early := map[string]int{"early": http.StatusRequestEntityTooLarge, "refused": http.StatusForbidden}[kind]; early {
		w.Header().Set("Connection", "close")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, contentOf(id, r.Method, ""))
		return
	}
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	if err == nil {
		b.records = append(b.records, record{id, r.Method, r.RequestURI, string(body)})
	} else if strings.Contains(err.Error(), "chunk") {
		b.faults = append(b.faults, fmt.Sprintf("%s %s: %v", r.Method, r.RequestURI, err))
	}
	b.mu.Unlock()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	answerAs(w, id, kind, contentOf(id, r.Method, string(body)))
}

// answerAs sends an answer of the requested kind.
func answerAs(w http.ResponseWriter, id, kind, content string) {
	h := w.Header()
	switch kind {
	case "chunks", "trailer":
		_, _ = io.WriteString(w, content[:3])
		_ = http.NewResponseController(w).Flush()
		content = content[3:]
		if kind == "trailer" {
			h.Set(http.TrailerPrefix+"X-Trail", id)
		}
	case "extended":
		written(w, fmt.Sprintf("%s\r\n3;e=1\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", chunkedField, content[:3], len(content)-3, content[3:]))
		return
	case "end":
		written(w, "\r\n"+content)
		return
	case "nothing":
		w.WriteHeader(http.StatusNoContent)
		return
	case "unchanged":
		h.Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
		return
	case "hints":
		h.Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
	case "part":
		h.Set("Content-Range", fmt.Sprintf("bytes 2-5/%d", len(content)))
		w.WriteHeader(http.StatusPartialContent)
		content = content[2:6]
	}
	_, _ = io.WriteString(w, content)
}

// written sends an answer byte by byte, and closes the connection.
func written(w http.ResponseWriter, rest string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n")
	_ = w.Header().Write(c)
	_, _ = io.WriteString(c, rest)
}
