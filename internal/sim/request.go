package sim

import (
	"net/http"

	"tempomat/proxy/lifecycle"
)

// request is one on its way.
type request struct {
	client *Client
	page   Page
	http   *http.Request
	cpu    float64 // what it will cost; nobody knows
	asked  float64 // when its client began to send it

	// at the backend
	stage  stage
	doneAt float64
	since  float64 // when it began to compute
	had    float64 // of the CPUs, in seconds, as was last read
	queued float64 // the same of what it waited for them
	step   int     // how far it has stepped down
	index  int     // among those that have stepped down as far
	holds  int     // how often it began or ended to hold its worker without computing
	then   func()  // what comes after that
	broken bool    // its connection was closed before all of it had come

	// at the proxy
	lifecycle.Life
	running bool
	begun   bool    // its answer has
	gone    bool    // its client left
	spooled float64 // bytes

	// at the client
	answer func(status int, header http.Header) // it begins
	over   func()                               // nothing more comes
}

// takes is for how many seconds so many bytes are on the way to or from the
// client.
func (r *request) takes(bytes float64) float64 {
	if r.client.Speed == 0 {
		return 0
	}
	return max(0, bytes/r.client.Speed)
}

// uploading is for how many more seconds the body comes.
func (r *request) uploading(now float64) float64 {
	return max(0, r.asked+r.takes(r.page.Upload)-now)
}

// answer takes down one that the proxy gives itself. It has no body.
type answer struct {
	status int
	header http.Header
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
