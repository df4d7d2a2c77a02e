// Package certificates keeps the TLS certificates of a server, and reads them again when their files change. If
// a certificate or its key can't be read, for example because a file is incomplete, the previous certificate
// stays in use. The package can also get certificates from an authority (ACME).
//
//	store.go   which certificate a client gets, changes of the files, and the configuration of TLS
//	pair.go    a certificate with its key, and where to find such pairs: files, and directories of certbot
//	           and other programs
//	acme.go    certificates from an authority
package certificates
