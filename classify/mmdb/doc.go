// Package mmdb tells what addresses belong to, by MaxMind DB files of the administrator's:
// their autonomous system, and their country.
//
// A Store has the files in memory, and reads them again when they change. Whoever asks takes no
// lock and does no I/O, not even by touching a page that is not there: files are not mapped, so
// that one that is written over while it is used harms nobody. All of a new file is gone through
// before it takes the place of the one before: one that is broken, half-written, or of another
// kind is told of with its name, and changes nothing.
package mmdb
