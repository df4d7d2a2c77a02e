package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
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
	botAuth        = "web-bot-auth"     // tag of a robot's signature
	mostKeys       = 32                 // maximum number of keys in a directory
	keysFor        = 7 * 24 * time.Hour // how long keys stay valid without being fetched again
	longestSigned  = 4096               // maximum length of each header field, in bytes
	longestLife    = 24 * time.Hour     // longest validity of a signature
	clockDiffers   = time.Minute        // how far in the future a signature may begin
	mostCovered    = 16                 // maximum number of components of a request that a signature may cover
	mostWords      = 64                 // maximum number of words in each header field, because parsing them is expensive
	longestBase    = 16 << 10           // maximum length of the signed text, in bytes
	mostSignatures = 8192               // number of signatures that are remembered
	mostChecks     = 500                // number of signatures checked per second; a check takes as long as forwarding a request
	checksOfOne    = 50                 // number of signatures from one network checked per second
	checkedApart   = 256                // number of counters for checksOfOne; networks with the same hash share one
)

// Signers checks HTTP message signatures of robots (RFC 9421, Web Bot Auth) with Ed25519. It has only the keys
// of the hosts that were passed to Publishers.Ask. A request with an invalid, expired or unknown signature
// counts as unsigned. The methods may be called concurrently.
type Signers struct {
	keys   atomic.Pointer[map[string]keys] // keys of each host
	checks *rate.Limiter
	seed   maphash.Seed
	ofOne  [checkedApart]*rate.Limiter // limits of checks for each network, by the network's hash

	mu   sync.Mutex // guards the fields below; only requests with a valid signature take it
	seen *simplelru.LRU[[ed25519.SignatureSize]byte, netip.Addr]
}

// keys are the keys of one host.
type keys struct {
	confirmed time.Time
	all       []key
}

// key is a key of a directory, as a JSON Web Key (RFC 8037).
type key struct {
	KTY, CRV, KID, X string
	NBF, EXP         int64 // Unix time in seconds; 0: none
}

func newSigners() *Signers {
	s := &Signers{checks: rate.NewLimiter(mostChecks, mostChecks), seed: maphash.MakeSeed()}
	for i := range s.ofOne {
		s.ofOne[i] = rate.NewLimiter(checksOfOne, checksOfOne)
	}
	s.seen, _ = simplelru.NewLRU[[ed25519.SignatureSize]byte, netip.Addr](mostSignatures, nil) // fails only for a size below 1
	s.keys.Store(&map[string]keys{})
	return s
}

// readKeys reads the Ed25519 keys of a directory.
func readKeys(text string) (all []key, err error) {
	var set struct{ Keys []key }
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return nil, fmt.Errorf("it isn't a directory of keys in JSON: %w", err)
	}
	for _, k := range set.Keys {
		if k.KTY == "OKP" && k.CRV == "Ed25519" && len(k.public()) == ed25519.PublicKeySize {
			all = append(all, k)
		}
	}
	if len(all) == 0 || len(all) > mostKeys {
		return nil, fmt.Errorf("it has %d Ed25519 keys; 1 to %d are plausible", len(all), mostKeys)
	}
	return all, nil
}

func (k *key) public() ed25519.PublicKey {
	x, _ := base64.RawURLEncoding.DecodeString(k.X) // an invalid key has the wrong length
	return x
}

// isCalled reports whether id is the key's name or thumbprint (RFC 7638).
func (k *key) isCalled(id string) bool {
	if id == k.KID {
		return true
	}
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + k.X + `"}`))
	return id == base64.RawURLEncoding.EncodeToString(sum[:])
}

// Signer returns the host whose key signed a request, or "" if that isn't a known host. It returns false if
// the signature was not read, because there were more than mostChecks in this second, or more than
// checksOfOne from the client's network.
func (s *Signers) Signer(now time.Time, r *http.Request, res *classify.Result) (host string, known bool) {
	all := *s.keys.Load()
	if !namesOne(all, r.Header["Signature-Agent"]) {
		return "", true
	}
	ofOne := s.ofOne[maphash.Comparable(s.seed, classify.NetworkOf(res.Client))%checkedApart]
	if !ofOne.AllowN(now, 1) || !s.checks.AllowN(now, 1) {
		return "", false
	}
	return s.check(now, all, r, res), true
}

// namesOne reports whether a Signature-Agent may name a known signer. Signatures of unknown signers are not
// read, because they would use up the checks.
func namesOne(all map[string]keys, lines []string) bool {
	if bytes, words := sizeOf(lines); bytes > longestSigned || words > mostWords {
		return false
	}
	for _, line := range lines {
		line = strings.ToLower(line)
		for host := range all {
			if strings.Contains(line, host) {
				return true
			}
		}
	}
	return false
}

// check reads the signature of a request and returns its signer, or "".
func (s *Signers) check(now time.Time, all map[string]keys, r *http.Request, res *classify.Result) string {
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
	return ""
}

// isFirst reports whether no other client has used the signature. Without this check, anyone who sees a
// signature could use it too.
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

// signature is a robot's signature of a request.
type signature struct {
	covers           httpsfv.InnerList
	created, expires int64
	keyID            string
	bytes            []byte
}

// signatureOf reads the signature of a request, and the host that signed it.
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

// sizeOf returns the length of a header field, and roughly how many words it has.
func sizeOf(lines []string) (bytes, words int) {
	for _, line := range lines {
		bytes += len(line)
		words += 1 + strings.Count(line, ",") + strings.Count(line, ";") + strings.Count(line, " ")
	}
	return bytes, words
}

// read reads a member of Signature-Input and the matching member of Signature. It returns false if the members
// aren't a robot's signature.
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

// agent returns the host that Signature-Agent names. The field is a string, or a dictionary with a member that
// the signature names. The signature must cover this field and the site's name; otherwise it would be valid for
// all sites. It must not cover any component twice (RFC 9421, 2).
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

// memberOf returns the member of a field that a component names, or the field's only item.
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

// holds reports whether the signature is valid at the given time.
func (x *signature) holds(now time.Time) bool {
	at := now.Unix()
	return x.created > 0 && x.created <= at+int64(clockDiffers.Seconds()) && at < x.expires && x.expires-x.created <= int64(longestLife.Seconds())
}

// isBy reports whether a key signed the request.
func (x *signature) isBy(k ed25519.PublicKey, r *http.Request, secure bool) bool {
	base, err := x.base(r, secure)
	return err == nil && ed25519.Verify(k, []byte(base), x.bytes)
}

// base returns the text that was signed (RFC 9421, 2.5).
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

// component returns the value of a component of a request (RFC 9421, 2.1 and 2.2).
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
			return "", errors.New("it isn't an item")
		}
		return httpsfv.Marshal(item)
	case len(params) > 0:
		return "", fmt.Errorf("%s: parameter %v is not supported", name, params)
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
