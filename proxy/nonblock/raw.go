//go:build linux && (amd64 || arm64) && !race

// Package nonblock reads and writes sockets without announcing the system calls to Go's scheduler.
//
// Go announces each system call that may wait to its scheduler, which then finds another thread for the
// goroutines that are ready to run. While such a call runs, a thread of the runtime also checks all other
// threads every 20 µs. A request needs a handful of short system calls, and these announcements took a sixth of
// the proxy's CPU time (measured in pairs of runs, with 64 connections). The calls of this package never wait,
// so they need no announcement.
//
// Sockets must be in non-blocking mode, as all sockets of package net are. The functions return the kernel's
// errors, such as EAGAIN if they would have to wait, and repeat calls that a signal interrupted (EINTR). They
// may be called concurrently.
package nonblock

import (
	"syscall"
	"unsafe"
)

// Read reads the available bytes. 0 without an error means that the other side has closed its end.
func Read(fd uintptr, p []byte) (n int, err error) {
	return call(syscall.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), 0)
}

// Peek reads the beginning of the available bytes and leaves them in the socket.
func Peek(fd uintptr, p []byte) (n int, err error) {
	return call(syscall.SYS_RECVFROM, fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// Write writes as many bytes as the socket has room for.
func Write(fd uintptr, p []byte) (n int, err error) {
	return call(syscall.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), 0)
}

// WriteAll writes as much of several pieces, in order, as the socket has room for. It ignores pieces after
// the first mostPieces.
func WriteAll(fd uintptr, pieces [][]byte) (n int, err error) {
	if len(pieces) == 1 { // most answers consist of one piece, and write(2) is faster than writev(2)
		return Write(fd, pieces[0])
	}
	var v [mostPieces]syscall.Iovec
	pieces = pieces[:min(len(pieces), mostPieces)]
	for i, p := range pieces {
		v[i].Base = unsafe.SliceData(p)
		v[i].SetLen(len(p))
	}
	return call(syscall.SYS_WRITEV, fd, unsafe.Pointer(&v), uintptr(len(pieces)), 0)
}

// mostPieces is the largest number of pieces that one call writes.
const mostPieces = 4

// call makes a system call with a file, memory, its length, and flags. The memory can't move, because the
// pointer becomes a number only in the call itself.
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

// errAgain is EAGAIN as an error, made only once.
var errAgain error = syscall.EAGAIN
