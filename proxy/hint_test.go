package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"
)

// TestHintsToWhoHasGone has clients of HTTP/2 take back what they asked for while they are told
// what comes before the answer: package net/http may write that still. The race detector tells
// whether it is changed meanwhile.
func TestHintsToWhoHasGone(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		for range 90 {
			w.WriteHeader(http.StatusEarlyHints)
		}
	}))
	for n := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		hints := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			if hints++; hints > n {
				cancel()
			}
			return nil
		}}
		res, err := r.h2c.Do(request(t, nil, "GET /").WithContext(httptrace.WithClientTrace(ctx, trace)))
		if err == nil {
			_ = res.Body.Close()
		}
		cancel()
	}
}
