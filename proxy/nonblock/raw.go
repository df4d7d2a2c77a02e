//go:build linux && (amd64 || arm64) && !race

// Package nonblock reads and writes sockets that never wait: those of the runtime's poller.
//
// A system call that may wait is announced to the runtime: its scheduler is to find another
// thread for the goroutines behind it, and for that a thread of the runtime's looks after the
// others each 20 µs while any such call is under way. Of a proxy whose requests are a handful
// of short calls that, and the announcements, took a sixth of all CPU time (measured in pairs,
// 64 connections). These calls return at once, and so they are made without announcement.
//
// They wait for nobody only on a socket that does not block, as all of package net's are. What
// they return is what the kernel does: EAGAIN where they would have to wait. EINTR is
// taken care of. They may be called concurrently.
package nonblock

import (
	"syscall"
	"unsafe"
)

// Read reads what there is; 0 without an error: the other side has ended.
func Read(fd uintptr, p []byte) (n int, err error) {
	return call(syscall.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), 0)
}

// Peek reads the beginning of what there is, and leaves it there.
func Peek(fd uintptr, p []byte) (n int, err error) {
	return call(syscall.SYS_RECVFROM, fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// Write writes as much as there is room for.
func Write(fd uintptr, p []byte) (n int, err error) {
	return call(syscall.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), 0)
}

// WriteAll writes as much of several pieces, in their order, as there is room for. More than
// mostPieces it leaves.
func WriteAll(fd uintptr, pieces [][]byte) (n int, err error) {
	var v [mostPieces]syscall.Iovec
	pieces = pieces[:min(len(pieces), mostPieces)]
	for i, p := range pieces {
		v[i].Base = unsafe.SliceData(p)
		v[i].SetLen(len(p))
	}
	return call(syscall.SYS_WRITEV, fd, unsafe.Pointer(&v), uintptr(len(pieces)), 0)
}

// mostPieces is how many go in one call.
const mostPieces = 4

// call makes a system call of a file, memory, its length and flags. The memory is kept
// where it is, as the pointer becomes a number in the call itself.
func call(trap, fd uintptr, p unsafe.Pointer, size, flags uintptr) (n int, err error) {
	for {
		r, _, e := syscall.RawSyscall6(trap, fd, uintptr(p), size, flags, 0, 0)
		switch e {
		case 0:
			return int(r), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errAgain
		default:
			return 0, e
		}
	}
}

// errAgain is EAGAIN as an error that nobody has to make.
var errAgain error = syscall.EAGAIN
