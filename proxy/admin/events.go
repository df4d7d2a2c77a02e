package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"tempomat/proxy/admin/api"
)

const (
	// mostListeners is how many may listen at a time.
	mostListeners = 64
	// mostBehind is how many events a listener may be behind before it is dropped.
	mostBehind = 8
	// eventTimeout is how long a listener may take for an event.
	eventTimeout = 10 * time.Second
)

var errManyListeners = errors.New("as many listen as may")

// Events tells each point to all who listen. Its methods may be called concurrently.
type Events struct {
	mu        sync.Mutex // guards the following
	listeners map[chan []byte]struct{}
}

// NewEvents makes one that nobody listens to.
func NewEvents() *Events { return &Events{listeners: make(map[chan []byte]struct{})} }

// Publish tells a point to all who listen. It is written out once, and waits for nobody:
// who is too far behind is dropped.
func (e *Events) Publish(p api.Point) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) == 0 {
		return
	}
	body, err := json.Marshal(p)
	if err != nil { // a number that JSON does not have, NaN: the next point will have none
		return
	}
	event := fmt.Appendf(nil, "data: %s\n\n", body)
	for l := range e.listeners {
		select {
		case l <- event:
		default:
			delete(e.listeners, l)
			close(l)
		}
	}
}

// listen returns a channel of events that is closed when the listener is dropped.
func (e *Events) listen() (<-chan []byte, func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) >= mostListeners {
		return nil, nil, errManyListeners
	}
	l := make(chan []byte, mostBehind)
	e.listeners[l] = struct{}{}
	return l, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, l)
	}, nil
}

// events sends a point each second, as server-sent events, until the client leaves, is too
// slow, or the server ends.
func (a *Server) events(w http.ResponseWriter, r *http.Request) {
	events, leave, err := a.opts.Inside.Events.listen()
	if err != nil {
		fail(w, &failure{http.StatusServiceUnavailable, fmt.Sprintf("%v: %d", err, mostListeners)})
		return
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	conn := http.NewResponseController(w)
	// The server's limits are for an answer, and for a request: the end of that of reading
	// would pass for the client's end.
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		fail(w, &failure{http.StatusInternalServerError, err.Error()})
		return
	}
	event, open := []byte("retry: 2000\n\n"), true
	for open {
		if conn.SetWriteDeadline(time.Now().Add(eventTimeout)) != nil {
			return
		}
		if _, err := w.Write(event); err != nil || conn.Flush() != nil {
			return
		}
		select {
		case event, open = <-events:
		case <-r.Context().Done():
			return
		case <-a.ending:
			return
		}
	}
}
