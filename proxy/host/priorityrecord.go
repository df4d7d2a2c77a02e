package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"syscall"

	"tempomat/cpuaccount/process"
)

// The file is
//
//	segment ...  four of them, each for one running proxy
//
// and a segment is
//
//	64 bytes     magic, the id of the boot, the inode of the PID namespace, CRC-32C
//	entry ...    254 of them, each of 32 bytes: PID (4), start (8), own, before and set (1 each,
//	             plus 20), zeros, CRC-32C (4)
//
// Numbers are big-endian. An entry whose CRC is wrong is none, as one of zeros is.
const (
	magic       = "tempomat nice 1\n"
	segments    = 4
	slots       = 254
	headSize    = 64
	entrySize   = 32
	segmentSize = headSize + slots*entrySize
	fileSize    = segments * segmentSize
	bootSize    = 36 // a UUID
)

// recordFile is the file that proxies on this machine share. It is not for concurrent use.
type recordFile struct {
	*os.File
	head [headSize]byte // of segments of this boot and namespace
	own  int            // the segment that is ours; negative: none yet
}

// openFile opens the record, or makes it.
func openFile(path string) (*recordFile, error) {
	head, err := headOf(bootFile, namespaceFile)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600) //nolint:gosec // the configuration's path
	if err != nil {
		return nil, err
	}
	if err := prepare(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &recordFile{File: f, head: head, own: -1}, nil
}

// prepare makes the file as long as it is to be. It is used only if nobody but this
// process's user and root can have written it.
func prepare(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", f.Name())
	case ok && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()), info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others, and so is not believed", f.Name())
	case ok && owner.Nlink > 1:
		return fmt.Errorf("%s is another file's name, too", f.Name())
	case info.Size() > fileSize:
		return fmt.Errorf("%s is another kind of file", f.Name())
	case info.Size() < fileSize:
		// Not by Truncate: what is to be written later has its room on the disk now.
		_, err = f.WriteAt(make([]byte, fileSize-info.Size()), info.Size())
	}
	return err
}

const (
	bootFile      = "/proc/sys/kernel/random/boot_id"
	namespaceFile = "/proc/self/ns/pid"
)

// headOf is the head of a segment whose processes are numbered as ours are.
func headOf(boot, namespace string) (head [headSize]byte, err error) {
	id, err := os.ReadFile(boot)
	if err != nil {
		return head, err
	}
	info, err := os.Stat(namespace)
	if err != nil {
		return head, err
	}
	copy(head[:], magic)
	copy(head[len(magic):][:bootSize], bytes.TrimSpace(id))
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		binary.BigEndian.PutUint64(head[len(magic)+bootSize:], s.Ino)
	}
	binary.BigEndian.PutUint32(head[headSize-4:], sum(head[:headSize-4]))
	return head, nil
}

// take makes a segment that nobody holds ours, and empties it.
func (f *recordFile) take() (*record, error) {
	for i := range segments {
		if !lock(f.File, i*segmentSize, segmentSize) {
			continue
		}
		f.own = i
		return &record{file: f}, f.empty(i)
	}
	return nil, fmt.Errorf("%s: other proxies use all of it", f.Name())
}

// empty writes a segment without entries. The head comes last.
func (f *recordFile) empty(i int) error {
	at := int64(i * segmentSize)
	if _, err := f.WriteAt(make([]byte, segmentSize), at); err != nil {
		return err
	}
	_, err := f.WriteAt(f.head[:], at)
	return err
}

// left is what restore found.
type left struct {
	Left
	failure error // of the file
}

// restore puts back what stands in segments that nobody holds, and takes it out of the
// record.
func (f *recordFile) restore(k kernel) (all left) {
	for i := range segments {
		if i == f.own {
			continue
		}
		if !lock(f.File, i*segmentSize, segmentSize) {
			all.Busy++
			continue
		}
		all.failure = errors.Join(all.failure, f.restoreSegment(k, i, &all.Left))
		unlock(f.File, i*segmentSize, segmentSize)
	}
	return all
}

func (f *recordFile) restoreSegment(k kernel, i int, all *Left) error {
	entries, err := f.read(i)
	if err != nil {
		return err
	}
	for slot, e := range entries {
		switch putBack(k, e) {
		case restored:
			all.Restored++
		case same:
		case ended:
			all.Ended++
		case abandoned:
			all.Abandoned++
		case failed:
			all.Failed++
			continue
		}
		if _, e := f.WriteAt(make([]byte, entrySize), offset(i, slot)); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// read returns a segment's entries by their slots. One of another boot, or of another PID
// namespace, has none.
func (f *recordFile) read(i int) (map[int]entry, error) {
	var b [segmentSize]byte
	if _, err := f.ReadAt(b[:], int64(i*segmentSize)); err != nil {
		return nil, err
	}
	if !bytes.Equal(b[:headSize], f.head[:]) {
		return nil, nil
	}
	entries := make(map[int]entry)
	for slot := range slots {
		if e, ok := decode(b[headSize+slot*entrySize:][:entrySize]); ok {
			entries[slot] = e
		}
	}
	return entries, nil
}

func (f *recordFile) close() error { return f.Close() }

func offset(segment, slot int) int64 { return int64(segment*segmentSize + headSize + slot*entrySize) }

// record is a segment that is ours.
type record struct{ file *recordFile }

func (r *record) write(slot int, e entry) error {
	var b [entrySize]byte
	e.encode(&b)
	_, err := r.file.WriteAt(b[:], offset(r.file.own, slot))
	return err
}

func (r *record) clear(slot int) error {
	var b [entrySize]byte
	_, err := r.file.WriteAt(b[:], offset(r.file.own, slot))
	return err
}

// isOthers tells whether another proxy has lowered a process: one that is about to be
// replaced, or has crashed. It is theirs until they have put it back.
func (r *record) isOthers(id process.ID) bool {
	for i := range segments {
		if i == r.file.own {
			continue
		}
		entries, err := r.file.read(i)
		if err != nil {
			return true
		}
		for _, e := range entries {
			if e.id == id {
				return true
			}
		}
	}
	return false
}

func (e entry) encode(b *[entrySize]byte) {
	binary.BigEndian.PutUint32(b[0:], uint32(e.id.PID)) //nolint:gosec // not negative
	binary.BigEndian.PutUint64(b[4:], e.id.Start)
	for i, nice := range [...]int{e.own, e.before, e.set} {
		b[12+i] = byte(nice + highest) //nolint:gosec // 0 to 40
	}
	binary.BigEndian.PutUint32(b[entrySize-4:], sum(b[:entrySize-4]))
}

// highest is the nice value of the highest priority, without its sign.
const highest = 20

func decode(b []byte) (e entry, ok bool) {
	if e.id.PID = int(binary.BigEndian.Uint32(b)); e.id.PID <= 0 {
		return e, false
	}
	e.id.Start = binary.BigEndian.Uint64(b[4:])
	e.own, e.before, e.set = int(b[12])-highest, int(b[13])-highest, int(b[14])-highest
	ok = binary.BigEndian.Uint32(b[entrySize-4:]) == sum(b[:entrySize-4]) &&
		e.own < e.set && e.own <= e.before && e.before <= e.set && e.set <= idle
	return e, ok
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
