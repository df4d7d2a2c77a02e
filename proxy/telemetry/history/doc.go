// Package history adds up what requests cost, hour by hour, for the last week: in total,
// by group, and for the keys of each class, the URL shapes and the URLs that cost most.
// A History is told the time, and does no input or output.
//
//	history.go  the hours: the one that runs, and those that are over
//	hour.go     the hour that runs, and what costs most in it
//	names.go    what a URL is called, so that nobody's secrets are kept
//	block.go    an hour as bytes, and as it is told
//
// # Memory
//
// The hour that runs counts up to 500 names of each kind, which take 1 MB at most. Hours
// that are over are kept as the bytes that go to the file: 10 to 15 KB of a usual hour, 33 KB
// of one whose names are all as long as they may be, so 2 MB for a usual week and 5.5 MB at
// most. With the witnesses of names that is less than 8 MB, whatever clients do.
package history
