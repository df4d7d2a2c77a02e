package mmdb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// mostBytes bounds a file: the largest that are sold have less.
const mostBytes = 2 << 30

// load reads all of a file, and checks it.
func load(file string, read reading) (c *content, networks int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, reason(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, reason(err)
	case info.Size() == 0:
		return nil, 0, errors.New("is empty")
	case info.Size() > mostBytes:
		return nil, 0, fmt.Errorf("is larger than %d MiB", mostBytes>>20)
	}
	m, err := reserve(int(info.Size()))
	if err != nil {
		return nil, 0, fmt.Errorf("needs %d bytes of memory: %w", info.Size(), err)
	}
	if _, err = io.ReadFull(f, m.data); err == nil {
		if c, err = parse(m.data, read); err == nil {
			networks, err = c.check(time.Sleep)
		}
	} else {
		err = reason(err)
	}
	if err != nil {
		m.free()
		return nil, 0, err
	}
	m.freeWith(c)
	return c, networks, nil
}
