package websocket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// frame is one as a server sends it.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < length16:
		b = append(b, byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, length16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, length64), uint64(n))
	}
	return string(b) + payload
}

// conversation has every kind of frame, and every way of telling a length.
func conversation() []string {
	return []string{
		frame(final|opText, "hello"),
		frame(final|opBinary, ""),
		frame(opText, "a message of "),
		frame(final|opPing, "in between"),
		frame(opContinue, "three "),
		frame(final|opContinue, "frames"),
		frame(final|0x40|opText, "compressed"),
		frame(final|opBinary, strings.Repeat("a", 125)),
		frame(final|opBinary, strings.Repeat("b", 126)),
		frame(final|opBinary, strings.Repeat("c", 0xffff)),
		frame(final|opBinary, strings.Repeat("d", 0x10000)),
		frame(final|opPong, strings.Repeat("e", 125)),
	}
}

// TestFramesFindsEveryEnd splits a conversation in pieces of many sizes.
func TestFramesFindsEveryEnd(t *testing.T) {
	all := conversation()
	text := strings.Join(all, "")
	ends := map[int]bool{0: true}
	at := 0
	for _, f := range all {
		at += len(f)
		ends[at] = true
	}
	for _, size := range []int{1, 2, 3, 7, 1000, len(text)} {
		var f Frames
		for at := 0; at < len(text); {
			if f.between() != ends[at] {
				t.Fatalf("pieces of %d: at byte %d it is between frames: %t", size, at, f.between())
			}
			piece := text[at:min(at+size, len(text))]
			n := f.next([]byte(piece))
			if n < 1 || n > len(piece) {
				t.Fatalf("pieces of %d: %d of %d bytes were taken", size, n, len(piece))
			}
			for i := at + 1; i < at+n; i++ {
				if ends[i] {
					t.Fatalf("pieces of %d: it passed the end at byte %d", size, i)
				}
			}
			at += n
		}
		if !f.between() || !f.follows() {
			t.Errorf("pieces of %d: lost at the end", size)
		}
	}
}

// TestFramesLosesItself where what comes are no frames, or where the server closed.
func TestFramesLosesItself(t *testing.T) {
	for name, text := range map[string]string{
		"plain text":               "HTTP/1.1 200 OK\r\n",
		"a mask":                   "\x81\x85abcd.....",
		"an unknown kind":          frame(final|0x3, "x"),
		"an unknown control":       frame(final|0xb, "x"),
		"a control in pieces":      frame(opPing, "x"),
		"a long control":           "\x89\x7e\x00\x7e",
		"a continuation of none":   frame(final|opContinue, "x"),
		"a message in another":     frame(opText, "x") + frame(final|opText, "y"),
		"16 bits for a short one":  "\x82\x7e\x00\x7d",
		"64 bits for a shorter":    "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff",
		"a length of 64 bits":      "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00",
		"the server's own close":   frame(final|opClose, "\x03\xe8"),
		"a close without a status": frame(final|opClose, ""),
	} {
		var f Frames
		for p := []byte(text); len(p) > 0; {
			p = p[f.next(p):]
		}
		if f.between() || f.follows() {
			t.Errorf("%s: a close frame would be put in", name)
		}
		if n := f.next([]byte(frame(final|opText, "more"))); n != 6 || f.between() {
			t.Errorf("%s: it finds its way again", name)
		}
	}
}

// TestWriter says that it goes away at every byte of a conversation.
func TestWriter(t *testing.T) {
	short := conversation()[:8]
	text := strings.Join(short, "")
	for goes := range len(text) + 1 {
		for _, size := range []int{1, 5, len(text)} {
			var out bytes.Buffer
			w := NewWriter(&out)
			write := func(text string) {
				for p := []byte(text); len(p) > 0; p = p[min(size, len(p)):] {
					if n, err := w.Write(p[:min(size, len(p))]); err != nil || n != min(size, len(p)) {
						t.Fatalf("%d of %d bytes were written: %v", n, size, err)
					}
				}
			}
			write(text[:goes])
			if err := w.GoAway(); err != nil {
				t.Fatal(err)
			}
			write(text[goes:])
			if err := w.GoAway(); err != nil || !w.Gone() {
				t.Fatal(w.Gone(), err)
			}
			end := 0
			for _, f := range short {
				if end >= goes {
					break
				}
				end += len(f)
			}
			if want := text[:end] + "\x88\x02\x03\xe9"; out.String() != want {
				t.Fatalf("told at byte %d, in pieces of %d: %q, want %q", goes, size, out.String(), want)
			}
		}
	}
}

