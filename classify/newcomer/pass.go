package newcomer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"
)

const (
	// lifetime is how long a pass is valid. A person reads for minutes between two
	// pages, and is known by the address after half a minute of visiting anyway.
	// It is short because the browser sends the cookie for as long, also to caches
	// in front of the proxy, and because networks change hands.
	lifetime = 15 * time.Minute
	// tolerance is how far in the future a pass may have been issued: the clock
	// was set back meanwhile. A minute is more than NTP corrects at a stroke once it
	// runs. Who bears one from further ahead is a stranger again, as if it had none.
	tolerance = time.Minute

	stampSize = 4  // bytes: Unix seconds, enough until 2106
	macSize   = 16 // bytes of the HMAC, half of it (RFC 2104, 5)
	passSize  = stampSize + macSize
	passText  = (passSize*8 + 5) / 6 // characters

	// maxPasses is how many passes a cookie holds. A client that changes between
	// IPv4 and IPv6, or between networks, or meets several proxies in turn, each
	// with keys of its own, keeps a pass for each instead of one in the place of
	// the other.
	maxPasses = 4
	// maxTried bounds what a client can have us compute: two cookies' passes, as
	// there may be two cookies of a name.
	maxTried = 2 * maxPasses
)

// network bounds where a pass is valid. Carriers and offices change a client's
// address within it.
func network(client netip.Addr) (raw [16]byte, ok bool) {
	bits := 48
	if client.Is4() {
		bits = 24
	}
	prefix, err := client.Prefix(bits)
	if err != nil || !prefix.IsValid() {
		return raw, false // not reached: clients' addresses are valid and the lengths fit
	}
	return prefix.Addr().As16(), true
}

// sign returns the code of a pass that is issued at a time to a network.
func sign(key *[keySize]byte, stamp []byte, network *[16]byte) (code [macSize]byte) {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("tempomat pass"))
	mac.Write(stamp)
	mac.Write(network[:])
	var sum [sha256.Size]byte
	copy(code[:], mac.Sum(sum[:0]))
	return code
}

func encoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// issue makes the value of a cookie: a new pass, and behind it those that the
// client has and that may be valid in another network, or at another proxy.
func (k *keyRing) issue(now time.Time, lines []string, client netip.Addr) (value string, ok bool) {
	net, ok := network(client)
	if !ok {
		return "", false
	}
	var raw [passSize]byte
	binary.BigEndian.PutUint32(raw[:], uint32(now.Unix())) //nolint:gosec // until 2106
	code := sign(&k.signing(now).now, raw[:stampSize], &net)
	copy(raw[stampSize:], code[:])

	text := encoding().AppendEncode(make([]byte, 0, maxPasses*(passText+1)), raw[:])
	others := 0
	eachPass(lines, func(pass *[passSize]byte) bool {
		if others == maxPasses-1 {
			return false
		}
		if inTime(now, pass) {
			others++
			text = encoding().AppendEncode(append(text, '.'), pass[:])
		}
		return true
	})
	return string(text), true
}

// hasMostPasses tells whether a cookie has as many passes that are in time as it
// may hold, whoever issued them. Its client has just been redirected by so many
// proxies that know nothing of each other, and would go on to the next.
func hasMostPasses(now time.Time, lines []string) bool {
	n := 0
	eachPass(lines, func(pass *[passSize]byte) bool {
		if inTime(now, pass) {
			n++
		}
		return n < maxPasses
	})
	return n >= maxPasses
}

// verify tells whether any of a request's passes was issued by us, to the
// client's network, and is valid now.
func (k *keyRing) verify(now time.Time, lines []string, client netip.Addr) (valid bool) {
	if len(lines) == 0 {
		return false
	}
	eachPass(lines, func(pass *[passSize]byte) bool {
		valid = inTime(now, pass) && k.signed(pass, client)
		return !valid
	})
	return valid
}

// signed tells whether one of our keys signed a pass for the client's network. Each
// comparison takes a time that tells nothing of the right code.
func (k *keyRing) signed(pass *[passSize]byte, client netip.Addr) bool {
	net, ok := network(client)
	if !ok {
		return false
	}
	ks := k.keys.Load()
	for _, key := range [...]*[keySize]byte{&ks.now, &ks.old} {
		code := sign(key, pass[:stampSize], &net)
		if hmac.Equal(code[:], pass[stampSize:]) {
			return true
		}
	}
	return false
}

// inTime tells whether a pass is neither expired nor from the future.
func inTime(now time.Time, pass *[passSize]byte) bool {
	issued := time.Unix(int64(binary.BigEndian.Uint32(pass[:])), 0)
	age := now.Sub(issued)
	return age < lifetime && age >= -tolerance
}

// eachPass calls f with the passes of a Cookie header that are well-formed, until
// it returns false. Everything between two dots of our cookies counts as one of
// the maxTried that are looked at.
func eachPass(lines []string, f func(*[passSize]byte) bool) {
	tried := 0
	for _, line := range lines {
		start, end := findPass(line, 0)
		for start >= 0 {
			value := strings.Trim(line[start+len(assignment):end], blanks)
			for more := true; more; {
				if tried++; tried > maxTried {
					return
				}
				var text string
				text, value, more = strings.Cut(value, ".")
				if pass, ok := parsePass(text); ok && !f(&pass) {
					return
				}
			}
			start, end = findPass(line, end)
		}
	}
}

// parsePass reads one pass. There is one text for each.
func parsePass(text string) (pass [passSize]byte, ok bool) {
	if len(text) != passText {
		return pass, false
	}
	var src [passText]byte
	copy(src[:], text)
	var dst [passSize]byte
	n, err := encoding().Decode(dst[:], src[:])
	return dst, err == nil && n == passSize
}
