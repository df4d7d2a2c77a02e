package mmdb

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
)

const (
	// slots is how many records are remembered that were read. Clients of a site are of
	// few autonomous systems.
	slots = 1 << 12
	// breath is after how many networks reading makes a pause, as long as that took: it must
	// leave a CPU to those who are served meanwhile.
	breath = 4096
)

// content is a file in memory. It may be used concurrently.
type content struct {
	reader *maxminddb.Reader
	read   reading
	known  [slots]atomic.Pointer[record]
}

// record is what a part of the file says; networks share them.
type record struct {
	offset uintptr
	id     string
}

// parse takes a file's bytes for a database. They are the content's from then on.
func parse(data []byte, read reading) (*content, error) {
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("is no MaxMind DB file, or not all of one: %w", err)
	}
	return &content{reader: reader, read: read}, nil
}

// check goes through all of it and returns how many networks there are. Its error says what is
// broken, or that the file is of another kind. Now and then it calls rest with the time that
// it has worked.
func (c *content) check(rest func(time.Duration)) (networks int, err error) {
	useful := false
	begun := time.Now()
	for r := range c.reader.Networks() {
		id, err := c.idOf(r)
		if err != nil {
			return networks, fmt.Errorf("is broken after %d networks: %w", networks, err)
		}
		useful = useful || id != ""
		if networks++; networks%breath == 0 {
			rest(time.Since(begun))
			begun = time.Now()
		}
	}
	if !useful {
		return networks, fmt.Errorf("has nothing of the kind for any of its %d networks; it says that it is a %.64q", networks, c.reader.Metadata.DatabaseType)
	}
	return networks, nil
}

// id is the key of an address; empty: none is known.
func (c *content) id(a netip.Addr) string {
	id, err := c.idOf(c.reader.Lookup(a))
	runtime.KeepAlive(c) // what it lies in is given back with it
	if err != nil {
		return "" // not reached: all of it was gone through
	}
	return id
}

func (c *content) idOf(r maxminddb.Result) (string, error) {
	if !r.Found() {
		return "", r.Err()
	}
	offset := r.Offset()
	slot := &c.known[uint64(offset)*0x9e3779b97f4a7c15>>52]
	if x := slot.Load(); x != nil && x.offset == offset {
		return x.id, nil
	}
	id, err := c.read(r)
	if err != nil {
		return "", err
	}
	slot.Store(&record{offset, id})
	return id, nil
}
