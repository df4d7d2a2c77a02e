package front

import (
	"net/http"
	"net/url"
	"sync"

	"tempomat/proxy/http1"
)

const (
	// inSize is room for the head of nearly all requests; a longer one gets more.
	inSize = 8 << 10
	// outSize is room for the head of an answer, and for the whole of a short one.
	outSize = 8 << 10
)

// memories lends memory to requests. Its methods may be called concurrently.
type memories struct {
	in, out, requests sync.Pool
	texts             http1.Texts
}

func (m *memories) init() {
	m.in.New = func() any { return new(inMemory) }
	m.out.New = func() any { return new([outSize]byte) }
	m.requests.New = func() any {
		return &request{header: http1.Emptied(nil), answer: http1.Emptied(nil)}
	}
}

// inMemory is what a head is read to.
type inMemory struct {
	bytes  [inSize]byte
	fields [http1.UsualFields]http1.Field
}

// request is what a request borrows from its head to its end.
type request struct {
	http.Request

	head     http1.RequestHead
	url      url.URL
	header   http.Header
	values   [http1.UsualFields]string // of header, each of which is a slice of it
	order    []http1.Name              // of header, in names if it fits
	names    [http1.UsualFields]http1.Name
	answer   http.Header
	body     body
	response Response
}

// clear forgets a request, so that it keeps nothing alive.
func (r *request) clear() {
	r.header, r.answer = http1.Emptied(r.header), http1.Emptied(r.answer)
	n := len(r.order) // each has one value here at least
	clear(r.values[:min(n, len(r.values))])
	clear(r.names[:min(n, len(r.names))])
	r.order = nil
	r.Request = http.Request{}
	r.head = http1.RequestHead{}
	r.url = url.URL{}
	r.body = body{}
	r.response = Response{}
}
