package history

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"strings"
)

// What a URL is called.
//
// Which URLs are dear is told best by the URLs as they came. But URLs hold what must not
// lie in a file for a week: the token of a link that resets a password, an address of
// mail, what somebody searched for. No list of names (token, sid, email, ...) finds all of these.
// What is common to them is that few have them. So a path, or a parameter with its value,
// is written out once it has been asked for from three networks (/16, IPv6: /32), and by
// then belongs to the site and not to a visitor: title=Main_Page, action=history. Until then the
// path is its shape, and the value is *. What still looks like an address of mail or a
// random token is never written out, since links in mails are also opened by scanners.
//
// This is what the estimate of costs goes by, too: the first four parameters, and of
// their answers those that several agree on. And it makes the list more useful: a crawler
// that asks for the history of a hundred thousand pages is one line,
// /index.php?title=*&action=history.

const (
	// publicFrom is from how many networks a text was asked for before it is written out.
	publicFrom = 3
	// mostWitnessed is how many texts have witnesses in each of the two generations.
	mostWitnessed = 4096
	// mostParameters is how many parameters a name has, as the estimate of costs looks at.
	mostParameters = 4
	// mostName is the longest name of a parameter that is written out before it is public.
	mostName = 16
	// mostURL is how much of what a URL is called is kept, in bytes.
	mostURL = 160
	// mostPublic is the longest text that is written out, in bytes.
	mostPublic = 120
)

// witnesses are the networks that asked for something, as hashes; 0: none yet.
type witnesses [publicFrom]uint32

// names knows what may be written out. When a generation is full, the one before it is
// forgotten, but for what was asked for meanwhile.
type names struct {
	seed           maphash.Seed
	recent, before map[uint64]witnesses
}

func newNames() *names {
	return &names{seed: maphash.MakeSeed(), recent: make(map[uint64]witnesses)}
}

// network is the hash of the network of an address, 0 if it has none.
func (n *names) network(client netip.Addr) uint32 {
	bits := 16
	if client = client.Unmap(); client.Is6() {
		bits = 32
	}
	prefix, err := client.WithZone("").Prefix(bits)
	if err != nil {
		return 0
	}
	at := prefix.Addr().As16()
	return uint32(maphash.Bytes(n.seed, at[:])) | 1 //nolint:gosec // half of a hash is one
}

// isPublic notes that a text was asked for, and tells whether it may be written out.
func (n *names) isPublic(within, text string, network uint32) bool {
	var sum [16]byte
	binary.BigEndian.PutUint64(sum[:], maphash.String(n.seed, within))
	binary.BigEndian.PutUint64(sum[8:], maphash.String(n.seed, text))
	key := maphash.Bytes(n.seed, sum[:])
	w, ok := n.recent[key]
	if !ok {
		if len(n.recent) == mostWitnessed {
			n.recent, n.before = make(map[uint64]witnesses), n.recent
		}
		w = n.before[key]
	}
	if w.add(network) || !ok {
		n.recent[key] = w
	}
	return w[publicFrom-1] != 0 && !isSecret(text)
}

// add tells whether the network is a new one.
func (w *witnesses) add(network uint32) bool {
	if network == 0 {
		return false
	}
	for i, one := range w {
		switch one {
		case network:
			return false
		case 0:
			w[i] = network
			return true
		}
	}
	return false
}

// url is what a target is called, of at most mostURL bytes, in the memory of the buffer.
func (n *names) url(buffer []byte, target string, full bool, shape string, network uint32) []byte {
	name := n.appendURL(buffer[:0], target, full, shape, network)
	if len(name) > mostURL {
		name = append(name[:mostURL-1], '*')
	}
	return name
}

// appendURL appends what a target is called. full tells that there may be more of it.
func (n *names) appendURL(dst []byte, target string, full bool, shape string, network uint32) []byte {
	path, query, asks := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") || full && !asks || !n.isPublic("", path, network) {
		path, _, _ = strings.Cut(shape, "?")
	}
	dst = append(dst, path...)
	if !asks {
		return dst
	}
	separator := byte('?')
	for given := 0; query != "" && given < mostParameters; {
		end := strings.IndexAny(query, "&;")
		if end < 0 && full {
			return append(dst, separator, '*')
		}
		parameter := query
		if query = ""; end >= 0 {
			parameter, query = parameter[:end], parameter[end+1:]
		}
		if parameter == "" {
			continue
		}
		dst = append(dst, separator)
		separator = '&'
		given++
		if n.isPublic(shape, parameter, network) {
			dst = append(dst, parameter...)
		} else {
			dst = appendFolded(dst, parameter)
		}
	}
	if query != "" {
		dst = append(dst, "&*"...)
	}
	return dst
}

// appendFolded appends a parameter without its value.
func appendFolded(dst []byte, parameter string) []byte {
	name, _, valued := strings.Cut(parameter, "=")
	if name == "" || len(name) > mostName || !isWord(name) {
		name = "*"
	}
	dst = append(dst, name...)
	if valued && name != "*" {
		dst = append(dst, "=*"...)
	}
	return dst
}

// isWord tells whether a text has nothing but letters and what stands between words.
func isWord(text string) bool {
	for i := range len(text) {
		if !isLetter(text[i]) && !strings.ContainsRune("-_.[]", rune(text[i])) {
			return false
		}
	}
	return true
}

// isSecret tells whether a text looks like an address of mail, a telephone number or a
// random token.
func isSecret(text string) bool {
	if len(text) > mostPublic || strings.Contains(text, "@") || strings.Contains(text, "%40") {
		return true
	}
	letters, digits := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case isLetter(c):
			letters++
		case c >= '0' && c <= '9':
			digits++
		default:
			letters, digits = 0, 0
		}
		if digits > 8 || letters > 0 && digits > 0 && letters+digits >= 8 {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
