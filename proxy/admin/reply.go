package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/spool"
)

// The documents of the admin API. Version is AdminVersion in all of them.
type (
	// ErrorReply is the answer to whatever did not work.
	ErrorReply struct {
		Version int    `json:"version"`
		Error   string `json:"error"`
	}
	// OKReply answers health, ready and reload.
	OKReply struct {
		Version int    `json:"version"`
		Status  string `json:"status"` // "ok"
	}
	// ClassesReply answers GET /v1/classes.
	ClassesReply struct {
		Version int          `json:"version"`
		Classes []ClassReply `json:"classes"` // in configured order
	}
	// ClassReply is one class and what each of its keys may use.
	ClassReply struct {
		Name   string  `json:"name"`
		CPUs   float64 `json:"cpus"`  // CPU-seconds earned per second
		Burst  float64 `json:"burst"` // most CPU-seconds saved up
		Cap    bool    `json:"cap"`
		Shadow bool    `json:"shadow"`
		Keys   int     `json:"keys"` // keys remembered at this moment
	}
	// BucketsReply answers GET /v1/buckets.
	BucketsReply struct {
		Version int           `json:"version"`
		Class   string        `json:"class"` // as configured; "": all
		Sort    string        `json:"sort"`
		Total   int           `json:"total"` // keys that there are; Rows has the first of them
		Rows    []limiter.Row `json:"rows"`
	}
	// KeyReply answers GET /v1/key.
	KeyReply struct {
		Version int         `json:"version"`
		Row     limiter.Row `json:"row"`
	}
	// GateReply answers GET /v1/gate: how the queue before the backend stands.
	GateReply struct {
		Version int `json:"version"`
		limiter.GateState
	}

	// ShareReply answers GET /v1/share: how the sidecar shares its accounts.
	ShareReply struct {
		Version int    `json:"version"`
		Kind    string `json:"kind"` // as configured: none, smockron, …
		// Trouble is why nothing is shared, though it should be.
		Trouble string `json:"trouble,omitempty"`
		State   any    `json:"state,omitempty"` // of that kind
	}

	// StatusReply answers GET /v1/status.
	StatusReply struct {
		Version     int               `json:"version"`
		Release     string            `json:"release"`
		Uptime      float64           `json:"uptime"` // seconds
		Mode        string            `json:"mode"`
		Held        int               `json:"held"` // requests held at this moment
		Buffer      spool.Stats       `json:"buffer"`
		Connections connlimit.Stats   `json:"connections"`
		Goroutines  int               `json:"goroutines"`
		Counters    map[string]uint64 `json:"counters"` // totals since the start
	}
)

// adminReply writes v as JSON.
func adminReply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a number that JSON does not have, NaN
		adminFail(w, http.StatusInternalServerError, "cannot be written as JSON: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who has left needs no answer
}

// adminFail answers with an error.
func adminFail(w http.ResponseWriter, status int, text string) {
	adminReply(w, status, ErrorReply{Version: AdminVersion, Error: text})
}

// reading lets GET and HEAD pass, with the named parameters and no others:
// a misspelt one must not silently show something else.
func reading(next http.HandlerFunc, parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			wrongMethod(w, r, "GET, HEAD")
			return
		}
		for name := range r.URL.Query() {
			if !slices.Contains(parameters, name) {
				adminFail(w, http.StatusBadRequest, fmt.Sprintf("unknown parameter %q; known: %s",
					name, listOrNone(parameters)))
				return
			}
		}
		next(w, r)
	}
}

// acting lets POST pass.
func acting(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			wrongMethod(w, r, "POST")
			return
		}
		next(w, r)
	}
}

func wrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	w.Header().Set("Allow", allow)
	adminFail(w, http.StatusMethodNotAllowed, fmt.Sprintf("%q is not for %s; allowed: %s", r.Method, r.URL.Path, allow))
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
