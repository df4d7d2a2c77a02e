package savedfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file is
//
//	"tempomat saved "        so that people see what it is
//	part                     named "kind": the kind, and the version as a uint16
//	part ...                 the data
//	part                     named "end": how many parts came before, as a uint32
//
// and a part is the length of its name as a byte, that of its data as a uint32, name,
// data, and the CRC-32C of all of that. All numbers are big-endian.
const (
	magic    = "tempomat saved "
	kindPart = "kind"
	endPart  = "end"
	// mostName is the longest name of a part, in bytes.
	mostName = 64
	// besideData is what a part takes but for its name and its data.
	besideData = 1 + 4 + 4
)

// ErrForeign says that a file is none of ours, or one of another kind.
var ErrForeign = errors.New("it is another kind of file")

// Part is some data with a name of 1 to 64 bytes other than "end". Names may repeat.
type Part struct {
	Name string
	Data []byte
}

// Write writes the text of a file of a kind.
func Write(w io.Writer, kind string, version uint16, parts []Part) error {
	if _, err := io.WriteString(w, magic); err != nil {
		return err
	}
	if err := writePart(w, Part{kindPart, binary.BigEndian.AppendUint16([]byte(kind), version)}); err != nil {
		return err
	}
	for _, p := range parts {
		if err := writePart(w, p); err != nil {
			return err
		}
	}
	return writePart(w, Part{endPart, binary.BigEndian.AppendUint32(nil, uint32(len(parts)))}) //nolint:gosec // fewer
}

func writePart(w io.Writer, p Part) error {
	var buffer [5 + mostName]byte
	head := append(buffer[:0], byte(len(p.Name)))                   //nolint:gosec // at most mostName
	head = binary.BigEndian.AppendUint32(head, uint32(len(p.Data))) //nolint:gosec // files are smaller
	head = append(head, p.Name...)
	sum := crc32.Update(checksum(head), castagnoli(), p.Data)
	for _, b := range [...][]byte{head, p.Data, binary.BigEndian.AppendUint32(nil, sum)} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// Decode returns the parts of a file of that kind and version, which share memory with
// the text. What was cut off, changed or made by another program is an error, and
// nothing of it is returned.
func Decode(text []byte, kind string, version uint16) ([]Part, error) {
	if !IsSaved(text) {
		return nil, ErrForeign
	}
	rest := text[len(magic):]
	head, rest, err := cutPart(rest)
	switch {
	case err != nil:
		return nil, err
	case head.Name != kindPart || len(head.Data) < 2 || string(head.Data[:len(head.Data)-2]) != kind:
		return nil, ErrForeign
	}
	if v := binary.BigEndian.Uint16(head.Data[len(head.Data)-2:]); v != version {
		return nil, fmt.Errorf("it is of version %d, and this release reads version %d", v, version)
	}
	var parts []Part
	for {
		var p Part
		if p, rest, err = cutPart(rest); err != nil {
			return nil, err
		}
		if p.Name != endPart {
			parts = append(parts, p)
			continue
		}
		if len(p.Data) != 4 || int64(binary.BigEndian.Uint32(p.Data)) != int64(len(parts)) || len(rest) > 0 {
			return nil, errors.New("it is damaged: its end is not where it says")
		}
		return parts, nil
	}
}

// IsSaved tells whether a text begins as what Write makes.
func IsSaved(text []byte) bool { return bytes.HasPrefix(text, []byte(magic)) }

func cutPart(b []byte) (p Part, rest []byte, err error) {
	if len(b) < besideData {
		return p, nil, errors.New("it is cut off")
	}
	name, data := int64(b[0]), int64(binary.BigEndian.Uint32(b[1:]))
	if name == 0 || name > mostName || besideData+name+data > int64(len(b)) {
		return p, nil, errors.New("it is damaged, or cut off")
	}
	end := 5 + name + data
	if checksum(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return p, nil, errors.New("it is damaged: a checksum is wrong")
	}
	return Part{string(b[5 : 5+name]), b[5+name : end : end]}, b[end+4:], nil
}
