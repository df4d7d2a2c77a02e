package h2bound

import "time"

// bounds follows what goes over one connection, and tells when it is to be closed. It
// is told the time that has passed since the connection began.
type bounds struct {
	preface int // bytes of it that have come
	client  scanner
	server  scanner

	streams streams
	newest  uint32 // the highest stream that the client has opened
	header  struct{ pieces, bytes int }
	window  int // of the connection, in bytes: how much the server may send
	sent    int // bytes that have not earned a WINDOW_UPDATE yet

	resets, sessions, control, windows, small, long budget

	address *address // the client's; nil: it is bounded by itself only
	began   time.Time
}

// newBounds makes the bounds of a connection that carries so many clients.
func newBounds(clients int) *bounds {
	limit := func(perSecond, burst, most int) budget {
		return newBudget(perSecond*clients, burst*clients, most*clients)
	}
	return &bounds{
		window:   firstWindow,
		resets:   limit(resetsPerSecond, mostResets, 0),
		sessions: limit(sessionsPerSecond, mostSessions, 0),
		control:  limit(controlPerSecond, mostControl, savedControl),
		windows:  limit(windowsPerSecond, mostWindows, savedWindows),
		small:    limit(smallDataPerSecond, mostSmallData, savedSmallData),
		long:     limit(headerPerSecond, mostHeaderBytes, 0),
	}
}

// read is told what the client has sent, in order. It is false if that is not HTTP/2.
// After a flood the connection is to be closed.
func (b *bounds) read(now time.Duration, p []byte) (isHTTP2 bool, why Flood) {
	for ; b.preface < len(preface); b.preface++ {
		if len(p) == 0 {
			return true, ""
		}
		if p[0] != preface[b.preface] {
			return false, ""
		}
		p = p[1:]
	}
	for len(p) > 0 {
		f, rest, ok := b.client.next(p)
		if ok {
			if why := b.fromClient(now, f); why != "" {
				return true, why
			}
		}
		p = rest
	}
	return true, ""
}

// pause is how long nothing more is to be read from the client.
func (b *bounds) pause(now time.Duration) time.Duration { return b.small.late(now) }

// write is told what the server has sent, or is about to.
func (b *bounds) write(now time.Duration, p []byte) Flood {
	if b.preface < len(preface) {
		return "" // no HTTP/2 yet
	}
	for len(p) > 0 {
		f, rest, ok := b.server.next(p)
		if ok {
			if why := b.fromServer(now, f); why != "" {
				return why
			}
		}
		p = rest
	}
	return ""
}

func (b *bounds) fromClient(now time.Duration, f frame) Flood {
	switch f.kind {
	case data:
		return b.data(now, f)
	case headers:
		return b.headers(now, f)
	case continuation:
		return b.continuation(now, f)
	case resetStream:
		if b.streams.find(f.stream) == nil {
			return charge(&b.control, now, 1, Control)
		}
		return b.reset(now, f.stream)
	case windowUpdate:
		return b.windowUpdate(now, f)
	case settings:
		if f.acknowledges() {
			return charge(&b.control, now, 1, Control) // net/http closes if it did not ask
		}
		return charge(&b.sessions, now, 1, Sessions)
	case goAway:
		return charge(&b.sessions, now, goAwayCosts, Sessions)
	default:
		return charge(&b.control, now, 1, Control)
	}
}

// headers looks at a request, at its trailer, or at what has the server reset it.
func (b *bounds) headers(now time.Duration, f frame) Flood {
	b.header.pieces, b.header.bytes = 0, 0
	if why := b.block(now, f); why != "" {
		return why
	}
	if f.stream > b.newest {
		b.newest = f.stream
		b.control.earn(controlEarned)
		b.windows.earn(windowsEarned)
		if b.address != nil && !b.address.begin(b.began.Add(now)) {
			return Unanswered
		}
		if len(b.streams) == mostStreams {
			return b.reset(now, f.stream) // the server refuses it
		}
		b.streams = append(b.streams, stream{id: f.stream, sent: f.ends()})
		return ""
	}
	if s := b.streams.find(f.stream); s != nil {
		if s.sent {
			return b.reset(now, f.stream)
		}
		s.sent = f.ends()
	}
	return charge(&b.control, now, 1, Control)
}

