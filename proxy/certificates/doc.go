// Package certificates keeps the certificates that a server shows, and reads them again when
// their files change. A pair that can't be read, for example because it is half-written,
// changes nothing: the previous one stays. It also gets certificates from an authority.
//
//	store.go   which certificate a client is shown, what has changed, and how TLS is spoken with them
//	pair.go    one certificate with its key, and where such pairs are: files, and directories as
//	           certbot and others have them
//	acme.go    certificates that are got from an authority
package certificates
