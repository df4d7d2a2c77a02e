package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"tempomat/classify"
)

const (
	directory      = "/.well-known/http-message-signatures-directory"
	botAuth        = "web-bot-auth"     // the tag of such signatures
	mostKeys       = 32                 // of a directory
	keysFor        = 7 * 24 * time.Hour // keys count that were not confirmed since
	longestSigned  = 4096               // of each of the fields, in bytes
	longestLife    = 24 * time.Hour     // of a signature
	clockDiffers   = time.Minute        // as much as a signature may be from the future
	mostCovered    = 16                 // components of a request that a signature covers
	mostWords      = 64                 // of each of the fields: to read them costs more than their bytes do
	longestBase    = 16 << 10           // what is signed, in bytes
	mostSignatures = 8192               // that are remembered
	mostChecks     = 500                // signatures a second that are read: to read and check one takes as long as to forward a request
)

// Signers tell with whose key a request is signed: HTTP message signatures (RFC 9421) as Web Bot
// Auth has them, with Ed25519. The keys are those of a few hosts that are known; a directory of
// another host is never asked for. A signature that is broken, old or unknown is as none.
//
// The methods may be called concurrently.
type Signers struct {
	keys    atomic.Pointer[map[string]keys] // by host
	missing func(host string)               // a host has no such key; it does not wait
	checks  *rate.Limiter

	mu   sync.Mutex // guards the following; only requests with a valid signature take it
	seen *simplelru.LRU[[ed25519.SignatureSize]byte, netip.Addr]
}

// keys are those of a host.
type keys struct {
	confirmed time.Time
	all       []key
}

// key is a key of a directory, as JSON Web Key (RFC 8037).
type key struct {
	KTY, CRV, KID, X string
	NBF, EXP         int64 // Unix time in seconds; 0: none
}

func newSigners() *Signers {
	s := &Signers{missing: func(string) {}, checks: rate.NewLimiter(mostChecks, mostChecks)}
	s.seen, _ = simplelru.NewLRU[[ed25519.SignatureSize]byte, netip.Addr](mostSignatures, nil) // it fails for a size below 1 only
	s.keys.Store(&map[string]keys{})
	return s
}

// readKeys reads a directory, whose other keys do not matter.
func readKeys(text string) (all []key, err error) {
	var set struct{ Keys []key }
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return nil, fmt.Errorf("is no directory of keys in JSON: %w", err)
	}
	for _, k := range set.Keys {
		if k.KTY == "OKP" && k.CRV == "Ed25519" && len(k.public()) == ed25519.PublicKeySize {
			all = append(all, k)
		}
	}
	if len(all) == 0 || len(all) > mostKeys {
		return nil, fmt.Errorf("it has %d keys of Ed25519; 1 to %d are believable", len(all), mostKeys)
	}
	return all, nil
}

func (k *key) public() ed25519.PublicKey {
	x, _ := base64.RawURLEncoding.DecodeString(k.X) // one that is none has the wrong length
	return x
}

// isCalled reports whether a key is called so: by its name or by its thumbprint (RFC 7638).
func (k *key) isCalled(id string) bool {
	if id == k.KID {
		return true
	}
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + k.X + `"}`))
	return id == base64.RawURLEncoding.EncodeToString(sum[:])
}

// Signer is the host with whose key a request is signed, and that says so; empty: with that of
// none that is known.
//
// More than mostChecks a second are not read. Robots are then known by their addresses and names only.
func (s *Signers) Signer(now time.Time, r *http.Request, res *classify.Result) string {
	all := *s.keys.Load()
	if len(all) == 0 || !s.checks.AllowN(now, 1) {
		return ""
	}
	host, x, err := signatureOf(r)
	if err != nil || !x.holds(now) {
		return ""
	}
	of, known := all[host]
	if !known || now.Sub(of.confirmed) > keysFor {
		return ""
	}
	for i := range of.all {
		k := &of.all[i]
		if !k.isCalled(x.keyID) {
			continue
		}
		if k.NBF > now.Unix() || k.EXP != 0 && k.EXP <= now.Unix() ||
			!x.isBy(k.public(), r, classify.Secure(r, res.TrustedPeer)) || !s.isFirst(x.bytes, res.Client) {
			return ""
		}
		return host
	}
	s.missing(host)
	return ""
}

// isFirst reports whether nobody else has shown the signature: whoever sees one may send it again.
func (s *Signers) isFirst(signature []byte, client netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := [ed25519.SignatureSize]byte(signature)
	if by, ok := s.seen.Get(id); ok {
		return by == client
	}
	s.seen.Add(id, client)
	return true
}

// signature is one of a request.
type signature struct {
	covers           httpsfv.InnerList
	created, expires int64
	keyID            string
	bytes            []byte
}

// signatureOf reads the signature of a request, and the host that it names as its signer's.
func signatureOf(r *http.Request) (host string, x signature, err error) {
	for _, name := range []string{"Signature-Input", "Signature", "Signature-Agent"} {
		if bytes, words := sizeOf(r.Header[name]); bytes == 0 || bytes > longestSigned || words > mostWords {
			return "", x, errors.New("there is no " + name + ", or it is too long")
		}
	}
	inputs, err := httpsfv.UnmarshalDictionary(r.Header["Signature-Input"])
	if err != nil {
		return "", x, err
	}
	signatures, err := httpsfv.UnmarshalDictionary(r.Header["Signature"])
	if err != nil {
		return "", x, err
	}
	for _, label := range inputs.Names() {
		input, _ := inputs.Get(label)
		member, _ := signatures.Get(label)
		if x.read(input, member) {
			host, err = x.agent(r.Header["Signature-Agent"])
			return host, x, err
		}
	}
	return "", x, errors.New("there is no signature of a robot")
}

