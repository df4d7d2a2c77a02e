package proxy

import "net/http"

// wantsRobots tells whether a request is for what tells robots where to go, and that is ours
// to answer.
func (x *exchange) wantsRobots() bool {
	r := x.request
	return x.policy.RobotsTxt != nil && r.URL.Path == "/robots.txt" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// sendRobots answers it. Nothing is charged, as the backend does nothing for it.
func (x *exchange) sendRobots() {
	h := x.writer.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "max-age=3600") // robots keep it for a day at most (RFC 9309, 2.4)
	h.Set("X-Content-Type-Options", "nosniff")
	x.writer.WriteHeader(http.StatusOK)
	_, _ = x.writer.Write(x.policy.RobotsTxt) // the client has gone: nobody to tell
}
