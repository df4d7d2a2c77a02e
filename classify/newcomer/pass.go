package newcomer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tempomat/classify"
)

const (
	// lifetime is how long a pass is valid. A person reads for minutes between two
	// pages, and is known by the address after half a minute of visiting anyway.
	// It is short because the browser sends the cookie for as long, also to caches
	// in front of the proxy, and because networks change hands.
	lifetime = 15 * time.Minute
	// tolerance is how far in the future a pass may have been issued: the clock was set back in
	// the meantime. A minute is more than NTP corrects at once when it runs. A client with a
	// pass from further ahead is a stranger, as if it had none.
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
	if !client.IsValid() {
		return "", false
	}
	net := classify.NetworkOf(client).Addr().As16()
	var raw [passSize]byte
	binary.BigEndian.PutUint32(raw[:], uint32(now.Unix())) //nolint:gosec // until 2106
	code := sign(&k.keys.Load().now, raw[:stampSize], &net)
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

// hasMostPasses reports whether a cookie has as many passes that are in time as it
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

// verify reports whether any of a request's passes was issued by us, to the
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

// signed reports whether one of our keys signed a pass for the client's network. Each
// comparison takes a time that tells nothing of the right code.
func (k *keyRing) signed(pass *[passSize]byte, client netip.Addr) bool {
	if !client.IsValid() {
		return false
	}
	net := classify.NetworkOf(client).Addr().As16()
	ks := k.keys.Load()
	for _, key := range [...]*[keySize]byte{&ks.now, &ks.old} {
		code := sign(key, pass[:stampSize], &net)
		if hmac.Equal(code[:], pass[stampSize:]) {
			return true
		}
	}
	return false
}

// inTime reports whether a pass is neither expired nor from the future.
func inTime(now time.Time, pass *[passSize]byte) bool {
	issued := time.Unix(int64(binary.BigEndian.Uint32(pass[:])), 0)
	age := now.Sub(issued)
	return age < lifetime && age >= -tolerance
}

// eachPass calls f with the passes of a Cookie header that are well-formed, until
// it returns false. Everything between two dots of our cookies counts as one of
// the maxTried that are looked at. All of the header is searched, as a browser sends the oldest
// cookies first and ours is the youngest.
func eachPass(lines []string, f func(*[passSize]byte) bool) {
	tried := 0
	for _, line := range lines {
		if !strings.Contains(line, assignment) {
			continue // as of nearly all
		}
		for pair := range strings.SplitSeq(line, ";") {
			value, ours := cutPass(pair)
			if !ours {
				continue
			}
			for text := range strings.SplitSeq(strings.TrimRight(value, blanks), ".") {
				if tried++; tried > maxTried {
					return
				}
				if pass, ok := parsePass(text); ok && !f(&pass) {
					return
				}
			}
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

const keySize = 32

// keys sign passes: the first one does, both verify. They are never changed, only replaced. As a pass
// counts for minutes wherever its key comes from, and proves little, an instance alone keeps its key.
type keys struct {
	now, old [keySize]byte
	fleet    bool // they are those of all instances, which replaces them
}

// keyRing has the keys in force. Its methods may be called concurrently.
type keyRing struct{ keys atomic.Pointer[keys] }

// newKeys are random.
func newKeys() *keys {
	ks := &keys{}
	rand.Read(ks.now[:]) // it never fails
	ks.old = ks.now
	return ks
}

// The form of what survives a restart: a version, eight bytes that say nothing, and both
// keys. An earlier version had more behind them.
const (
	keysVersion = 1
	keysHead    = 1 + 8
	keysSize    = keysHead + 2*keySize
)

var errKeys = errors.New("not the keys that a proxy of this version signs with")

func (k *keyRing) appendBinary(b []byte) []byte {
	ks := k.keys.Load()
	b = append(b, keysVersion, 0, 0, 0, 0, 0, 0, 0, 0)
	return append(append(b, ks.now[:]...), ks.old[:]...)
}

// unmarshalBinary changes nothing if the data are others, or the keys are those of the fleet.
func (k *keyRing) unmarshalBinary(data []byte) error {
	if k.keys.Load().fleet {
		return nil
	}
	if len(data) < keysSize || data[0] != keysVersion {
		return errKeys
	}
	ks := &keys{}
	copy(ks.now[:], data[keysHead:])
	copy(ks.old[:], data[keysHead+keySize:])
	k.keys.Store(ks)
	return nil
}

const (
	// CookieName is the name of the cookie that holds passes.
	CookieName = "tempomat_pass"
	assignment = CookieName + "="
	blanks     = " \t"
)

// cutPass is the value of a pair of a Cookie header, if it is our cookie.
func cutPass(pair string) (value string, ours bool) {
	return strings.CutPrefix(strings.TrimLeft(pair, blanks), assignment)
}

// StripLine returns a line of a Cookie header without our cookie, empty if nothing is left. All other
// pairs stay as they are, and a line without it is returned itself, without an allocation.
//
// The site must not see a cookie that it did not set: caches, above all Varnish, do not answer
// a request with any cookie from the cache, so the pass would make the very pages expensive for
// which it was given.
func StripLine(line string) string {
	if !strings.Contains(line, assignment) {
		return line
	}
	pairs := strings.Split(line, ";")
	others := slices.DeleteFunc(pairs, func(pair string) bool { _, ours := cutPass(pair); return ours })
	if len(others) == len(pairs) {
		return line
	}
	return strings.TrimLeft(strings.Join(others, ";"), blanks)
}

// hasOwnCookie reports whether a request has a cookie that is none of ours: the
// site's, then, or one that a script of its pages set.
func hasOwnCookie(lines []string) bool {
	for _, line := range lines {
		if strings.Trim(StripLine(line), blanks+";") != "" {
			return true
		}
	}
	return false
}
