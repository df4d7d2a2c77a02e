package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// readDeadlines tells which deadlines for reading are set.
type readDeadlines struct {
	http.ResponseWriter
	set func(time.Time)
}

func (d readDeadlines) SetReadDeadline(t time.Time) error {
	d.set(t)
	return nil
}

// TestDeadlineGoesBeforeTheEnd: once a body is complete its exchange may end at any time,
// and the connection is another request's.
func TestDeadlineGoesBeforeTheEnd(t *testing.T) {
	var last time.Time
	b := &body{
		ReadCloser: io.NopCloser(strings.NewReader("")),
		x:          &exchange{policy: &Policy{}, request: &http.Request{ProtoMajor: 1}},
	}
	b.conn = http.NewResponseController(readDeadlines{set: func(at time.Time) {
		if last = at; b.complete.Load() {
			t.Error("a deadline is set though the body is complete")
		}
	}})
	if _, err := b.fetch(make([]byte, 1)); !errors.Is(err, io.EOF) || !b.complete.Load() || !last.IsZero() {
		t.Errorf("%v, deadline %v", err, last)
	}
}
