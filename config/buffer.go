package config

import (
	"errors"
	"path"

	"tempomat/config/form"
)

// Buffer is where bodies wait, so that they do not hold a worker of the
// backend: requests until they are there as a whole, responses until slow
// clients have read them. All sizes are in bytes.
type Buffer struct {
	RequestMemory  int64   // most of a request's body in memory; the rest goes to a file
	Request        int64   // most of a request's body in all; what is larger streams; 0: all do
	ResponseMemory int64   // most of a response that waits in memory; the rest goes to a file
	Response       int64   // most of a response that waits in all; 0: responses stream
	Memory         int64   // most memory of all together
	Disk           int64   // most bytes in files of all together; 0: half of what is free on the disk
	Directory      string  // of the files, which have no names; on a disk
	PerAddress     float64 // part of Memory and of Disk that one address may use, above 0 to 1
}

const (
	gigabyte = 1 << 30
	terabyte = 1 << 40
)

func defaultBuffer() Buffer {
	return Buffer{
		RequestMemory: 64 << 10, Request: gigabyte, ResponseMemory: 64 << 10, Response: gigabyte,
		Memory: 32 << 20, Directory: "/var/tmp", PerAddress: 0.25,
	}
}

func bufferSettings(b *Buffer) []form.Setting {
	return []form.Setting{
		{Path: "buffer.requestMemory", Value: form.Size(gigabyte).In(&b.RequestMemory),
			Doc: "Most of a request's body in memory; the rest goes to a file."},
		{Path: "buffer.request", Value: form.Size(terabyte).In(&b.Request),
			Doc: "The largest body of a request that is read before the request goes to the backend. What is larger streams; 0: every body does."},
		{Path: "buffer.responseMemory", Value: form.Size(gigabyte).In(&b.ResponseMemory),
			Doc: "Most of a response that waits in memory; the rest goes to a file."},
		{Path: "buffer.response", Value: form.Size(terabyte).In(&b.Response),
			Doc: "Most of a response that waits for its client; beyond that the backend waits. 0: nothing waits, responses stream."},
		{Path: "buffer.memory", Value: form.Size(terabyte).In(&b.Memory),
			Doc: "Most memory of all buffers together."},
		{Path: "buffer.disk", Value: form.Size(1024 * terabyte).In(&b.Disk), Zero: "half of what is free",
			Doc: "Most bytes in files of all buffers together. 0: half of what is free when the first file is written. The last tenth of the file system is never used."},
		{Path: "buffer.directory", Value: directory().In(&b.Directory),
			Doc: "Where the files are. On a disk: a tmpfs is memory."},
		{Path: "buffer.perAddress", Value: share().In(&b.PerAddress),
			Doc: "Part of `buffer.memory` and of `buffer.disk` that one address (IPv6: a /64) may use."},
	}
}

// directory is an absolute path. Whether it is there is found out as it is used.
func directory() form.Scalar[string] {
	s := form.Text("path", "the absolute path of a directory", nil).Matching(`^/`)
	s.Parse = func(text string) (string, error) {
		if !path.IsAbs(text) {
			return "", errors.New("must be the absolute path of a directory on a disk")
		}
		return path.Clean(text), nil
	}
	return s
}
