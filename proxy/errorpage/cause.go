package errorpage

import "net/http"

// Cause is why a request is not served.
type Cause uint8

// The causes.
const (
	DebtOfAddress Cause = iota // the client's address owes
	DebtOfNetwork              // the network that it lies in does
	DebtOfProgram              // its User-Agent does
	DebtOfGroup                // a class of the administrator's does
	DebtOfDomain               // the same, with the status that other gatekeepers give
	ClientFull                 // too many requests of the client wait
	OverLimit                  // it made more requests than a limit allows
	ServerFull                 // too many requests wait
	Busy                       // its turn did not come in time
	BusyOwn                    // the same, and the client has what one may have
	BackendDown                // the backend does not answer
	BackendSlow                // it takes too long
	Circle                     // it is this proxy
	Unsound                    // the request is none of HTTP
	UnsoundBody                // its body is not
	Incomplete                 // the rest of it did not come
	WrongMethod                // the proxy does not do that
)

// causes is how many there are.
const causes = int(WrongMethod) + 1

// Status is the status of the answer.
func (c Cause) Status() int {
	return [causes]int{
		DebtOfAddress: http.StatusTooManyRequests, DebtOfNetwork: http.StatusTooManyRequests,
		DebtOfProgram: http.StatusTooManyRequests, DebtOfGroup: http.StatusTooManyRequests,
		DebtOfDomain: http.StatusServiceUnavailable,
		ClientFull:   http.StatusTooManyRequests, OverLimit: http.StatusTooManyRequests,
		ServerFull: http.StatusServiceUnavailable, Busy: http.StatusServiceUnavailable, BusyOwn: http.StatusServiceUnavailable,
		BackendDown: http.StatusBadGateway, BackendSlow: http.StatusGatewayTimeout, Circle: http.StatusLoopDetected,
		Unsound: http.StatusBadRequest, UnsoundBody: http.StatusBadRequest,
		Incomplete: http.StatusRequestTimeout, WrongMethod: http.StatusMethodNotAllowed,
	}[c]
}

// String is the name that templates know the cause by.
func (c Cause) String() string {
	return [causes]string{
		"debt-of-address", "debt-of-network", "debt-of-program", "debt-of-group", "debt-of-domain", "client-full", "over-limit",
		"server-full", "busy", "busy-own", "backend-down", "backend-slow", "circle", "unsound", "unsound-body", "incomplete", "wrong-method",
	}[c]
}

// waits tells whether the answer says when to try again.
func (c Cause) waits() bool { return c <= BusyOwn }

// namesClient tells whether the page may name the client's own address or network.
func (c Cause) namesClient() bool { return c == DebtOfAddress || c == DebtOfNetwork }
