package replay

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines reads the lines of a log and keeps account of those that are bad.
type lines struct {
	reader *bufio.Reader
	format Format
	parser parser
	counts Lines
	number int
}

// Lines is what became of the lines of a log.
type Lines struct {
	Requests  int     `json:"requests"`  // that were replayed
	None      int     `json:"none"`      // that are no requests: connections without one, other lines of our log
	Bad       int     `json:"bad"`       // that could not be read
	Unordered int     `json:"unordered"` // left out, as they are too far behind others
	Clipped   int     `json:"clipped"`   // requests that took longer than the window; they come later than they did
	LeftOut   int     `json:"leftOut"`   // that tempomat-proxy says are missing
	Faults    []Fault `json:"faults,omitempty"`
}

// longestLine is the longest line, in bytes.
const longestLine = 64 << 10

func newLines(r io.Reader, f Format) *lines {
	l := &lines{reader: bufio.NewReaderSize(r, longestLine), format: f}
	if f == Auto || f == "" {
		l.format = detect(l.reader)
	}
	l.parser = l.format.parser()
	return l
}

// next reads the next request. Its texts hold until the next call. At the end of the
// log it is io.EOF.
func (l *lines) next(e *entry) error {
	for {
		line, err := l.line()
		if errors.Is(err, io.EOF) {
			if l.counts.Requests == 0 {
				return l.failure()
			}
			return io.EOF
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		if err == nil {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			*e = entry{}
			err = l.parser.parse(line, e)
		}
		switch {
		case err == nil:
			l.counts.Requests++
			l.counts.LeftOut += e.leftOut
			return nil
		case errors.Is(err, errNone):
			l.counts.None++
		default:
			if l.fault(err); l.counts.Bad >= hopeless && l.counts.Requests == 0 {
				return l.failure()
			}
		}
	}
}

// line reads the next one. Of one that is too long the rest is thrown away.
func (l *lines) line() ([]byte, error) {
	l.number++
	line, err := l.reader.ReadSlice('\n')
	switch {
	case err == nil:
		return line, nil
	case err == io.EOF && len(line) > 0:
		return line, nil
	case !errors.Is(err, bufio.ErrBufferFull):
		return nil, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.reader.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return nil, errTooLong
}

func (l *lines) fault(err error) {
	if l.counts.Bad++; len(l.counts.Faults) < faultsNamed {
		l.counts.Faults = append(l.counts.Faults, Fault{Line: l.number, Reason: err.Error()})
	}
}

func (l *lines) failure() error { return &FormatError{Format: l.format, Faults: l.counts.Faults} }
