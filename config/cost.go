package config

import (
	"time"

	"tempomat/config/form"
)

// Cost sets how the cost of requests is determined.
type Cost struct {
	Source string // auto, process, corrected, wall or header
	Socket string // the socket on which workers report which request they serve; empty: none
}

func defaultCost() Cost { return Cost{Source: "auto"} }

// Table limits the memory for keys.
type Table struct {
	Size int // the most keys in memory, in all classes together; 1024 to 4194304
}

// Timeouts limit how long clients can hold resources.
type Timeouts struct {
	Body    time.Duration // the longest pause inside a request's body, and the longest wait for a client to accept a piece of the response
	Idle    time.Duration // the longest pause between two requests on a connection
	Upgrade time.Duration // the longest time without a byte in either direction on a WebSocket
	Drain   time.Duration // the longest time after SIGTERM for requests to finish
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

// costSettings returns the keys for costs, memory and timeouts.
func costSettings(c *Config) []form.Setting {
	t := &c.Timeouts
	sources := []string{"auto", "process", "corrected", "wall", "header"}
	return []form.Setting{
		{Path: "cost.source", Value: form.Choice(sources...).In(&c.Cost.Source)},
		{Path: "cost.socket", Value: form.OrEmpty(socketAddress()).In(&c.Cost.Socket)},
		{Path: "table.size", Value: form.Integer(minTable, maxTable).In(&c.Table.Size), Restart: true},
		{Path: "timeouts.body", Value: form.Duration(time.Second, time.Hour).In(&t.Body)},
		{Path: "timeouts.idle", Value: form.Duration(time.Second, time.Hour).In(&t.Idle), Restart: true},
		{Path: "timeouts.upgrade", Value: form.Duration(time.Second, day).In(&t.Upgrade)},
		{Path: "timeouts.drain", Value: form.Duration(0, time.Hour).In(&t.Drain)},
	}
}

// minShare is the smallest share. With it, the time to earn one CPU-second still fits into a time.Duration.
const minShare = 0.000001

// share reads a share: a fraction above 0.
func share() form.Scalar[float64] {
	return form.Number("a number from 0.000001 to 1", minShare, 1)
}

// Buffer sets how bodies are buffered to keep slow clients from holding workers of the backend. Sizes are in
// bytes.
type Buffer struct {
	Request   int64  // the largest request body that is read before the request goes to the backend; larger bodies stream
	Response  int64  // the most bytes of a response that are buffered for a slow client; 0: responses stream
	Memory    int64  // the most memory of all buffers together
	Directory string // the directory on a disk for the buffers' files, which have no names
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
		{Path: "buffer.request", Value: form.Size(terabyte).In(&b.Request)},
		{Path: "buffer.response", Value: form.Size(terabyte).In(&b.Response)},
		{Path: "buffer.memory", Value: form.Size(terabyte).In(&b.Memory)},
		{Path: "buffer.directory", Value: absolutePath("a directory").In(&b.Directory)},
	}
}
