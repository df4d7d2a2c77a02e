package admin

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/admin/dashboard"
)

// mostBody is the most bytes that a request may bring.
const mostBody = 4 << 10

// guard stands before the API and the page. It refuses requests that a page of another site
// sent, and those that bring too much. Over TCP it asks for the token, too; only the page
// itself can be had without.
type guard struct {
	next   http.Handler // the API
	page   *dashboard.Page
	access *Access
	socket bool // requests come over the unix socket
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	if refusal := g.refuse(r); refusal != nil {
		refusal.answer(w)
		return
	}
	if g.page.Has(r.URL.Path) {
		g.page.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == accessPath {
		reading(g.tellAccess)(w, r)
		return
	}
	if refusal := g.refuseUse(r); refusal != nil {
		refusal.answer(w)
		return
	}
	body, refusal := readBody(w, r)
	if refusal != nil {
		refusal.answer(w)
		return
	}
	r.Body = body
	g.next.ServeHTTP(w, r)
}

// tellAccess lets the page know whether it has to ask for the token, before it is denied
// anything.
func (g *guard) tellAccess(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, api.AccessReply{Version: api.Version, Token: !g.socket})
}

// refusal is why a request is not answered.
type refusal struct {
	status int
	text   string
}

func (f *refusal) answer(w http.ResponseWriter) {
	switch f.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="tempomat"`)
	case http.StatusRequestEntityTooLarge:
		w.Header().Set("Connection", "close") // what else is sent is not read
	}
	fail(w, f.status, f.text)
}

// refuse is what holds for the page, too.
func (g *guard) refuse(r *http.Request) *refusal {
	switch {
	case !g.access.isOurs(r.Host, g.socket):
		return &refusal{status: http.StatusMisdirectedRequest,
			text: fmt.Sprintf("the Host %q is none of ours: ask for an address or localhost, or name it in admin.hosts", r.Host)}
	case r.ContentLength > mostBody:
		return &refusal{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body has more than %d bytes", mostBody)}
	}
	return nil
}

// refuseUse is what holds for the API.
func (g *guard) refuseUse(r *http.Request) *refusal {
	if isCrossSite(r) {
		return &refusal{status: http.StatusForbidden, text: "a page of another site sent this (Origin, Sec-Fetch-Site)"}
	}
	acts := r.Method != http.MethodGet && r.Method != http.MethodHead
	// Who reaches the socket may do everything with the doctor; but a page there may have
	// been opened for somebody else to look at.
	if !g.socket || acts && isFromBrowser(r) {
		if f := g.refuseToken(r); f != nil {
			return f
		}
	}
	if acts && (!g.socket || isFromBrowser(r)) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" {
			return &refusal{status: http.StatusForbidden, text: "the Content-Type must be application/json"}
		}
	}
	return nil
}

// refuseToken refuses requests without the right token. Wrong ones are not counted: a token of 16
// characters or more is not found by guessing, and a count by address would keep out the
// administrator who shares the address of whoever guesses.
func (g *guard) refuseToken(r *http.Request) *refusal {
	token := bearer(r)
	switch {
	case !g.access.Granted():
		return &refusal{status: http.StatusUnauthorized, text: "there is no token to let anybody in: name its file in admin.token; if it is named, the log says what is wrong with it"}
	case token == "":
		return &refusal{status: http.StatusUnauthorized, text: "the token is missing: send Authorization: Bearer with what admin.token holds"}
	case !g.access.isRight(token):
		return &refusal{status: http.StatusUnauthorized, text: "the token is wrong"}
	}
	return nil
}

// readBody reads what a request brings, if its length was not told: a few kilobytes.
func readBody(w http.ResponseWriter, r *http.Request) (io.ReadCloser, *refusal) {
	if r.Body == nil || r.Body == http.NoBody {
		return http.NoBody, nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body has more than %d bytes", mostBody)}
	case err != nil:
		return nil, &refusal{status: http.StatusBadRequest, text: "the body broke off"}
	}
	return io.NopCloser(strings.NewReader(string(text))), nil
}
