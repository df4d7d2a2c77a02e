package smockron

import "errors"

// ErrNoZeroMQ is what a program gets for every socket that was built without cgo.
var ErrNoZeroMQ = errors.New("this program was built without cgo, and so without ZeroMQ: Smockron is not in it; install the package tempomat-smockron, or build it with CGO_ENABLED=1")

// Addresses are the two of a master, as ZeroMQ takes them.
type Addresses struct{ Accounting, Control string }
