package smockron

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"tempomat/limiter"
	"tempomat/limiter/known"
)

const (
	// sendQueue and receiveQueue are the sizes of ZeroMQ's own queues, in messages, for each peer. orderQueue
	// is the size of the queue of a master's orders, which has room for all orders that answer a RESYNC.
	sendQueue, receiveQueue, orderQueue = 4096, 4096, 131_072
)

// MostWaiting limits the accounting messages that wait, on either side, to the number that a master can handle
// in a tenth of a second.
const MostWaiting = 16_384

// Accounts receives accounting for a master. Only the goroutine that opened it may use it.
type Accounts struct{ socket *socket }

// Accounts opens a socket at an address for the accounting of all domains.
func (w *Wire) Accounts(address string) (*Accounts, error) {
	s, err := w.subscriber(receiveQueue, true, address, "")
	if err != nil {
		return nil, err
	}
	return &Accounts{s}, nil
}

// Receive returns the frames of the next message, as newly allocated memory. It returns nil if none arrived
// for a while, or if the Wire is closed.
func (a *Accounts) Receive() [][]byte {
	frames, err := a.socket.receive()
	if err != nil {
		return nil
	}
	return frames
}

// Close closes the socket.
func (a *Accounts) Close() { a.socket.close() }

// Control sends a master's messages to gatekeepers. Only the goroutine that opened it may use it. It never
// blocks: if a gatekeeper's queue is full, a message is dropped.
type Control struct {
	socket  *socket
	message message
}

// Control opens a socket at an address to which gatekeepers connect.
func (w *Wire) Control(address string) (*Control, error) {
	s, err := w.publisher(orderQueue, true, address, true)
	if err != nil {
		return nil, err
	}
	return &Control{socket: s}, nil
}

// DelayUntil orders that an identifier of a domain must wait until a time, in milliseconds since 1970.
func (c *Control) DelayUntil(domain, identifier string, until int64) {
	_ = c.socket.send(c.message.delayUntil(domain, identifier, until)) // fails only if it is already closed
}

// ResyncStart announces that all orders of a domain follow, until ResyncDone.
func (c *Control) ResyncStart(domain string) {
	_ = c.socket.send(c.message.command(domain, resyncStart))
}

// ResyncDone announces that all orders of a domain have been sent.
func (c *Control) ResyncDone(domain string) {
	_ = c.socket.send(c.message.command(domain, resyncDone))
}

// Carry sends a packet to all gatekeepers that have subscribed to packets.
func (c *Control) Carry(p []byte) {
	_ = c.socket.send(c.message.packet(p)) // fails only if it is already closed
}

// PollSubscribers calls each for every gatekeeper that has subscribed or unsubscribed to a domain since the
// last call.
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

// Close closes the socket.
func (c *Control) Close() { c.socket.close() }

// These are the statuses in accounting messages, and the commands in both directions.
const (
	accepted    = "ACCEPTED"
	delayed     = "DELAYED"
	rejected    = "REJECTED"
	delayUntil  = "DELAY_UNTIL"
	resync      = "RESYNC"
	resyncStart = "RESYNCSTART"
	resyncDone  = "RESYNCDONE"
	packet      = "PACKET"
)

// PacketDomain is the domain of packets (package known). Tempomat's master passes each packet on to all
// gatekeepers that have subscribed to it. The names of configured domains can't contain a space.
const PacketDomain = "tempomat packets"

const (
	// MaxIdentifier is the longest accepted identifier, in bytes.
	MaxIdentifier = 1024
	// maxDigits limits the digits of a time, so it fits into an int64.
	maxDigits = 15
	costName  = "cost_ms="
	maxCost   = 24 * time.Hour
)

// These are the errors in a message. A master counts invalid messages by these words.
var (
	errShort      = errors.New("short")      // too few frames
	errDomain     = errors.New("domain")     // missing, or contains a NUL
	errStatus     = errors.New("status")     // missing or unknown
	errTime       = errors.New("time")       // not a whole number of milliseconds
	errIdentifier = errors.New("identifier") // too long
	errCommand    = errors.New("command")    // missing or unknown
)