// TestWriterLeavesTheUnknownAlone: what are no frames passes as it is.
func TestWriterLeavesTheUnknownAlone(t *testing.T) {
	for _, text := range []string{"HTTP, and no frames", frame(final|opClose, "\x03\xe8") + "more"} {
		var out bytes.Buffer
		w := NewWriter(&out)
		for _, part := range []string{text[:7], text[7:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
			if err := w.GoAway(); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != text || w.Gone() {
			t.Errorf("%q became %q", text, out.String())
		}
	}
}

// TestWriterFails where the client does.
func TestWriterFails(t *testing.T) {
	in, out := io.Pipe()
	_ = in.Close()
	w := NewWriter(out)
	if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Error(n, err)
	}
	w = NewWriter(out)
	if err := w.GoAway(); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// halfCloser notes that its half was closed.
type halfCloser struct {
	bytes.Buffer
	closed bool
}

func (h *halfCloser) CloseWrite() error {
	h.closed = true
	return nil
}

// TestWriterPassesTheEndOn where the client can be told of it.
func TestWriterPassesTheEndOn(t *testing.T) {
	var h halfCloser
	if err := NewWriter(&h).CloseWrite(); err != nil || !h.closed {
		t.Error(h.closed, err)
	}
	if err := NewWriter(new(bytes.Buffer)).CloseWrite(); err == nil {
		t.Error("it was told to one who cannot be told")
	}
}

// reference finds the ends of frames in the whole text, written for being read: those
// up to which it is sound, and whether it goes on after the last of them.
func reference(p []byte) (ends []int, sound bool) {
	within := false
	for at := 0; ; {
		ends = append(ends, at)
		rest := p[at:]
		if len(rest) == 0 {
			return ends, true
		}
		kind, final := rest[0]&0x0f, rest[0]&0x80 != 0
		switch {
		case kind > 2 && kind < 8, kind > 10,
			kind == 0 && !within,
			(kind == 1 || kind == 2) && within,
			kind >= 8 && !final:
			return ends, false
		}
		if kind < 8 {
			within = !final
		}
		if len(rest) < 2 {
			return ends, true
		}
		head, size := 2, uint64(rest[1])
		switch {
		case size >= 128, kind >= 8 && size > 125:
			return ends, false
		case size == 126:
			if head = 4; len(rest) < head {
				return ends, true
			}
			if size = uint64(binary.BigEndian.Uint16(rest[2:])); size < 126 {
				return ends, false
			}
		case size == 127:
			if head = 10; len(rest) < head {
				return ends, true
			}
			if size = binary.BigEndian.Uint64(rest[2:]); size < 1<<16 || size >= 1<<63 {
				return ends, false
			}
		}
		if size > uint64(len(rest)-head) {
			return ends, true
		}
		if at += head + int(size); kind == 8 {
			return ends, false
		}
	}
}

// FuzzFrames holds it against the reference, in pieces.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(strings.Join(conversation()[:8], "")), uint8(3))
	f.Add([]byte(frame(final|opClose, "\x03\xe8")), uint8(1))
	f.Add([]byte("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00abc"), uint8(4))
	f.Add([]byte("\x82\x7e\x00\x7d"), uint8(2))
	f.Fuzz(func(t *testing.T, p []byte, size uint8) {
		ends, sound := reference(p)
		var frames Frames
		var found []int
		for at := 0; ; {
			if frames.between() {
				found = append(found, at)
			}
			if at == len(p) {
				break
			}
			at += frames.next(p[at:min(at+1+int(size), len(p))])
		}
		if len(found) != len(ends) || frames.follows() != sound {
			t.Fatalf("ends at %v, sound %t; want %v, %t", found, frames.follows(), ends, sound)
		}
		for i := range ends {
			if found[i] != ends[i] {
				t.Fatalf("ends at %v, want %v", found, ends)
			}
		}
	})
}

// FuzzWriter: whatever comes, in whatever pieces, and whenever it goes away, the client
// sees a beginning of it that ends between two frames, and the close frame, or all of it.
func FuzzWriter(f *testing.F) {
	f.Add([]byte(strings.Join(conversation()[:8], "")), uint16(20), uint8(3))
	f.Add([]byte("no frames at all"), uint16(3), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, goes uint16, size uint8) {
		at := min(int(goes), len(p))
		var out bytes.Buffer
		w := NewWriter(&out)
		for i, part := range [][]byte{p[:at], p[at:]} {
			if i == 1 {
				_ = w.GoAway()
			}
			for len(part) > 0 {
				n := min(1+int(size), len(part))
				if got, err := w.Write(part[:n]); got != n || err != nil {
					t.Fatal(got, err)
				}
				part = part[n:]
			}
		}
		want := p
		ends, _ := reference(p)
		for _, end := range ends {
			if end >= at {
				want = append(bytes.Clone(p[:end]), CloseFrame(GoingAway)...)
				break
			}
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Fatalf("the client saw %q, want %q", out.Bytes(), want)
		}
	})
}
