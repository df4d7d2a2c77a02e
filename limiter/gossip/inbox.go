package gossip

import (
	"bytes"
	"sync/atomic"

	"github.com/hashicorp/memberlist"
)

// Bounds of what waits to be read.
const (
	inboxMessages = 1 << 10
	inboxBytes    = 16 << 20
	maxMessage    = maxSummary + maxBlock + 1<<16
)

// inbox is where memberlist puts messages. It never blocks, and is bounded by
// number and size.
type inbox struct {
	id       node
	messages chan []byte
	waiting  atomic.Int64 // bytes
	overrun  atomic.Uint64
}

var _ memberlist.Delegate = (*inbox)(nil)

func newInbox(id node) *inbox {
	return &inbox{id: id, messages: make(chan []byte, inboxMessages)}
}

// NotifyMsg implements memberlist.Delegate.
func (i *inbox) NotifyMsg(b []byte) {
	size := int64(len(b))
	if size > maxMessage || i.waiting.Add(size) > inboxBytes {
		if size <= maxMessage {
			i.waiting.Add(-size)
		}
		i.overrun.Add(1)
		return
	}
	select {
	case i.messages <- bytes.Clone(b):
	default:
		i.waiting.Add(-size)
		i.overrun.Add(1)
	}
}

// taken says that a message was read.
func (i *inbox) taken(b []byte) { i.waiting.Add(-int64(len(b))) }

// NodeMeta implements memberlist.Delegate.
func (i *inbox) NodeMeta(int) []byte { return appendMeta(nil, i.id) }

// GetBroadcasts implements memberlist.Delegate. Parcels go straight to all.
func (i *inbox) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate. Who wants a summary asks for it.
func (i *inbox) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (i *inbox) MergeRemoteState([]byte, bool) {}
