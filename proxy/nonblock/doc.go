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
