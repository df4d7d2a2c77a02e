// Package testkit contains helpers for the tests of many packages: they wait for events, reserve ports, find
// the programs that a test needs, start servers, issue certificates, listen in memory, and compare values and
// texts. The package doesn't depend on the packages under test. Helpers that do are next to those packages:
// quotatest, pebbletest and others.
//
// Only tests, and packages for tests, may import testkit.
//
//	chromium.go       a browser, controlled through the DevTools protocol
//	certificates.go   a certificate authority and its certificates
//	eventually.go     waiting until a condition is true, for a limited time
//	files.go          files and directories, and errors that end the test
//	output.go         the output of a program, and waiting for a line of it
//	golden.go         expected texts in files
//	heap.go           the memory in use
//	pipes.go          a listener in memory
//	ports.go          ports that no other test uses, and a listener
//	process.go        a program that runs until the test ends
//	programs.go       programs and permissions that a test needs, and builds of this module's programs
//	redis.go          a redis-server for one test
//	same.go           a comparison that fails a test
//	terminal.go       a program in a real terminal (tmux)
package testkit
