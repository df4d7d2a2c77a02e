// Package certificates keeps the certificates that a server shows, and reads them again when
// their files change. A pair that cannot be read, as it is half-written for one, changes
// nothing: the one that was read before stays.
//
//	store.go   which certificate a client is shown
//	source.go  where certificates are: files, and directories as certbot and others have them
//	pair.go    one certificate with its key
//	watch.go   what has changed, and what is said about it
//	config.go  how TLS is spoken with them
package certificates
