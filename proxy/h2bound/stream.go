package h2bound

import (
	"cmp"
	"slices"
)

const (
	// mostStreams is how many streams are followed, four times as many as net/http
	// allows. Of more, only as many are open as the server has not refused yet.
	mostStreams = 1000
	// fewStreams is how many the memory is kept for when no stream is open.
	fewStreams = 16
)

// stream is a request that the server has not finished.
type stream struct {
	id   uint32
	sent bool // the client has sent all of it
}

// streams are the streams that are open, by their numbers. They are opened in that order.
type streams []stream

// find returns a stream that is open, else nil.
func (s streams) find(id uint32) *stream {
	if i, ok := s.index(id); ok {
		return &s[i]
	}
	return nil
}

// close forgets a stream. It is false if it was forgotten before.
func (s *streams) close(id uint32) bool {
	i, ok := s.index(id)
	if !ok {
		return false
	}
	*s = slices.Delete(*s, i, i+1)
	if len(*s) == 0 && cap(*s) > fewStreams {
		*s = nil
	}
	return true
}

func (s streams) index(id uint32) (int, bool) {
	return slices.BinarySearchFunc(s, id, func(t stream, id uint32) int { return cmp.Compare(t.id, id) })
}
