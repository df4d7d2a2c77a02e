package newcomer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tempomat/classify"
)

const (
	// lifetime is how long a pass is valid. People read for minutes between two pages, and after half a minute
	// of visits the gate knows their address without a pass. A long lifetime would be harmful, because
	// networks change hands, and because the browser sends the cookie during that time, even to caches in
	// front of the proxy.
	lifetime = 15 * time.Minute
	// tolerance is how far in the future the time of a pass may be, because the clock may have been set back
	// since it was issued. A running NTP daemon corrects less than a minute at once. Passes with later times
	// are invalid.
	tolerance = time.Minute

	stampSize = 4  // bytes of the Unix time in seconds; enough until 2106
	macSize   = 16 // bytes of the HMAC that are kept: half of it (RFC 2104, 5)
	passSize  = stampSize + macSize
	passText  = (passSize*8 + 5) / 6 // characters

	// maxPasses is the most passes that a cookie holds. A client may switch between IPv4 and IPv6 or between
	// networks, or use several proxies with different keys, and keeps a pass for each of these.
	maxPasses = 4
	// maxChecked is the most passes of a request that are checked: those of two cookies, because a browser may
	// send two with the same name.
	maxChecked = 2 * maxPasses
)

// sign returns the code of a pass that was issued for a network at the time in stamp.
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

// issue makes the value of a cookie. The value contains a new pass, followed by passes that the client already
// has, which may be valid in another network or at another proxy.
func (k *keys) issue(now time.Time, lines []string, client netip.Addr) string {
	net := classify.NetworkOf(client).Addr().As16()
	var raw [passSize]byte
	binary.BigEndian.PutUint32(raw[:], uint32(now.Unix())) //nolint:gosec // until 2106
	code := sign(&k.now, raw[:stampSize], &net)
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
	return string(text)
}

// hasMostPasses reports whether a cookie is full of passes that haven't expired, whoever issued them. If so,
// several proxies without a common key have just redirected the client, and one more redirect would only
// continue the loop.
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

// verify reports whether one of a request's passes is currently valid, was issued for the client's network,
// and was signed with one of the keys.
func (k *keys) verify(now time.Time, lines []string, client netip.Addr) (valid bool) {
	if len(lines) == 0 {
		return false
	}
	eachPass(lines, func(pass *[passSize]byte) bool {
		valid = inTime(now, pass) && k.signed(pass, client)
		return !valid
	})
	return valid
}

// signed reports whether a pass for the client's network was signed with one of the keys. The comparison
// always takes the same time, so it reveals nothing about the right code.
func (k *keys) signed(pass *[passSize]byte, client netip.Addr) bool {
	net := classify.NetworkOf(client).Addr().As16()
	for _, key := range [...]*[keySize]byte{&k.now, &k.old} {
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

// eachPass calls f with the well-formed passes of a Cookie header, until f returns false. It reads at most
// maxChecked texts between dots, well-formed or not. It searches the whole header, because browsers send the
// oldest cookies first, and the pass is often the newest.
func eachPass(lines []string, f func(*[passSize]byte) bool) {
	checked := 0
	for _, line := range lines {
		if !strings.Contains(line, assignment) {
			continue // true for nearly all requests
		}
		for pair := range strings.SplitSeq(line, ";") {
			value, ours := cutPass(pair)
			if !ours {
				continue
			}
			for text := range strings.SplitSeq(strings.TrimRight(value, blanks), ".") {
				if checked++; checked > maxChecked {
					return
				}
				if pass, ok := parsePass(text); ok && !f(&pass) {
					return
				}
			}
		}
	}
}

// parsePass reads one pass. It accepts a pass only in exactly the form that issue writes.
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

// keys are the keys of passes: now signs them, and both are accepted. A value is immutable, and new keys are in a
// new value. An instance without a fleet never changes its key, because a pass proves little and expires within
// minutes.
type keys struct {
	now, old [keySize]byte
	fleet    bool // all instances of a fleet have these keys
}

// newKeys makes a random key and uses it for both.
func newKeys() *keys {
	ks := &keys{}
	rand.Read(ks.now[:]) // never fails
	ks.old = ks.now
	return ks
}

const (
	// CookieName is the name of the cookie that holds passes.
	CookieName = "tempomat_pass"
	assignment = CookieName + "="
	blanks     = " \t"
)

// cutPass returns the value of a pair in a Cookie header, if the pair is the cookie with the passes.
func cutPass(pair string) (value string, ours bool) {
	return strings.CutPrefix(strings.TrimLeft(pair, blanks), assignment)
}

// StripLine returns a line of a Cookie header without the cookie with the passes. All other pairs stay
// unchanged. If the line doesn't contain that cookie, StripLine returns it without an allocation.
//
// The backend must not receive a cookie that it didn't set. Caches such as Varnish don't answer requests with
// a cookie from the cache, so the pass would make pages expensive.
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

// hasOwnCookie reports whether a request has a cookie besides the pass. The site must have set such a cookie.
func hasOwnCookie(lines []string) bool {
	for _, line := range lines {
		if strings.Trim(StripLine(line), blanks+";") != "" {
			return true
		}
	}
	return false
}
