package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"tempomat/config/form"
)

// masterPort is a master's port for accounting. Control is on the next one.
const masterPort = 10004

// MasterAddress is where a Smockron master listens, as ZeroMQ takes it.
type MasterAddress struct{ Accounting, Control string }

// masterAddress is where a master listens, given by its address for accounting.
func masterAddress() form.Scalar[MasterAddress] {
	return form.Scalar[MasterAddress]{
		Type: "address", Allowed: "`tcp://host:port`, `host:port`, or `host` (port 10004; control is on the next one)",
		Schema: form.Schema{"type": "string"},
		Parse:  parseMasterAddress, Format: func(a MasterAddress) string { return a.Accounting },
	}
}

// parseMasterAddress reads what the originals take for a master: [scheme://]host[:port],
// scheme tcp and port 10004 if they are not given. Control is on the next port, or
// at the same path with .control behind it for the scheme ipc.
func parseMasterAddress(text string) (a MasterAddress, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "tcp", text
	}
	switch {
	case scheme == "ipc" && strings.HasPrefix(rest, "/"):
		return MasterAddress{text, text + ".control"}, nil
	case scheme != "tcp" || rest == "" || strings.ContainsAny(rest, "/ "):
		return a, errors.New("must be host, host:port or tcp://host:port")
	}
	host, port := rest, masterPort
	if h, p, err := net.SplitHostPort(rest); err == nil {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65534 {
			return a, errors.New("must have a port from 1 to 65534; control is on the next one")
		}
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" {
		host = "*"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return MasterAddress{fmt.Sprintf("tcp://%s:%d", host, port), fmt.Sprintf("tcp://%s:%d", host, port+1)}, nil
}
