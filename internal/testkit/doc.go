// Package testkit contains what the tests of many packages have in common: waiting for events, free ports,
// programs that a test needs and servers that it starts, certificates, a listener in memory, expected values and texts.
// It doesn't depend on the packages under test. Helpers that do are next to those packages: quotatest,
// pebbletest and others.
//
// Only tests, and packages for tests, may import it.
//
//	chromium.go       a browser, driven through its DevTools
//	certificates.go   a certificate authority, and what it issues
//	eventually.go     waits until something is true, for a limited time
//	files.go          files and directories, and errors that end the test
//	output.go         the output of a program, and waiting for a line of it
//	golden.go         expected texts in files
//	heap.go           the memory in use
//	pipes.go          a listener in memory
//	ports.go          ports that no other test uses
//	process.go        a program that runs until the test ends
//	programs.go       programs and rights that a test needs, and builds of this module's programs
//	redis.go          a redis-server for one test
//	same.go           a comparison that fails a test
//	terminal.go       a program in a real terminal (tmux)
package testkit
