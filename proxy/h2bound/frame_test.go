package h2bound

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const endHeaders = 0x4 // of HEADERS and CONTINUATION

// encode makes the bytes of a frame.
func encode(k kind, flags byte, stream uint32, payload ...byte) []byte {
	n := len(payload)
	p := []byte{byte(n >> 16), byte(n >> 8), byte(n), byte(k), flags}
	return append(binary.BigEndian.AppendUint32(p, stream), payload...)
}

// number is a payload of four bytes.
func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// scan returns the frames that a scanner finds in pieces.
func scan(pieces ...[]byte) []frame {
	var s scanner
	var found []frame
	for _, p := range pieces {
		for len(p) > 0 {
			f, rest, ok := s.next(p)
			if ok {
				found = append(found, f)
			}
			p = rest
		}
	}
	return found
}

func TestFramesAreFoundWhereverTheyAreSplit(t *testing.T) {
	all := join(
		encode(settings, 0, 0, 0, 3, 0, 0, 0, 100),
		encode(settings, ack, 0),
		encode(headers, endHeaders|endStream, 1, make([]byte, 40)...),
		encode(windowUpdate, 0, 0x80000001, number(0x80000007)...),
		encode(windowUpdate, 0, 3),
		encode(windowUpdate, 0, 3, 1, 2),
		encode(windowUpdate, 0, 3, 0, 0, 0, 9, 8, 7),
		encode(resetStream, 0, 1, number(8)...),
		encode(data, 0, 5),
		encode(data, endStream, 5, make([]byte, 70000)...),
		encode(0xfe, 0xff, 1<<31-1, 1),
		encode(ping, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8),
	)
	want := []frame{
		{6, settings, 0, 0, 0},
		{0, settings, ack, 0, 0},
		{40, headers, endHeaders | endStream, 1, 0},
		{4, windowUpdate, 0, 1, 7},
		{0, windowUpdate, 0, 3, 0},
		{2, windowUpdate, 0, 3, 0},
		{6, windowUpdate, 0, 3, 9},
		{4, resetStream, 0, 1, 8},
		{0, data, 0, 5, 0},
		{70000, data, endStream, 5, 0},
		{1, 0xfe, 0xff, 1<<31 - 1, 0},
		{8, ping, 0, 0, 0},
	}
	same := func(how string, got []frame) {
		t.Helper()
		if d := cmp.Diff(want, got, cmp.AllowUnexported(frame{})); d != "" {
			t.Fatalf("%s: %s", how, d)
		}
	}
	same("in one piece", scan(all))
	for i := range all {
		if i < 300 || i > len(all)-300 || i%997 == 0 { // the rest is in the middle of a payload
			same("in two", scan(all[:i], all[i:]))
		}
	}
	var bytes [][]byte
	for i := range all {
		bytes = append(bytes, all[i:i+1])
	}
	same("byte by byte", scan(bytes...))
}

// TestStreamsAreASet compares with the obvious set.
func TestStreamsAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s streams
		open := map[uint32]bool{}
		id := uint32(0)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "opens") {
				id += uint32(rapid.IntRange(1, 3).Draw(t, "gap"))
				s = append(s, stream{id: id})
				open[id] = true
			} else {
				gone := uint32(rapid.IntRange(0, int(id)+1).Draw(t, "closed"))
				s.close(gone)
				delete(open, gone)
			}
			if len(s) != len(open) {
				t.Fatalf("%d streams, not %d", len(s), len(open))
			}
			some := uint32(rapid.IntRange(0, int(id)+1).Draw(t, "sought"))
			if found := s.find(some); (found != nil) != open[some] || found != nil && found.id != some {
				t.Fatalf("stream %d: %v, open: %v", some, found, open[some])
			}
		}
	})
}

func TestMemoryOfStreamsIsGivenBack(t *testing.T) {
	var s streams
	for i := range uint32(mostStreams) {
		s = append(s, stream{id: i})
	}
	for i := range uint32(mostStreams) {
		s.close(i)
	}
	if cap(s) > fewStreams {
		t.Errorf("room for %d streams is kept", cap(s))
	}
}
