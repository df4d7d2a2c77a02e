package gossip

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// Defaults of Options.
const (
	DefaultEpoch          = 100 * time.Millisecond
	DefaultHistory        = 64 // epochs
	DefaultMaxSkew        = 2 * time.Second
	DefaultBytesPerSecond = 1 << 20
	DefaultOutbox         = 1 << 14
)

// Options say how a Sharer finds its peers and how much it tells them. The zero
// value of all but Listen is a good one.
type Options struct {
	// Name tells the node from the others; two must not have the same. Empty: the
	// host's name and the port.
	Name string
	// Listen is the address, host:port, for both UDP and TCP.
	Listen string
	// Advertise is the address at which peers reach it, if that is another one.
	Advertise string
	// Join are addresses of peers, host:port, of which one that is alive is enough.
	// A host may be a DNS name of several addresses. They are tried again as long as
	// they are no members, so that a fleet that was split finds together.
	Join []string
	// JoinFile names a file with more of them, one in each line; it is read anew
	// each time. Empty lines and those that begin with # mean nothing.
	JoinFile string
	// Keys encrypt what is sent, by AES: 16, 24 or 32 bytes each. The first one
	// encrypts, each of them decrypts. Without any, whoever reaches the port may
	// read, and invent debts.
	Keys [][]byte
	// Epoch is how often totals are told, 10 ms to 1 s, the same everywhere at best.
	Epoch time.Duration
	// History is for how many epochs a total can still be asked for and charged, at
	// most 256.
	History int
	// MaxSkew is how far a peer's clock may be off for its figures to count.
	MaxSkew time.Duration
	// BytesPerSecond bounds what is sent to all peers together, but for membership
	// and some hundred bytes in each epoch. The lightest keys wait if it is reached.
	BytesPerSecond int
	// Outbox is how many charges can wait for the next quarter of an epoch.
	Outbox int
	// Logf is told of what goes wrong with the membership; nil: nobody is.
	Logf func(format string, arguments ...any)

	plug func() (memberlist.NodeAwareTransport, error) // in tests: a network that can be cut
	kill bool                                          // in tests: end without a word
}

// complete fills in the defaults, and says what can not be.
func (o Options) complete() (Options, error) {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return o, fmt.Errorf("listen: %w", err)
	}
	if o.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			name = host
		}
		o.Name = net.JoinHostPort(name, strconv.Itoa(port))
	}
	if o.Advertise != "" {
		if _, _, err := splitAddress(o.Advertise); err != nil {
			return o, fmt.Errorf("advertise: %w", err)
		}
	}
	orDefault(&o.Epoch, DefaultEpoch)
	orDefault(&o.History, DefaultHistory)
	orDefault(&o.MaxSkew, DefaultMaxSkew)
	orDefault(&o.BytesPerSecond, DefaultBytesPerSecond)
	orDefault(&o.Outbox, DefaultOutbox)
	switch {
	case o.Epoch < 10*time.Millisecond || o.Epoch > time.Second:
		return o, errors.New("an epoch lasts 10 ms to 1 s")
	case o.History < 2 || o.History > 256:
		return o, errors.New("a history has 2 to 256 epochs")
	case o.MaxSkew < 0:
		return o, errors.New("the greatest skew can not be negative")
	case o.BytesPerSecond < 4096:
		return o, errors.New("less than 4096 bytes per second tell nothing")
	case o.Outbox < 0:
		return o, errors.New("an outbox can not be smaller than nothing")
	}
	for i, k := range o.Keys {
		if err := memberlist.ValidateKey(k); err != nil {
			return o, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	return o, nil
}

func orDefault[T comparable](x *T, d T) {
	if *x == *new(T) {
		*x = d
	}
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

func (o *Options) rules() rules {
	return rules{
		epoch: o.Epoch, history: time.Duration(o.History) * o.Epoch,
		maxSkew: o.MaxSkew, bytesPerSecond: o.BytesPerSecond,
	}
}

var errKeys = errors.New("encryption is on from the start, with at least one key, or never")
