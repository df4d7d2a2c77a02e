// Package testkit is what the tests of many packages share: waiting for what comes about,
// free ports, programs that a test needs and servers that it starts, certificates, a
// listener in memory, expected texts. It knows nothing of what is tested. What needs to,
// lies next to what it tests: packages quotatest, pebbletest and the like.
//
// Only tests import it, and packages for tests.
//
//	chromium.go       a browser, by its DevTools
//	certificates.go   an authority, and what it issues
//	eventually.go     waiting, and for how long
//	output.go         what a program has written, and waiting for a line of it
//	golden.go         texts that are expected, in files
//	pipes.go          a listener in memory
//	ports.go          ports that no other test has
//	programs.go       programs and rights that a test needs, and building our own
//	redis.go          a redis-server of a test's own
//	rediscluster.go   a cluster of them
//	terminal.go       a program in a real terminal, tmux's
package testkit
