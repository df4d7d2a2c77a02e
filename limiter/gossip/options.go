package gossip

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/hashicorp/memberlist"
)

// Options say how a Sharer finds its peers. The zero value of all but Listen is a
// good one.
type Options struct {
	// Listen is the address, host:port, for both UDP and TCP.
	Listen string
	// Advertise is the address at which peers reach it, if that is another one. It is
	// what tells the sidecar from the others then; else the host's name and the port do.
	Advertise string
	// Join are addresses of peers, host:port, of which one that is alive is enough.
	// A host may be a DNS name of several addresses. They are tried again as long as
	// they are no members, so that a fleet that was split finds together.
	Join []string
	// Keys encrypt what is sent, by AES: 16, 24 or 32 bytes each. The first one
	// encrypts, each of them decrypts. Without any, whoever reaches the port may
	// read, and invent debts.
	Keys [][]byte
	// Logf is told of what goes wrong with the membership; nil: nobody is.
	Logf func(format string, arguments ...any)

	name string                                        // by which members know it
	plug func() (memberlist.NodeAwareTransport, error) // in tests: a network that can be cut
	kill bool                                          // in tests: end without a word
}

// complete finds the name, and says what can not be.
func (o Options) complete() (Options, error) {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return o, fmt.Errorf("listen: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		name = host
	}
	o.name = net.JoinHostPort(name, strconv.Itoa(port))
	if o.Advertise != "" {
		if _, _, err := splitAddress(o.Advertise); err != nil {
			return o, fmt.Errorf("advertise: %w", err)
		}
		o.name = o.Advertise
	}
	for i, k := range o.Keys {
		if err := memberlist.ValidateKey(k); err != nil {
			return o, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	return o, nil
}

func splitAddress(s string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, err
	}
	p, err := strconv.ParseUint(number, 10, 16)
	if err != nil || p == 0 {
		return "", 0, fmt.Errorf("%q is no port", number)
	}
	return host, int(p), nil
}

var errKeys = errors.New("encryption is on from the start, with at least one key, or never")
