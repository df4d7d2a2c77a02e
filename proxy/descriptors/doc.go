// Package descriptors shares out the process's file descriptors: how many connections of
// clients may be open, and what happens when there is none left.
//
// That should not come about: ForClients leaves as many for all else as clients have.
// But HTTP/2 may have many requests at the backend on one connection, bodies wait in
// files, and the machine as a whole may have no file left (ENFILE). Then the clients'
// listener goes on trying, and tells its owner, who can close a connection; and the
// admin socket, which is needed most just then, has spare descriptors kept for it.
//
//	limit.go     how many descriptors there are, and how many are for clients
//	reserve.go   the spare ones
//	listener.go  accepting when there is none left
package descriptors
