package front

import (
	"net/http"
	"slices"
	"strings"

	"tempomat/proxy/http1"
)

// makeHead writes the head in front of what there is of the body. How the body ends is
// known then.
func (w *Response) makeHead() {
	w.mu.Lock()
	w.headMade = true
	w.mu.Unlock()
	body, memory := w.out, w.memory
	w.memory, w.out = nil, nil
	w.borrow()
	w.decide()
	h := w.r.answer
	b := http1.AppendStatus(w.out, w.status, w.reason)
	b = http1.AppendHeader(b, h, w.order, w.skips)
	if h["Date"] == nil {
		b = w.conn.server.dates.append(b)
	}
	switch {
	case w.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		if len(w.trailers) > 0 {
			b = http1.AppendField(b, "Trailer", strings.Join(w.trailers, ", "))
		}
	case w.length >= 0 && w.status != http.StatusNoContent:
		b = http1.AppendLength(b, w.length)
	}
	switch {
	case w.closes:
		b = append(b, "Connection: close\r\n"...)
	case w.r.head.Minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	if h["Upgrade"] != nil {
		b = append(b, "Connection: Upgrade\r\n"...) // who says the one has to say the other (RFC 9110, 7.8)
	}
	w.out = append(b, "\r\n"...)
	if len(body) > 0 {
		_ = w.pass(body) // an error comes again
	}
	if memory != nil {
		w.conn.server.memory.out.Put(memory)
	}
}

// decide finds out how the body will end, and whether the connection goes on.
func (w *Response) decide() {
	h := w.r.answer
	w.chunked = w.length < 0 && !w.bodyless && w.r.head.Minor > 0
	if w.endsBody() {
		w.closes = true
		w.conn.resets(true)
	}
	if hasClose(h["Connection"]) || w.r.body.isUnread() {
		w.closes = true
	}
	if w.chunked {
		for _, line := range h["Trailer"] {
			for name := range strings.SplitSeq(line, ",") {
				w.trailers = append(w.trailers, strings.TrimSpace(name))
			}
		}
	}
}

func hasClose(lines []string) bool {
	for _, line := range lines {
		if strings.EqualFold(line, "close") {
			return true
		}
	}
	return false
}

// skips tells which fields are not to be written as the handler has them: what tells how
// the message is framed and what becomes of the connection, and trailers.
func (w *Response) skips(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Connection":
		return true
	}
	return strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(w.trailers, name)
}
