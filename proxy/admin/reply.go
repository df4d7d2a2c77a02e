package admin

import (
	"encoding/json"
	"net/http"
	"strings"

	"tempomat/proxy/admin/api"
)

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a number that JSON does not have, NaN
		fail(w, http.StatusInternalServerError, "cannot be written as JSON: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who has left needs no answer
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, text string) {
	answer(w, status, api.ErrorReply{Version: api.Version, Error: text})
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
