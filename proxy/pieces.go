package proxy

import "sync"

const (
	smallPiece = 4 << 10
	largePiece = 32 << 10
)

// pieces lends the memory that bodies are copied through. A large piece is for
// a client that keeps up: whoever waits for a slow one holds a small piece, as
// there may be thousands of them.
type pieces struct{ small, large sync.Pool }

func (p *pieces) init() {
	p.small.New = func() any { return new([smallPiece]byte) }
	p.large.New = func() any { return new([largePiece]byte) }
}

func (p *pieces) get(large bool) []byte {
	if large {
		return p.large.Get().(*[largePiece]byte)[:]
	}
	return p.small.Get().(*[smallPiece]byte)[:]
}

func (p *pieces) put(b []byte) {
	if len(b) == largePiece {
		p.large.Put((*[largePiece]byte)(b))
	} else {
		p.small.Put((*[smallPiece]byte)(b))
	}
}

// fit takes a piece back and lends one of the other size, if that is due.
func (p *pieces) fit(b []byte, large bool) []byte {
	if (len(b) == largePiece) == large {
		return b
	}
	p.put(b)
	return p.get(large)
}
