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
	// sendQueue and receiveQueue are ZeroMQ's own queues, in messages, for each peer;
	// orderQueue is that of a master's orders, which has room for all that a resync
	// has it tell.
	sendQueue, receiveQueue, orderQueue = 4096, 4096, 131_072
)

// DefaultQueue is how much accounting waits at most, at either end, unless it is told
// otherwise: a tenth of a second of what a master can take.
const DefaultQueue = 16_384

// Accounts is where a master takes accounting in. It is for the goroutine that opened it.
type Accounts struct{ socket *socket }

// Accounts listens at an address for the accounting of all domains.
func (w *Wire) Accounts(address string) (*Accounts, error) {
	s, err := w.subscriber(receiveQueue, true, address, "")
	if err != nil {
		return nil, err
	}
	return &Accounts{s}, nil
}

// Receive returns the frames of the next message, as new memory; nil if none came for a while,
// or the Wire ended.
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
	s, err := w.publisher(orderQueue, true, address, true)
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

// ResyncDone ends what the master knows of a domain.
func (c *Control) ResyncDone(domain string) {
	_ = c.socket.send(c.message.command(domain, resyncDone))
}

// Carry has all that asked for it get a packet.
func (c *Control) Carry(p []byte) {
	_ = c.socket.send(c.message.packet(p)) // fails only if it is closed
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

// Statuses of accounting, and commands of both directions.
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

// PacketDomain is the domain of packets (package known), which masters of tempomat carry from each
// gatekeeper to all that subscribed to it. No domain of a configuration has a space.
const PacketDomain = "tempomat packets"

const (
	// MaxIdentifier is the longest identifier that is taken, in bytes.
	MaxIdentifier = 1024
	// maxDigits keeps times within what an integer holds.
	maxDigits = 15
	// maxInfo is how much of what is for logs is kept, in bytes.
	maxInfo  = 512
	costName = "cost_ms="
	maxCost  = 24 * time.Hour
)

// What can be wrong with a message, in a word that a master counts it by.
var (
	errShort      = errors.New("short")      // too few frames
	errDomain     = errors.New("domain")     // none: empty, or with a NUL inside
	errStatus     = errors.New("status")     // none that is known
	errTime       = errors.New("time")       // one that is no whole number of milliseconds
	errIdentifier = errors.New("identifier") // too long
	errCommand    = errors.New("command")    // none that is known
)

// Accounting is a message of a gatekeeper: what became of one request.
type Accounting struct {
	Domain     []byte
	Event      limiter.Event // Accepted, Delayed or Rejected
	Identifier []byte        // any bytes, also none
	Received   int64         // when the request came, in milliseconds since 1970
	Until      int64         // of Delayed: when it was let go
	Cost       time.Duration // CPU time; valid if HasCost
	HasCost    bool
	Info       []byte // what the gatekeeper says for logs, the cost included; no more than maxInfo of it
	Resync     bool   // a request for all that the master knows of Domain, and nothing else
	Packet     []byte // of PacketDomain, and nothing else
}

// ParseAccounting reads the frames of a message. What it returns refers to them. Its error is a
// word for what is wrong.
//
// Frame 4 of other statuses than DELAYED and frames beyond 5 mean nothing.
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
		a.Info = frames[5][:min(len(frames[5]), maxInfo)]
	}
	return a, nil
}

// parsePacket reads the frames of a packet: the domain, PACKET, and what is carried.
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

// Words are what it says for logs, except for the cost.
func (a *Accounting) Words() []byte {
	rest := a.Info
	if a.HasCost {
		var words [][]byte
		for word := range bytes.FieldsSeq(rest) {
			if !bytes.HasPrefix(word, []byte(costName)) {
				words = append(words, word)
			}
		}
		rest = bytes.Join(words, []byte{' '})
	}
	return bytes.TrimSpace(rest)
}

// parseDomain takes the NUL off that makes a domain a topic no other begins with.
// The originals' master does not ask for it.
func parseDomain(frame []byte) ([]byte, error) {
	name := bytes.TrimSuffix(frame, []byte{0})
	if len(name) == 0 || len(name) > MaxIdentifier || bytes.IndexByte(name, 0) >= 0 {
		return nil, errDomain
	}
	return name, nil
}

// ParseTime reads milliseconds since 1970, in decimal digits and nothing else: a
// sign, a point or an exponent made the first master forget what it knew.
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

// parseCost finds the cost among the words of a log-info frame.
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

// appendCost formats a cost with microseconds, if it has any.
func appendCost(b []byte, cost time.Duration) []byte {
	us := max(0, cost.Microseconds())
	b = strconv.AppendInt(append(b, costName...), us/1000, 10)
	if rest := us % 1000; rest != 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return b
}

// message is a multipart message that is formatted in place, again and again.
type message struct {
	frames [6][]byte
}

// accounting formats what became of a request: always six frames. cost is below
// zero if none is told.
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

// delayUntil formats an order to wait: always four frames, because more crash the nginx
// gatekeeper, and an integer, because anything else frees the identifier in the Node gatekeeper
// for good.
func (m *message) delayUntil(domain, identifier string, ms int64) [][]byte {
	m.setTopic(domain)
	m.set(1, delayUntil)
	m.set(2, identifier)
	m.frames[3] = strconv.AppendInt(m.frames[3][:0], ms, 10)
	return m.frames[:4]
}

// command formats one of the two-frame messages of a resync.
func (m *message) command(domain, name string) [][]byte {
	m.setTopic(domain)
	m.set(1, name)
	return m.frames[:2]
}

// packet formats what is carried, the same in both directions.
func (m *message) packet(p []byte) [][]byte {
	m.setTopic(PacketDomain)
	m.set(1, packet)
	m.frames[2] = append(m.frames[2][:0], p...)
	return m.frames[:3]
}

// setTopic makes the first frame of a domain in its wire format.
func (m *message) setTopic(domain string) {
	m.frames[0] = append(append(m.frames[0][:0], domain...), 0)
}

func (m *message) set(i int, text string) { m.frames[i] = append(m.frames[i][:0], text...) }

// topicOf is a domain as it travels.
func topicOf(domain string) string { return domain + "\x00" }

// control is a message of a master.
type control struct {
	domain     []byte
	command    string // DELAY_UNTIL, RESYNCSTART, RESYNCDONE or PACKET
	identifier []byte
	until      int64
	packet     []byte
}

// parseControl reads the frames of a message. Frames beyond the fourth mean
// nothing.
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

// ErrNoZeroMQ is what a program gets for every socket that was built without cgo.
var ErrNoZeroMQ = errors.New("this program was built without cgo, and so without ZeroMQ: Smockron is not in it; install the package tempomat-smockron, or build it with CGO_ENABLED=1")

// Addresses are the two of a master, in ZeroMQ's form.
type Addresses struct{ Accounting, Control string }
