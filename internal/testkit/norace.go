//go:build !race

package testkit

// RaceDetector tells whether the test was built with it. What has one goroutine only and
// takes long with it may do less then, where make test runs it without, too.
const RaceDetector = false