// sizeOf is how long a field is, and of how many words at most.
func sizeOf(lines []string) (bytes, words int) {
	for _, line := range lines {
		bytes += len(line)
		words += 1 + strings.Count(line, ",") + strings.Count(line, ";") + strings.Count(line, " ")
	}
	return bytes, words
}

// read reads a member of Signature-Input and that of Signature; false: they are of another kind.
func (x *signature) read(input, member httpsfv.Member) bool {
	list, ok := input.(httpsfv.InnerList)
	item, is := member.(httpsfv.Item)
	if !ok || !is || len(list.Items) > mostCovered {
		return false
	}
	x.covers = list
	x.bytes, _ = item.Value.([]byte)
	number := func(name string) int64 {
		v, _ := list.Params.Get(name)
		n, _ := v.(int64)
		return n
	}
	text := func(name string) string {
		v, _ := list.Params.Get(name)
		s, _ := v.(string)
		return s
	}
	x.created, x.expires, x.keyID = number("created"), number("expires"), text("keyid")
	_, named := list.Params.Get("alg")
	return text("tag") == botAuth && len(x.bytes) == ed25519.SignatureSize && (!named || text("alg") == "ed25519")
}

// agent is the host that Signature-Agent names. It is a text, or a dictionary with a member that
// the signature names; the signature covers it and the site, or it would be for any site. What it
// covers, it names once (RFC 9421, 2).
func (x *signature) agent(lines []string) (string, error) {
	var agent httpsfv.Member
	site := false
	names := make(map[string]bool, len(x.covers.Items))
	for _, c := range x.covers.Items {
		name, _ := c.Value.(string)
		if names[name] {
			return "", fmt.Errorf("it covers %s twice", name)
		}
		names[name] = true
		switch name {
		case "@authority", "@target-uri":
			site = true
		case "signature-agent":
			var err error
			if agent, err = memberOf(lines, c); err != nil {
				return "", err
			}
		}
	}
	item, _ := agent.(httpsfv.Item)
	text, _ := item.Value.(string)
	u, err := url.Parse(text)
	if err != nil || !site || u.Scheme != "https" || u.Host == "" {
		return "", errors.New("it does not cover the site and the signer")
	}
	return strings.ToLower(u.Host), nil
}

// memberOf is the member of a field that a component names, or the one that there is.
func memberOf(lines []string, component httpsfv.Item) (httpsfv.Member, error) {
	if component.Params != nil {
		if name, ok := component.Params.Get("key"); ok {
			d, err := httpsfv.UnmarshalDictionary(lines)
			if err != nil {
				return nil, err
			}
			text, _ := name.(string)
			member, ok := d.Get(text)
			if !ok {
				return nil, errors.New("there is no such member")
			}
			return member, nil
		}
	}
	return httpsfv.UnmarshalItem(lines)
}

// holds reports whether the signature is in force.
func (x *signature) holds(now time.Time) bool {
	at := now.Unix()
	return x.created > 0 && x.created <= at+int64(clockDiffers.Seconds()) && at < x.expires && x.expires-x.created <= int64(longestLife.Seconds())
}

// isBy reports whether a key made the signature of the request.
func (x *signature) isBy(k ed25519.PublicKey, r *http.Request, secure bool) bool {
	base, err := x.base(r, secure)
	return err == nil && ed25519.Verify(k, []byte(base), x.bytes)
}

// base is what was signed (RFC 9421, 2.5).
func (x *signature) base(r *http.Request, secure bool) (string, error) {
	var b strings.Builder
	for _, c := range x.covers.Items {
		name, err := httpsfv.Marshal(c)
		if err != nil {
			return "", err
		}
		value, err := component(r, c, secure)
		if err != nil {
			return "", err
		}
		if fmt.Fprintf(&b, "%s: %s\n", name, value); b.Len() > longestBase {
			return "", errors.New("it covers too much")
		}
	}
	params, err := httpsfv.Marshal(x.covers)
	return b.String() + `"@signature-params": ` + params, err
}

// component is the value of a part of a request (RFC 9421, 2.1 and 2.2).
func component(r *http.Request, c httpsfv.Item, secure bool) (string, error) {
	name, _ := c.Value.(string)
	scheme, port := "http", ":80"
	if secure {
		scheme, port = "https", ":443"
	}
	authority := strings.TrimSuffix(strings.ToLower(r.Host), port)
	target := r.URL.EscapedPath()
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		target += "?" + r.URL.RawQuery
	}
	switch params := c.Params.Names(); {
	case len(params) == 1 && params[0] == "key" && name == "signature-agent":
		member, err := memberOf(r.Header["Signature-Agent"], c)
		if err != nil {
			return "", err
		}
		item, ok := member.(httpsfv.Item)
		if !ok {
			return "", errors.New("it is no item")
		}
		return httpsfv.Marshal(item)
	case len(params) > 0:
		return "", fmt.Errorf("%s: %v is not known here", name, params)
	}
	switch name {
	case "@method":
		return r.Method, nil
	case "@authority":
		return authority, nil
	case "@scheme":
		return scheme, nil
	case "@target-uri":
		return scheme + "://" + authority + target, nil
	case "@request-target":
		return target, nil
	case "@path":
		return r.URL.EscapedPath(), nil
	case "@query":
		return "?" + r.URL.RawQuery, nil
	}
	lines := r.Header[http.CanonicalHeaderKey(name)]
	values := make([]string, 0, len(lines))
	for _, line := range lines {
		values = append(values, strings.Trim(line, " \t"))
	}
	value := strings.Join(values, ", ")
	if len(lines) == 0 || len(value) > longestSigned || strings.HasPrefix(name, "@") {
		return "", fmt.Errorf("there is no %s, or it is too long", name)
	}
	return value, nil
}
