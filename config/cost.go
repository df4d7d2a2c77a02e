package config

import (
	"time"

	"tempomat/config/form"
)

// Cost sets how a request's cost is found.
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
			Doc: "Source of a request's cost. `process`: the CPU time of its worker as the kernel counts it, otherwise `corrected`. `auto`: the same without a warning. `corrected`: wall time, corrected for contention. `wall`: plain wall time. `header`: the backend's `Tempomat-Cost`."},
		{Path: "cost.socket", Value: form.OrEmpty(socketAddress(), "nowhere").In(&c.Cost.Socket),
			Doc: "Socket where workers report [which request they serve](exact-costs.md)."},
		{Path: "cost.database", Value: wordOrPath("auto", "off").In(&c.Cost.Database),
			Doc: "Database whose CPU time is charged to the requests that wait for it. `auto` finds those on this machine."},
		{Path: "table.size", Value: form.Integer(minTable, maxTable).In(&c.Table.Size), Restart: true, Unit: "keys",
			Doc: "Most keys in memory, over all classes together."},
		{Path: "timeouts.body", Value: form.Duration(time.Second, time.Hour).In(&t.Body),
			Doc: "Longest pause inside a request's body, and longest time to read a piece of the response."},
		{Path: "timeouts.idle", Value: form.Duration(time.Second, time.Hour).In(&t.Idle), Restart: true,
			Doc: "Longest pause between two requests of a connection."},
		{Path: "timeouts.upgrade", Value: form.Duration(time.Second, day).In(&t.Upgrade),
			Doc: "Longest silence on a WebSocket. An open WebSocket holds a worker of the backend."},
		{Path: "timeouts.drain", Value: form.Duration(0, time.Hour).In(&t.Drain),
			Doc: "Longest time after SIGTERM for requests to finish, including waiting ones."},
	}
}

// minShare keeps the wait for one CPU-second within what a time can hold.
const minShare = 0.000001

// share is a part of something that is not empty.
func share() form.Scalar[float64] {
	return form.Number("a number from 0.000001 to 1", minShare, 1)
}

// Buffer is where bodies wait instead of holding a worker of the backend: requests until they
// are complete, responses until slow clients have read them. All sizes are in bytes.
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
			Doc: "Largest request body that tempomat reads before it asks the backend. Larger bodies stream."},
		{Path: "buffer.response", Value: form.Size(terabyte).In(&b.Response),
			Doc: "Most bytes of a response that tempomat holds for a slow client. 0: responses stream."},
		{Path: "buffer.memory", Value: form.Size(terabyte).In(&b.Memory),
			Doc: "Most memory for all buffers. One body uses at most 64 KB of it, then a file."},
		{Path: "buffer.directory", Value: absolutePath("a directory").In(&b.Directory),
			Doc: "Directory for the buffers' files, not on a tmpfs. They use at most half of the free space, one address a quarter of that and of `buffer.memory`. A tenth of the file system stays free."},
	}
}
