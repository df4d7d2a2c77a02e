package front

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"tempomat/internal/testkit"
)

// raw sends a frame unchecked.
func (p *peer) raw(kind http2.FrameType, flags http2.Flags, id uint32, payload string) {
	p.t.Helper()
	p.check(p.WriteRawFrame(kind, flags, id, []byte(payload)))
}

// outcome returns the error that the server reports, or answered if it answers the last request.
func (p *peer) outcome() string {
	p.t.Helper()
	switch f := p.until(func(f http2.Frame) bool {
		if kind := f.Header().Type; kind == http2.FrameGoAway || kind == http2.FrameRSTStream {
			return true
		}
		return f.Header().StreamID == lastAsked && f.Header().Flags.Has(http2.FlagDataEndStream)
	}).(type) {
	case *http2.GoAwayFrame:
		if _, err := p.ReadFrame(); err != io.EOF { //nolint:errorlint // ReadFrame returns exactly this value
			p.t.Errorf("the connection goes on: %v", err)
		}
		return f.ErrCode.String()
	case *http2.RSTStreamFrame:
		return "stream " + f.ErrCode.String()
	}
	return answered
}

const (
	lastAsked = 1001
	answered  = "answered"
)

// TestRFC9113 sends frames that a client may not send, or that the server must ignore. The
// cases are those of h2spec. Each name begins with the relevant section of RFC 9113 or RFC 7541
// (HPACK).
func TestRFC9113(t *testing.T) {
	const (
		protocol, size, flow, closed, compression = "PROTOCOL_ERROR", "FRAME_SIZE_ERROR", "FLOW_CONTROL_ERROR", "STREAM_CLOSED", "COMPRESSION_ERROR"

		data, headers, priority, reset, settings, push, ping, goAway, window, more = http2.FrameData, http2.FrameHeaders, http2.FramePriority,
			http2.FrameRSTStream, http2.FrameSettings, http2.FramePushPromise, http2.FramePing, http2.FrameGoAway, http2.FrameWindowUpdate,
			http2.FrameContinuation
		endStream, ack, endHeaders, padded, prioritised = http2.FlagDataEndStream, http2.FlagPingAck, http2.FlagHeadersEndHeaders,
			http2.FlagDataPadded, http2.FlagHeadersPriority
		whole = endStream | endHeaders

		get   = "\x82\x86\x84\x41\x01a" // GET http://a/
		of1   = "\x00\x00\x00\x01"
		wide  = "\x7f\xff\xff\xff"
		eight = "12345678"
	)
	dial, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	uploads := func(p *peer) { p.ask(1, false, to("POST", "/")...) }
	waits := func(p *peer) { p.get(1, "/wait") }
	isOver := func(p *peer) { p.get(1, "/"); p.end(1) }
	gaveUp := func(p *peer) { waits(p); p.raw(reset, 0, 1, "\x00\x00\x00\x08") }
	for name, c := range map[string]struct {
		want string
		do   func(p *peer)
	}{
		"4.1: a frame of no known type":    {answered, func(p *peer) { p.raw(0x16, 0, 0, eight) }},
		"4.1: flags that are not defined":  {answered, func(p *peer) { p.raw(ping, 0x16, 0, eight) }},
		"4.1: the reserved bit":            {answered, func(p *peer) { p.raw(ping, 0, 1<<31, eight) }},
		"4.2: DATA that are too long":      {size, func(p *peer) { uploads(p); p.raw(data, 0, 1, strings.Repeat("x", longestFrame+1)) }},
		"4.2: HEADERS that are too long":   {size, func(p *peer) { p.raw(headers, whole, 1, strings.Repeat("\x82", longestFrame+1)) }},
		"4.2: no known type, too long":     {size, func(p *peer) { p.raw(0x20, 0, 0, strings.Repeat("x", longestFrame+1)) }},
		"4.3: a header that is none":       {compression, func(p *peer) { p.raw(headers, whole, 1, "\xff\xff") }},
		"4.3: half a header":               {compression, func(p *peer) { p.raw(headers, whole, 1, "\x40") }},
		"4.3: PRIORITY in a header":        {protocol, func(p *peer) { p.raw(headers, endStream, 1, get); p.raw(priority, 0, 1, of1+"\x00") }},
		"4.3: another HEADERS in a header": {protocol, func(p *peer) { p.raw(headers, endStream, 1, get); p.raw(headers, whole, 3, get) }},
		"5.1: idle, DATA":                  {protocol, func(p *peer) { p.raw(data, endStream, 1, "") }},
		"5.1: idle, RST_STREAM":            {protocol, func(p *peer) { p.raw(reset, 0, 1, of1) }},
		"5.1: idle, WINDOW_UPDATE":         {protocol, func(p *peer) { p.raw(window, 0, 1, of1) }},
		"5.1: idle, CONTINUATION":          {protocol, func(p *peer) { p.raw(more, endHeaders, 1, get) }},
		"5.1: half closed, DATA":           {"stream " + closed, func(p *peer) { waits(p); p.raw(data, endStream, 1, "x") }},
		"5.1: half closed, HEADERS":        {"stream " + closed, func(p *peer) { waits(p); p.raw(headers, whole, 1, get) }},
		"5.1: half closed, CONTINUATION":   {protocol, func(p *peer) { waits(p); p.raw(more, endHeaders, 1, get) }},
		"5.1: given up, DATA":              {"stream " + closed, func(p *peer) { gaveUp(p); p.raw(data, endStream, 1, "x") }},
		"5.1: given up, HEADERS":           {closed, func(p *peer) { gaveUp(p); p.raw(headers, whole, 1, get) }},
		"5.1: given up, CONTINUATION":      {protocol, func(p *peer) { gaveUp(p); p.raw(more, endHeaders, 1, get) }},
		"5.1: over, DATA":                  {"stream " + closed, func(p *peer) { isOver(p); p.raw(data, endStream, 1, "x") }},
		"5.1: over, HEADERS":               {closed, func(p *peer) { isOver(p); p.raw(headers, whole, 1, get) }},
		"5.1: over, CONTINUATION":          {protocol, func(p *peer) { isOver(p); p.raw(more, endHeaders, 1, get) }},
		"5.1: over, WINDOW_UPDATE":         {answered, func(p *peer) { isOver(p); p.raw(window, 0, 1, of1) }},
		"5.1: over, RST_STREAM":            {answered, func(p *peer) { isOver(p); p.raw(reset, 0, 1, of1) }},
		"5.1: over, PRIORITY":              {answered, func(p *peer) { isOver(p); p.raw(priority, 0, 1, "\x00\x00\x00\x00\x00") }},
		"5.1.1: an even number":            {protocol, func(p *peer) { p.get(2, "/") }},
		"5.1.1: a lower number":            {closed, func(p *peer) { p.get(5, "/"); p.end(5); p.get(3, "/") }},
		"5.1.2: too many streams": {"stream REFUSED_STREAM", func(p *peer) {
			for n := range mostStreams + 1 {
				p.get(id(n), "/wait")
			}
		}},
		"5.3.2: HEADERS that depend on themselves":  {answered, func(p *peer) { p.raw(headers, whole|prioritised, 1, of1+"\xff"+get) }},
		"5.3.2: PRIORITY that depends on itself":    {answered, func(p *peer) { p.raw(priority, 0, 1, of1+"\xff") }},
		"5.5: no known type in a header":            {protocol, func(p *peer) { p.raw(headers, endStream, 1, get); p.raw(0x16, 0, 0, "") }},
		"6.1: DATA of no stream":                    {protocol, func(p *peer) { p.raw(data, 0, 0, "x") }},
		"6.1: DATA that are padding":                {protocol, func(p *peer) { uploads(p); p.raw(data, padded, 1, "\x05ab") }},
		"6.2: HEADERS of no stream":                 {protocol, func(p *peer) { p.raw(headers, whole, 0, get) }},
		"6.2: HEADERS that are padding":             {protocol, func(p *peer) { p.raw(headers, whole|padded, 1, "\x09"+get) }},
		"6.3: PRIORITY of no stream":                {protocol, func(p *peer) { p.raw(priority, 0, 0, of1+"\x00") }},
		"6.3: PRIORITY that is short":               {size, func(p *peer) { p.raw(priority, 0, 1, of1) }},
		"6.4: RST_STREAM of no stream":              {protocol, func(p *peer) { p.raw(reset, 0, 0, of1) }},
		"6.4: RST_STREAM that is short":             {size, func(p *peer) { uploads(p); p.raw(reset, 0, 1, "123") }},
		"6.5: SETTINGS of a stream":                 {protocol, func(p *peer) { p.raw(settings, 0, 1, "") }},
		"6.5: SETTINGS of no size":                  {size, func(p *peer) { p.raw(settings, 0, 0, "123") }},
		"6.5: an acknowledgment with settings":      {size, func(p *peer) { p.raw(settings, ack, 0, "\x00\x00\x00\x00\x00\x00") }},
		"6.5.2: ENABLE_PUSH of 2":                   {protocol, func(p *peer) { p.raw(settings, 0, 0, "\x00\x02\x00\x00\x00\x02") }},
		"6.5.2: too wide an INITIAL_WINDOW_SIZE":    {flow, func(p *peer) { p.raw(settings, 0, 0, "\x00\x04\x80\x00\x00\x00") }},
		"6.5.2: too small a MAX_FRAME_SIZE":         {protocol, func(p *peer) { p.raw(settings, 0, 0, "\x00\x05\x00\x00\x3f\xff") }},
		"6.5.2: too large a MAX_FRAME_SIZE":         {protocol, func(p *peer) { p.raw(settings, 0, 0, "\x00\x05\x01\x00\x00\x00") }},
		"6.5.2: a setting that is not known":        {answered, func(p *peer) { p.raw(settings, 0, 0, "\x00\xff\x00\x00\x00\x01") }},
		"6.6: PUSH_PROMISE":                         {protocol, func(p *peer) { p.raw(push, endHeaders, 1, "\x00\x00\x00\x02"+get) }},
		"6.7: PING of a stream":                     {protocol, func(p *peer) { p.raw(ping, 0, 1, eight) }},
		"6.7: PING that is short":                   {size, func(p *peer) { p.raw(ping, 0, 0, "1234567") }},
		"6.7: an acknowledgment of nothing":         {answered, func(p *peer) { p.raw(ping, ack, 0, eight) }},
		"6.8: GOAWAY of a stream":                   {protocol, func(p *peer) { p.raw(goAway, 0, 1, "\x00\x00\x00\x00\x00\x00\x00\x00") }},
		"6.9: WINDOW_UPDATE by nothing":             {protocol, func(p *peer) { p.raw(window, 0, 0, "\x00\x00\x00\x00") }},
		"6.9: WINDOW_UPDATE of a stream by nothing": {"stream " + protocol, func(p *peer) { waits(p); p.raw(window, 0, 1, "\x00\x00\x00\x00") }},
		"6.9: WINDOW_UPDATE that is short":          {size, func(p *peer) { p.raw(window, 0, 0, "123") }},
		"6.9.1: too wide a window":                  {flow, func(p *peer) { p.raw(window, 0, 0, wide) }},
		"6.9.1: too wide a window of a stream":      {"stream " + flow, func(p *peer) { waits(p); p.raw(window, 0, 1, wide) }},
		"6.9.2: too wide a window by settings": {flow, func(p *peer) {
			waits(p)
			p.raw(window, 0, 1, "\x7f\xff\x00\x00")
			p.raw(settings, 0, 0, "\x00\x04\x00\x01\x00\x00")
		}},
		"6.10: CONTINUATION after CONTINUATION": {answered, func(p *peer) {
			p.raw(headers, endStream, 1, get[:1])
			p.raw(more, 0, 1, get[1:2])
			p.raw(more, endHeaders, 1, get[2:])
		}},
		"6.10: CONTINUATION of no stream":     {protocol, func(p *peer) { p.raw(headers, endStream, 1, get); p.raw(more, endHeaders, 0, "") }},
		"6.10: CONTINUATION of another one":   {protocol, func(p *peer) { p.raw(headers, endStream, 1, get); p.raw(more, endHeaders, 3, "") }},
		"6.10: CONTINUATION after END_HEADER": {protocol, func(p *peer) { p.raw(headers, endHeaders, 1, get); p.raw(more, endHeaders, 1, "") }},
		"6.10: CONTINUATION after DATA":       {protocol, func(p *peer) { uploads(p); p.raw(data, 0, 1, "x"); p.raw(more, endHeaders, 1, "") }},
		"7: RST_STREAM for no known reason":   {answered, func(p *peer) { waits(p); p.raw(reset, 0, 1, "\x00\x00\x00\xff") }},
		"7: GOAWAY for no known reason":       {answered, func(p *peer) { p.raw(goAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\xff") }},
		"8.1: trailers that don't end it":     {"stream " + protocol, func(p *peer) { uploads(p); p.ask(1, false, "a", "b") }},

		"HPACK 2.3.3: an index beyond the tables": {compression, func(p *peer) { p.raw(headers, whole, 1, get+"\xc6") }},
		"HPACK 4.2: a size of the table at last":  {compression, func(p *peer) { p.raw(headers, whole, 1, get+"\x20") }},
		"HPACK 5.2: a byte of padding":            {compression, func(p *peer) { p.raw(headers, whole, 1, get+"\x00\x82\x1f\xff\x01a") }},
		"HPACK 5.2: padding of zeros":             {compression, func(p *peer) { p.raw(headers, whole, 1, get+"\x00\x81\x18\x01a") }},
		"HPACK 5.2: the end of a string":          {compression, func(p *peer) { p.raw(headers, whole, 1, get+"\x00\x84\xff\xff\xff\xff\x01a") }},
		"HPACK 6.1: an index of 0":                {compression, func(p *peer) { p.raw(headers, whole, 1, get+"\x80") }},
		"HPACK 6.3: too large a table":            {compression, func(p *peer) { p.raw(headers, whole, 1, "\x3f\xe2\x1f"+get) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, dial())
			c.do(p)
			if c.want == answered {
				p.get(lastAsked, "/")
			}
			testkit.Same(t, c.want, p.outcome(), "outcome")
		})
	}
	for begin, want := range map[string]string{ // 3.4
		preface + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678": "\x00\x00\x08\x07", // no SETTINGS: GOAWAY
		"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n":                       "",
	} {
		c := dial()
		_, _ = io.WriteString(c, begin)
		if got, _ := io.ReadAll(c); !bytes.Contains(got, []byte(want)) || want == "" && len(got) > 0 {
			t.Errorf("after %q: %q", begin, got)
		}
	}
}