// Accounting is a message from a gatekeeper: what happened to one request.
type Accounting struct {
	Domain     []byte
	Event      limiter.Event // Accepted, Delayed or Rejected
	Identifier []byte        // any bytes; may be empty
	Received   int64         // when the request arrived, in milliseconds since 1970
	Until      int64         // for Delayed: when the request was released
	Cost       time.Duration // CPU time; valid if HasCost
	HasCost    bool
	Resync     bool   // the message only asks for all orders of Domain
	Packet     []byte // the message only carries this packet, for PacketDomain
}

// ParseAccounting reads the frames of a message. The result uses the frames' memory. The error is one of those
// above.
//
// It ignores frame 4 unless the status is DELAYED, and all frames after frame 5.
func ParseAccounting(frames [][]byte) (a Accounting, err error) {
	if len(frames) < 2 {
		return a, errShort
	}
	if a.Domain, err = parseDomain(frames[0]); err != nil {
		return a, err
	}
	if string(frames[1]) == resync {
		a.Resync = true
		return a, nil
	}
	if string(a.Domain) == PacketDomain {
		a.Packet, err = parsePacket(frames)
		return a, err
	}
	if len(frames) < 5 {
		return a, errShort
	}
	switch string(frames[1]) {
	case accepted:
		a.Event = limiter.Accepted
	case delayed:
		a.Event = limiter.Delayed
	case rejected:
		a.Event = limiter.Rejected
	default:
		return a, errStatus
	}
	if a.Identifier = frames[2]; len(a.Identifier) > MaxIdentifier {
		return a, errIdentifier
	}
	if a.Received, err = ParseTime(frames[3]); err != nil {
		return a, err
	}
	if a.Event == limiter.Delayed {
		if a.Until, err = ParseTime(frames[4]); err != nil {
			return a, err
		}
	}
	if len(frames) > 5 {
		a.Cost, a.HasCost = parseCost(frames[5])
	}
	return a, nil
}

// parsePacket reads the frames of a packet: the domain, PACKET, and the packet itself.
func parsePacket(frames [][]byte) ([]byte, error) {
	switch {
	case string(frames[1]) != packet:
		return nil, errCommand
	case len(frames) < 3 || len(frames[2]) == 0:
		return nil, errShort
	case len(frames[2]) > known.MostPacket:
		return nil, errIdentifier
	}
	return frames[2], nil
}

// parseDomain removes the NUL at the end of a domain. The NUL ensures that no topic is a prefix of another.
// The original master accepts domains without it.
func parseDomain(frame []byte) ([]byte, error) {
	name := bytes.TrimSuffix(frame, []byte{0})
	if len(name) == 0 || len(name) > MaxIdentifier || bytes.IndexByte(name, 0) >= 0 {
		return nil, errDomain
	}
	return name, nil
}

// ParseTime reads milliseconds since 1970. It allows only decimal digits, because a sign, a decimal point or an
// exponent made the first master forget an identifier's state.
func ParseTime(frame []byte) (int64, error) {
	if len(frame) == 0 || len(frame) > maxDigits {
		return 0, errTime
	}
	var ms int64
	for _, c := range frame {
		if c < '0' || c > '9' {
			return 0, errTime
		}
		ms = ms*10 + int64(c-'0')
	}
	return ms, nil
}

// parseCost finds the cost among the words of the last frame. It returns false if there is none.
func parseCost(frame []byte) (time.Duration, bool) {
	for word := range bytes.FieldsSeq(frame) {
		rest, is := bytes.CutPrefix(word, []byte(costName))
		if !is || bytes.ContainsFunc(rest, func(c rune) bool { return c != '.' && (c < '0' || c > '9') }) {
			continue
		}
		ms, err := strconv.ParseFloat(string(rest), 64)
		if cost := time.Duration(ms * float64(time.Millisecond)); err == nil && cost <= maxCost && ms < 1e9 {
			return cost, true
		}
	}
	return 0, false
}

