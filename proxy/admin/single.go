package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"tempomat/proxy/admin/api"
)

// Inspector looks at single clients, pages and requests. Its methods must be safe for
// concurrent use.
type Inspector interface {
	// Queue is who waits, at most limit of them.
	Queue(now time.Time, limit int) api.QueueReply
	// Explain tells what is known of something; its error says what cannot be asked for.
	Explain(now time.Time, of string) (api.ExplainReply, error)
}

// singly has an Inspector look once at a time: each look locks for a moment what requests
// need, and many at the same time would stall them.
type singly struct {
	mu        sync.Mutex // held while it looks
	inspector Inspector
}

// Queue implements Inspector.
func (s *singly) Queue(now time.Time, limit int) api.QueueReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inspector.Queue(now, limit)
}

// Explain implements Inspector.
func (s *singly) Explain(now time.Time, of string) (api.ExplainReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inspector.Explain(now, of)
}

// Actor does something for a single client. By is who asks, in words; an error says what
// was not allowed. Its methods must be safe for concurrent use.
type Actor interface {
	Forgive(now time.Time, by string, a api.ActRequest) (api.ActReply, error)
	Pin(now time.Time, by string, a api.ActRequest) (api.ActReply, error)
	Pins(now time.Time) api.PinsReply
}

// The number of rows that the queue gives.
const (
	usualWaiting = 100 // unless asked for another
	mostWaiting  = 1000
)

func (a *Server) queue(w http.ResponseWriter, r *http.Request) {
	limit, err := numberOf(r, "limit", usualWaiting, mostWaiting)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, http.StatusOK, a.opts.Inspector.Queue(a.opts.Now(), limit))
}

func (a *Server) explain(w http.ResponseWriter, r *http.Request) {
	reply, err := a.opts.Inspector.Explain(a.opts.Now(), r.URL.Query().Get("of"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, http.StatusOK, reply)
}

func (a *Server) pins(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, a.opts.Actor.Pins(a.opts.Now()))
}

// act serves what an Actor does.
func (a *Server) act(do func(now time.Time, by string, a api.ActRequest) (api.ActReply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		act, err := readAct(w, r)
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		if act.Class, err = a.className(act.Class); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		reply, err := do(a.opts.Now(), askedBy(r.Context()), act)
		if err != nil {
			fail(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		answer(w, http.StatusOK, reply)
	}
}

// readAct reads the body. Nothing that is unknown may be in it: a misspelt field must not
// silently do something else.
func readAct(w http.ResponseWriter, r *http.Request) (act api.ActRequest, err error) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	d.DisallowUnknownFields()
	if err = d.Decode(&act); err != nil {
		return act, fmt.Errorf("the body is not as it should be, JSON of at most %d bytes with class, key, seconds and standing: %w", mostBody, err)
	}
	if _, err = d.Token(); !errors.Is(err, io.EOF) {
		return act, errors.New("the body has something behind the JSON object")
	}
	if act.Class == "" {
		return act, errors.New("class and key must both be given")
	}
	return act, nil
}