func (b *bounds) continuation(now time.Duration, f frame) Flood {
	b.header.pieces++
	if why := b.block(now, f); why != "" {
		return why
	}
	return charge(&b.control, now, 1, Control)
}

// block counts the bytes of a header, which may come in several frames.
func (b *bounds) block(now time.Duration, f frame) Flood {
	free := max(0, shortHeader-b.header.bytes)
	b.header.bytes += f.length
	if b.header.pieces > mostContinuations || b.header.bytes > mostHeader {
		return HeaderTooLong
	}
	return charge(&b.long, now, max(0, f.length-free), LongHeaders)
}

func (b *bounds) data(now time.Duration, f frame) Flood {
	s := b.streams.find(f.stream)
	switch {
	case s != nil && s.sent:
		return b.reset(now, f.stream)
	case s != nil && f.ends():
		s.sent = true
		return "" // one per request
	case f.length == 0:
		return charge(&b.control, now, 1, Control)
	case f.length < smallData:
		b.small.spend(now, 1)
	}
	return ""
}

func (b *bounds) windowUpdate(now time.Duration, f frame) Flood {
	if f.stream == 0 {
		open := b.window >= openWindow
		b.window += int(f.value)
		if open && b.windows.saved == 0 {
			return charge(&b.control, now, 1, Control)
		}
	} else if f.value == 0 && b.streams.find(f.stream) != nil {
		return b.reset(now, f.stream)
	}
	return charge(&b.windows, now, 1, Windows)
}

// reset counts a stream that was given up, or that the client makes the server reset,
// which is the same to the server.
func (b *bounds) reset(now time.Duration, id uint32) Flood {
	b.streams.close(id)
	return charge(&b.resets, now, 1, Resets)
}

func (b *bounds) fromServer(now time.Duration, f frame) Flood {
	switch f.kind {
	case data:
		b.sentData(f)
		if f.ends() {
			b.complete(f.stream)
		}
	case headers:
		if f.ends() {
			b.complete(f.stream)
		}
	case resetStream:
		return b.sentReset(now, f)
	case settings, ping:
		if !f.acknowledges() {
			b.control.earn(1) // the client has to acknowledge it
		}
	case goAway:
		return charge(&b.resets, now, 1, Resets)
	default: // what it has to send anyway
	}
	return ""
}

// complete notes that the server has done with a stream, unless the client gave it up.
func (b *bounds) complete(id uint32) {
	if b.streams.close(id) && b.address != nil {
		b.address.complete()
	}
}

// sentData notes what the server has sent, and what the client may send for that.
func (b *bounds) sentData(f frame) {
	if f.length == 0 {
		return
	}
	b.window -= f.length
	b.sent += f.length
	b.windows.earn(b.sent / bytesEarnWindow)
	b.sent %= bytesEarnWindow
	b.control.earn(controlEarned)
	b.small.earn(1)
}

// sentReset counts a reset by the server, if the client is the cause of it: that of a
// stream that is under way is the attack MadeYouReset (CVE-2025-8671). Others answer
// DATA that was on its way when the answer was complete: net/http sends one for each.
func (b *bounds) sentReset(now time.Duration, f frame) Flood {
	const noError, internalError, cancel = 0, 2, 8 // RFC 9113, 7
	switch f.value {
	case noError, internalError, cancel:
		b.complete(f.stream) // by the handler
		return ""
	}
	if b.streams.find(f.stream) == nil {
		b.small.spend(now, 1)
		return ""
	}
	return b.reset(now, f.stream)
}

// charge spends of a budget. It returns the flood if there is too little in it.
func charge(from *budget, now time.Duration, n int, why Flood) Flood {
	if from.spend(now, n) {
		return ""
	}
	return why
}