// appendCost formats a cost in milliseconds, with three decimals if it isn't a whole number.
func appendCost(b []byte, cost time.Duration) []byte {
	us := max(0, cost.Microseconds())
	b = strconv.AppendInt(append(b, costName...), us/1000, 10)
	if rest := us % 1000; rest != 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return b
}

// message is a multipart message. Its memory is reused for the next one.
type message struct {
	frames [6][]byte
}

// accounting formats the message about one request, which always has six frames. A negative cost is omitted.
func (m *message) accounting(domain string, c limiter.Charge, status string, cost time.Duration) [][]byte {
	m.setTopic(domain)
	m.set(1, status)
	m.set(2, c.Key.ID)
	m.frames[3] = strconv.AppendInt(m.frames[3][:0], c.Received.UnixMilli(), 10)
	m.frames[4], m.frames[5] = m.frames[4][:0], m.frames[5][:0]
	if status == delayed {
		m.frames[4] = strconv.AppendInt(m.frames[4], c.Until.UnixMilli(), 10)
	}
	if cost >= 0 {
		m.frames[5] = appendCost(m.frames[5], cost)
	}
	return m.frames[:6]
}

// delayUntil formats an order to wait. It has exactly four frames, because a fifth crashes the nginx
// gatekeeper. The time is an integer, because any other value permanently exempts the identifier in the Node
// gatekeeper.
func (m *message) delayUntil(domain, identifier string, ms int64) [][]byte {
	m.setTopic(domain)
	m.set(1, delayUntil)
	m.set(2, identifier)
	m.frames[3] = strconv.AppendInt(m.frames[3][:0], ms, 10)
	return m.frames[:4]
}

// command formats a message of two frames: a domain and a command.
func (m *message) command(domain, name string) [][]byte {
	m.setTopic(domain)
	m.set(1, name)
	return m.frames[:2]
}

// packet formats a packet, which is the same in both directions.
func (m *message) packet(p []byte) [][]byte {
	m.setTopic(PacketDomain)
	m.set(1, packet)
	m.frames[2] = append(m.frames[2][:0], p...)
	return m.frames[:3]
}

// setTopic sets the first frame to a domain.
func (m *message) setTopic(domain string) {
	m.frames[0] = append(append(m.frames[0][:0], domain...), 0)
}

func (m *message) set(i int, text string) { m.frames[i] = append(m.frames[i][:0], text...) }

// topicOf returns the topic of a domain in messages.
func topicOf(domain string) string { return domain + "\x00" }

// control is a parsed message from a master.
type control struct {
	domain     []byte
	command    string // DELAY_UNTIL, RESYNCSTART, RESYNCDONE or PACKET
	identifier []byte
	until      int64
	packet     []byte
}

// parseControl reads the frames of a message. It ignores frames after the fourth.
func parseControl(frames [][]byte) (c control, err error) {
	if len(frames) < 2 {
		return c, errShort
	}
	if c.domain, err = parseDomain(frames[0]); err != nil {
		return c, err
	}
	switch string(frames[1]) {
	case resyncStart, resyncDone:
		c.command = string(frames[1])
		return c, nil
	case packet:
		c.command = packet
		c.packet, err = parsePacket(frames)
		return c, err
	case delayUntil:
		c.command = delayUntil
	default:
		return c, errCommand
	}
	if len(frames) < 4 {
		return c, errShort
	}
	if c.identifier = frames[2]; len(c.identifier) > MaxIdentifier {
		return c, errIdentifier
	}
	c.until, err = ParseTime(frames[3])
	return c, err
}

// ErrNoZeroMQ is the error that OpenWire returns in a program that was built without cgo.
var ErrNoZeroMQ = errors.New("this program was built without cgo, and therefore without ZeroMQ and Smockron: install the package tempomat-smockron, or build with CGO_ENABLED=1")

// Addresses are the two addresses of a master, in ZeroMQ's notation.
type Addresses struct{ Accounting, Control string }
