package config

import (
	"errors"
	"time"

	"tempomat/config/form"
)

// Cost says how a request's cost is found.
type Cost struct {
	Source   string // auto, process, corrected, wall or header
	Socket   string // where workers tell which request they serve; empty: nowhere
	Database string // auto, off, or a cgroup's directory
}

func defaultCost() Cost { return Cost{Source: "auto", Database: "auto"} }

// Table bounds the memory for keys.
type Table struct {
	Size int // most keys remembered, over all classes; 1024 to 4194304
}

// Timeouts bound what a client can hold open.
type Timeouts struct {
	Body    time.Duration // longest pause inside a request's body, and until a client accepts a piece of the response
	Idle    time.Duration // longest pause between two requests of a connection
	Upgrade time.Duration // after an upgrade (WebSocket): longest time without a byte in either direction
	Drain   time.Duration // after SIGTERM: longest time for what is under way to finish
}

const (
	day      = 24 * time.Hour
	minTable = 1024
	maxTable = 4 << 20
)

func defaultTimeouts() Timeouts {
	return Timeouts{
		Body: 60 * time.Second, Idle: 75 * time.Second, Upgrade: time.Hour, Drain: 30 * time.Second,
	}
}

// costSettings are the keys of costs, and of the bounds of memory and time.
func costSettings(c *Config) []form.Setting {
	t := &c.Timeouts
	sources := []string{"auto", "process", "corrected", "wall", "header"}
	return []form.Setting{
		{Path: "cost.source", Value: form.Choice(sources...).In(&c.Cost.Source),
			Doc: "How a request's cost is found. `process`: the CPU time that its worker used, as the kernel counts it, and `corrected` where that is not to be had (`auto`: the same, without a warning). `corrected`: wall time, corrected for contention. `wall`: wall time as it is, like the original. `header`: told by the backend."},
		{Path: "cost.socket", Value: form.OrEmpty(socketAddress(), "nowhere").In(&c.Cost.Socket),
			Doc: "Where workers tell which request they serve, so that their CPU time is that request's."},
		{Path: "cost.database", Value: wordOrPath("auto", "off").In(&c.Cost.Database),
			Doc: "Whose CPU time is shared by the requests that wait for it, by how long they do. `auto`: that of the databases that are found on this machine by their processes' names. Else a cgroup's."},
		{Path: "table.size", Value: form.Integer(minTable, maxTable).In(&c.Table.Size), Restart: true, Unit: "keys",
			Doc: "Most keys remembered, over all classes."},
		{Path: "timeouts.body", Value: form.Duration(time.Second, time.Hour).In(&t.Body),
			Doc: "The longest pause inside a request's body, and the longest time that a client takes to accept a piece of the response."},
		{Path: "timeouts.idle", Value: form.Duration(time.Second, time.Hour).In(&t.Idle), Restart: true,
			Doc: "The longest pause between two requests of a connection."},
		{Path: "timeouts.upgrade", Value: form.Duration(time.Second, day).In(&t.Upgrade),
			Doc: "After an upgrade (WebSocket), the longest time without a byte in either direction. An open one holds a worker of the backend; those that are in use send pings."},
		{Path: "timeouts.drain", Value: form.Duration(0, time.Hour).In(&t.Drain),
			Doc: "After SIGTERM, the longest time for what is under way to finish, held requests included."},
	}
}

// minShare keeps the wait for one CPU-second within what a time can hold.
const minShare = 0.000001

// share is a part of something that is not empty.
func share() form.Scalar[float64] {
	s := form.Number("above 0 and at most 1", 0, 1).But(func(x float64) error {
		switch {
		case x <= 0:
			return errors.New("must be above 0 and at most 1")
		case x < minShare:
			return errors.New("must be at least 0.000001")
		}
		return nil
	})
	s.Type = "number"
	return s
}

// Buffer is where bodies wait, so that they do not hold a worker of the
// backend: requests until they are there as a whole, responses until slow
// clients have read them. All sizes are in bytes.
type Buffer struct {
	Request   int64  // most of a request's body in all; what is larger streams; 0: all do
	Response  int64  // most of a response that waits in all; 0: responses stream
	Memory    int64  // most memory of all together
	Directory string // of the files, which have no names; on a disk
}

const (
	gigabyte = 1 << 30
	terabyte = 1 << 40
)

func defaultBuffer() Buffer {
	return Buffer{
		Request: gigabyte, Response: gigabyte, Memory: 32 << 20, Directory: "/var/tmp",
	}
}

func bufferSettings(b *Buffer) []form.Setting {
	return []form.Setting{
		{Path: "buffer.request", Value: form.Size(terabyte).In(&b.Request),
			Doc: "The largest body of a request that is read before the request goes to the backend. What is larger streams; 0: every body does."},
		{Path: "buffer.response", Value: form.Size(terabyte).In(&b.Response),
			Doc: "Most of a response that waits for its client; beyond that the backend waits. 0: nothing waits, responses stream."},
		{Path: "buffer.memory", Value: form.Size(terabyte).In(&b.Memory),
			Doc: "Most memory of all buffers together. A body has at most 64 KB of it, the rest goes to a file."},
		{Path: "buffer.directory", Value: absolutePath("a directory").In(&b.Directory),
			Doc: "Where the files are. On a disk: a tmpfs is memory. All together have at most half of what is free when the first file is written, and one address (IPv6: a /64) a quarter of that and of `buffer.memory`. The last tenth of the file system is never used."},
	}
}
