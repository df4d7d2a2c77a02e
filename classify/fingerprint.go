package classify

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
)

// A fingerprint is which of the usual fields a program sends by itself, with whatever it asks
// for, and in which order: what tells one from another that says it is the same. Values are
// not in it, so that it tells programs and not people apart, and all with the same version of
// a browser have the same. Nor is what depends on the request or on the person: Cookie, Referer,
// Range, Content-Type, If-None-Match and their like; nor what proxies add; nor a name that
// somebody made up, so that no number of these makes more of one client.
//
// A browser has two or three, as it sends other fields for a page than for what is in it.
// With HTTP/2 there is no order: names only count.

const (
	// mostFields is how many fields of a header are looked at.
	mostFields = 64
	// FNV-1a. Nobody is kept out by it: who wants another's fingerprint sends what that one
	// sends.
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// appendFingerprint appends 16 hexadecimal digits.
func appendFingerprint(dst []byte, r *http.Request, fields Fields) []byte {
	sum := taken(taken(fnvOffset, byte(r.ProtoMajor&3)), byte(r.ProtoMinor&3))
	if fields != nil {
		for at := range mostFields {
			name := fields.Field(at)
			if name == "" {
				break
			}
			if mark := markOf(name); mark != 0 {
				sum = taken(sum, mark)
			}
		}
	} else {
		var sent uint32
		for name := range r.Header {
			sent |= 1 << markOf(name)
		}
		sent &^= 1 // of those without a mark
		var all [4]byte
		binary.LittleEndian.PutUint32(all[:], sent)
		for _, x := range all {
			sum = taken(sum, x)
		}
	}
	var digest [8]byte
	binary.BigEndian.PutUint64(digest[:], sum)
	return hex.AppendEncode(dst, digest[:])
}

// taken is the sum with a byte more.
func taken(sum uint64, x byte) uint64 { return (sum ^ uint64(x)) * fnvPrime }

// markOf is a number of 1 to 31 for each field that counts; 0: it does not. It is a part of
// what sidecars tell each other, and so it never changes.
func markOf(name string) byte {
	switch name {
	case "Host":
		return 1
	case "Connection":
		return 2
	case "User-Agent":
		return 3
	case "Accept":
		return 4
	case "Accept-Encoding":
		return 5
	case "Accept-Language":
		return 6
	case "Accept-Charset":
		return 7
	case "Sec-Ch-Ua":
		return 8
	case "Sec-Ch-Ua-Mobile":
		return 9
	case "Sec-Ch-Ua-Platform":
		return 10
	case "Sec-Fetch-Site":
		return 11
	case "Sec-Fetch-Mode":
		return 12
	case "Sec-Fetch-Dest":
		return 13
	case "Dnt":
		return 14
	case "Sec-Gpc":
		return 15
	case "Te":
		return 16
	case "Keep-Alive":
		return 17
	case "Proxy-Connection":
		return 18
	case "From":
		return 19
	case "Upgrade":
		return 20
	case "Http2-Settings":
		return 21
	case "Save-Data":
		return 22
	case "Device-Memory":
		return 23
	}
	return 0
}
