package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter/smockron/master"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/host"
)

// The admin API: JSON over HTTP on a unix socket, for tempomat-doctor.
type (
	// statusReply answers GET /v1/master.
	statusReply struct {
		Version         int     `json:"version"`
		Release         string  `json:"release"`
		Uptime          float64 `json:"uptime"` // seconds
		Reloads         uint64  `json:"reloads"`
		ReloadsRejected uint64  `json:"reloadsRejected"`
		master.State
	}
	// identifiersReply answers GET /v1/identifiers?domain=…&limit=…
	identifiersReply struct {
		Version int                      `json:"version"`
		Domain  string                   `json:"domain"`
		Rows    []master.IdentifierState `json:"rows"` // who waits longest first
	}
)

// maxIdentifiers is how many are told of in one answer.
const maxIdentifiers = 10_000

// listenAdmin listens where the doctor asks; nil without: the master goes on all the same.
func (s *server) listenAdmin(ctx context.Context, address string) net.Listener {
	if address == "" {
		return nil
	}
	l, err := host.ListenUnix(ctx, strings.TrimPrefix(address, "unix:"))
	if err != nil {
		s.log.Error("no admin API", zap.String("admin.listen", address), zap.Error(err))
		return nil
	}
	return l
}

func (s *server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/master", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.status()) })
	mux.HandleFunc("GET /v1/identifiers", s.identifiers)
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.reload(); err != nil {
			answer(w, http.StatusUnprocessableEntity, api.ErrorReply{Version: api.Version, Error: err.Error()})
			return
		}
		answer(w, http.StatusOK, s.status())
	})
	return mux
}

func (s *server) status() statusReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	return statusReply{
		Version: api.Version, Release: version, Uptime: time.Since(s.started).Seconds(),
		Reloads: s.reloads, ReloadsRejected: s.rejected, State: s.master.State(),
	}
}

func (s *server) identifiers(w http.ResponseWriter, r *http.Request) {
	limit := 20
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxIdentifiers {
			answer(w, http.StatusBadRequest, api.ErrorReply{Version: api.Version, Error: "limit must be a number from 1 to 10000"})
			return
		}
		limit = n
	}
	domain := r.FormValue("domain")
	rows, known := s.master.Identifiers(time.Now(), domain, limit)
	if !known {
		answer(w, http.StatusNotFound, api.ErrorReply{Version: api.Version, Error: "there is no domain " + strconv.Quote(domain)})
		return
	}
	answer(w, http.StatusOK, identifiersReply{api.Version, domain, rows})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the doctor has gone: nobody to tell
}
