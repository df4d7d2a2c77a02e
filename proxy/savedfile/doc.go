// Package savedfile keeps what has to survive a restart in files: each is written as a
// whole or not at all, says of itself what it is, and is believed only if nothing in it
// was changed and nobody else can have written it.
//
//	envelope.go  what is around the data: kind, version, checksums
//	file.go      how a file is replaced, and read
package savedfile
