package smockron

const (
	// sendQueue and receiveQueue are ZeroMQ's own queues, in messages, for each peer;
	// orderQueue is that of a master's orders, which has room for all that a resync
	// has it tell.
	sendQueue, receiveQueue, orderQueue = 4096, 4096, 131_072
)

// DefaultQueue is how much accounting waits at most, at either end, unless it is told
// otherwise: a tenth of a second of what a master can take.
const DefaultQueue = 16_384

// Wire is what the sockets of one program have in common. It is closed after all of them.
type Wire struct{ wire *wire }

// OpenWire makes a Wire. The error is ErrNoZeroMQ in a program without it.
func OpenWire() (*Wire, error) {
	w, err := newWire()
	if err != nil {
		return nil, err
	}
	return &Wire{w}, nil
}

// Close ends it.
func (w *Wire) Close() { w.wire.close() }

// Accounts is where a master takes accounting in. It is for the goroutine that opened it.
type Accounts struct{ socket *socket }

// Accounts listens at an address for the accounting of all domains.
func (w *Wire) Accounts(address string) (*Accounts, error) {
	s, err := w.wire.subscriber(receiveQueue, true, address, "")
	if err != nil {
		return nil, err
	}
	return &Accounts{s}, nil
}

// Receive returns the frames of the next message, as new memory; nil if none came for a
// while, or as the Wire ends.
func (a *Accounts) Receive() [][]byte {
	frames, err := a.socket.receive()
	if err != nil {
		return nil
	}
	return frames
}

// Close ends it.
func (a *Accounts) Close() { a.socket.close() }

// Control is where a master tells gatekeepers. It is for the goroutine that opened it, and
// never waits: what a gatekeeper has no room for is dropped.
type Control struct {
	socket  *socket
	message message
}

// Control listens at an address for gatekeepers.
func (w *Wire) Control(address string) (*Control, error) {
	s, err := w.wire.publisher(orderQueue, true, address, true)
	if err != nil {
		return nil, err
	}
	return &Control{socket: s}, nil
}

// DelayUntil has an identifier of a domain wait until then, in milliseconds since 1970.
func (c *Control) DelayUntil(domain, identifier string, until int64) {
	_ = c.socket.send(c.message.delayUntil(domain, identifier, until)) // fails only if it is closed
}

// ResyncStart says that what comes until ResyncDone is all that the master knows of a domain.
func (c *Control) ResyncStart(domain string) {
	_ = c.socket.send(c.message.command(domain, resyncStart))
}

// ResyncDone says that all was told that the master knows of a domain.
func (c *Control) ResyncDone(domain string) {
	_ = c.socket.send(c.message.command(domain, resyncDone))
}

// PollSubscribers tells which gatekeepers came and went since it was last asked, each with
// its domain.
func (c *Control) PollSubscribers(each func(domain []byte, came bool)) {
	for {
		frames, err := c.socket.poll()
		if err != nil || frames == nil {
			return
		}
		if frame := frames[0]; len(frame) > 0 {
			if domain, err := parseDomain(frame[1:]); err == nil {
				each(domain, frame[0] == 1)
			}
		}
	}
}

// Close ends it.
func (c *Control) Close() { c.socket.close() }
