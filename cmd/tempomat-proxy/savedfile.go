package main

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"tempomat/cmd/internal/daemon"
)

// What must survive a restart is in files that are written completely or not at all, name their
// own kind, and are trusted only if they are unchanged and no other user can have written them.
// Such a file is savedMagic, which shows people what it is, a saved as gob, and the CRC-32C of
// all of that.
const savedMagic = "tempomat saved "

// saved is what is in a file.
type saved struct {
	Kind    string
	Version int
	Parts   []savedPart
}

// savedPart is some data with a name. Names may repeat.
type savedPart struct {
	Name string
	Data []byte
}

// errForeign: the file isn't tempomat's, or is of another kind.
var errForeign = errors.New("it is another kind of file")

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// write writes the text of a file.
func (s *saved) write(w io.Writer) error {
	var text bytes.Buffer
	text.WriteString(savedMagic)
	if err := gob.NewEncoder(&text).Encode(s); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(text.Bytes(), crc32.Checksum(text.Bytes(), castagnoli())))
	return err
}

// isSaved reports whether a text begins as what write makes.
func isSaved(text []byte) bool { return bytes.HasPrefix(text, []byte(savedMagic)) }

// decodeSaved returns the parts of a file of that kind and version. A file that was cut off,
// changed or made by another program is an error, and nothing of it is returned.
func decodeSaved(text []byte, kind string, version int) ([]savedPart, error) {
	if !isSaved(text) {
		return nil, errForeign
	}
	end := len(text) - crc32.Size
	if end < len(savedMagic) || crc32.Checksum(text[:end], castagnoli()) != binary.BigEndian.Uint32(text[end:]) {
		return nil, errors.New("it is damaged, cut off, or of another release")
	}
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(text[len(savedMagic):end])).Decode(&s); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	switch {
	case s.Kind != kind:
		return nil, errForeign
	case s.Version != version:
		return nil, fmt.Errorf("it is of version %d, and this release reads version %d", s.Version, version)
	}
	return s.Parts, nil
}

// replaceFile puts a file in the place of another one, which only this process's user may read, and makes its directory.
func replaceFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return daemon.ReplaceFile(path, 0o600, daemon.Keep, daemon.Keep, write)
}

// readOwn reads a file of at most that many bytes that only this process's user and root can
// have written, so its content is trusted. The error is fs.ErrNotExist if there is none.
func readOwn(path string, most int64) ([]byte, error) {
	// It could be a pipe without a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is not a file of at most %d MB", path, most>>20)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()) || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by others, and so is not believed", path)
	}
	return io.ReadAll(io.LimitReader(file, most))
}
