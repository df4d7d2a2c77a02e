// Package spool keeps bytes for a reader that is slower than their writer:
// first in memory, then in a temporary file that has no name. What all spools
// together may keep is bounded, and so is what those of one address may.
//
// Room that is missing never costs a byte and never ends a transfer: the writer
// waits until the reader has taken the bytes from its hands. A full file
// system, a missing directory and a lack of file descriptors are such a lack of
// room; they are counted, not returned.
//
//	store.go    the budget that all spools share
//	space.go    what the file system has to spare
//	spool.go    one queue of bytes: its writer's side and its reader's
//	piece.go    where the queue's bytes are: blocks of memory, stretches of a file
//	file*.go    temporary files without a name
//
// The package starts no goroutine and reads no clock.
package spool
