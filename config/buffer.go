package config

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

const (
	gigabyte = 1 << 30
	terabyte = 1 << 40
)

// bufferSettings are the keys of buffer.
func bufferSettings(b *Buffer) []setting {
	return []setting{
		{path: "buffer.requestMemory", value: size(&b.RequestMemory, gigabyte)},
		{path: "buffer.request", value: size(&b.Request, terabyte)},
		{path: "buffer.responseMemory", value: size(&b.ResponseMemory, gigabyte)},
		{path: "buffer.response", value: size(&b.Response, terabyte)},
		{path: "buffer.memory", value: size(&b.Memory, terabyte)},
		{path: "buffer.disk", value: size(&b.Disk, 1024*terabyte)},
		{path: "buffer.directory", value: directory(&b.Directory)},
		{path: "buffer.perAddress", value: share(&b.PerAddress)},
	}
}

// sizeUnits are what a size may end in, the largest first. They are powers of
// 1024, as Apache, nginx and PHP have them.
func sizeUnits() []string { return []string{"TB", "GB", "MB", "KB", "B"} }

// size takes a number of bytes, at most so many: 65536, 64KB.
func size(p *int64, most int64) scalar {
	return scalar{
		set: func(text string) error {
			n, err := parseSize(text)
			if err != nil {
				return err
			}
			if n > most {
				return fmt.Errorf("must be a size from 0 to %s", shortSize(most))
			}
			*p = n
			return nil
		},
		get: func() string { return shortSize(*p) },
	}
}

func parseSize(text string) (int64, error) {
	digits, unit := strings.ToUpper(text), int64(1)
	for i, name := range sizeUnits() {
		if before, ok := strings.CutSuffix(digits, name); ok {
			digits, unit = strings.TrimRight(before, " "), 1<<(10*(len(sizeUnits())-1-i))
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && int64(n) > (1<<63-1)/unit:
		return 0, errors.New("is too large for a size")
	case err != nil:
		return 0, errors.New("must be a size: a whole number of bytes, or of KB, MB, GB or TB, such as 64KB")
	}
	return int64(n) * unit, nil
}

// shortSize is a size in the largest unit that leaves a whole number.
func shortSize(n int64) string {
	for i, name := range sizeUnits() {
		unit := int64(1) << (10 * (len(sizeUnits()) - 1 - i))
		if n >= unit && n%unit == 0 && unit > 1 {
			return strconv.FormatInt(n/unit, 10) + name
		}
	}
	return strconv.FormatInt(n, 10)
}

// directory is an absolute path. Whether it is there is found out as it is used.
func directory(p *string) scalar {
	return scalar{
		set: func(text string) error {
			if !path.IsAbs(text) {
				return errors.New("must be the absolute path of a directory on a disk")
			}
			*p = path.Clean(text)
			return nil
		},
		get: func() string { return *p },
	}
}
