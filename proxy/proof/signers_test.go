package proof

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"tempomat/classify"
	"tempomat/classify/robots"
	"tempomat/internal/testkit"
)

// exampleKey is test-key-ed25519 of RFC 9421, B.1.4.
const (
	exampleKey    = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
	exampleSecret = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"
	exampleName   = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U" // thumbprint of the key
)

func exampleRequest(method, target string, fields ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

// TestExamples: the examples of RFC 9421 (B.2.6), of draft-ietf-webbotauth-httpsig-protocol, and of earlier
// drafts, whose Signature-Agent was a string.
func TestExamples(t *testing.T) {
	k := key{X: exampleKey}
	if !k.isCalled(exampleName) || k.isCalled("another") {
		t.Error("the key has another thumbprint")
	}
	rfc := exampleRequest(http.MethodPost, "https://example.com/foo?param=Value&Pet=dog",
		"Date", "Tue, 20 Apr 2021 02:07:55 GMT", "Content-Type", "application/json", "Content-Length", "18",
		"Signature-Input", `sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`,
		"Signature", `sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:`)
	var x signature
	inputs, _ := httpsfv.UnmarshalDictionary(rfc.Header["Signature-Input"])
	signatures, _ := httpsfv.UnmarshalDictionary(rfc.Header["Signature"])
	input, _ := inputs.Get("sig-b26")
	member, _ := signatures.Get("sig-b26")
	if x.read(input, member) {
		t.Error("RFC 9421: it is taken for a signature of a robot")
	}
	if !x.isBy(k.public(), rfc, true) {
		base, err := x.base(rfc, true)
		t.Errorf("RFC 9421: %v, %s", err, base)
	}
	for dialect, r := range map[string]*http.Request{
		"a text": exampleRequest(http.MethodGet, "https://example.com/path/to/resource",
			"Signature-Agent", `"https://signature-agent.test"`,
			"Signature-Input", `sig2=("@authority" "signature-agent");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=1735693200;nonce="e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==";tag="web-bot-auth"`,
			"Signature", `sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:`),
		"a dictionary": exampleRequest(http.MethodGet, "https://example.com/path/to/resource",
			"Signature-Agent", `agent2="https://signature-agent.test"`,
			"Signature-Input", `sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"`,
			"Signature", `sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:`),
	} {
		host, x, err := signatureOf(r)
		if err != nil || host != "signature-agent.test" || x.keyID != exampleName || !x.isBy(k.public(), r, true) {
			t.Errorf("%s: %s, %v, %+v", dialect, host, err, x)
		}
		r.Host = "another.example"
		if x.isBy(k.public(), r, true) {
			t.Errorf("%s: it is valid for another site", dialect)
		}
	}
}

// signed is a request with a robot's signature, and the changes to the signed and to the sent content.
type signed struct {
	created, expires time.Duration // times from now
	covers, agent    string
	change           func(input string) string
}

func (s signed) request(t *testing.T, secret ed25519.PrivateKey, nonce string) *http.Request {
	t.Helper()
	input := fmt.Sprintf(`sig1=%s;created=%d;expires=%d;keyid=%q;nonce=%q;tag="web-bot-auth"`, s.covers, noon().Add(s.created).Unix(), noon().Add(s.expires).Unix(), exampleName, nonce)
	if s.change != nil {
		input = s.change(input)
	}
	r := exampleRequest(http.MethodGet, "https://site.example:443/a?b=c", "Signature-Agent", s.agent, "Signature-Input", input)
	inputs, err := httpsfv.UnmarshalDictionary([]string{input})
	testkit.Must(t, err)
	list, _ := inputs.Get("sig1")
	base, err := (&signature{covers: list.(httpsfv.InnerList)}).base(r, true)
	testkit.Must(t, err)
	r.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(ed25519.Sign(secret, []byte(base)))+":")
	return r
}

func exampleSigner() ed25519.PrivateKey {
	seed, _ := base64.RawURLEncoding.DecodeString(exampleSecret)
	return ed25519.NewKeyFromSeed(seed)
}

// signersOf returns Signers that know a host with the example's key.
func signersOf(change func(*keys)) *Signers {
	s := newSigners()
	of := keys{noon().Add(-time.Hour), []key{{KTY: "OKP", CRV: "Ed25519", KID: "k1", X: exampleKey}}}
	if change != nil {
		change(&of)
	}
	s.keys.Store(&map[string]keys{"signer.example": of})
	return s
}

func client(address string) *classify.Result {
	return &classify.Result{Client: netip.MustParseAddr(address)}
}

func good() signed {
	return signed{created: -time.Minute, expires: 5 * time.Minute, covers: `("@authority" "@method" "@path" "signature-agent")`, agent: `"https://signer.example"`}
}

// TestSigner: a signature counts only if its signer is known, it is for this site, it is valid now, and only
// one client uses it.
func TestSigner(t *testing.T) {
	_, another, _ := ed25519.GenerateKey(nil)
	for what, c := range map[string]struct {
		change  func(*signed)
		keys    func(*keys)
		request func(*http.Request)
		secret  ed25519.PrivateKey
		valid   bool
	}{
		"good": {valid: true},
		"as a dictionary": {change: func(s *signed) {
			s.agent, s.covers = `g="https://signer.example"`, `("@authority" "signature-agent";key="g")`
		}, valid: true},
		"with a path": {change: func(s *signed) { s.agent = `"https://signer.example/.well-known/http-message-signatures-directory"` }, valid: true},
		"a key by its name": {change: func(s *signed) {
			s.change = func(input string) string { return strings.Replace(input, exampleName, "k1", 1) }
		}, valid: true},
		"the whole URL":     {change: func(s *signed) { s.covers = `("@target-uri" "@scheme" "@query" "@request-target" "signature-agent")` }, valid: true},
		"for the site only": {change: func(s *signed) { s.covers = `("@authority")` }},
		"for any site":      {change: func(s *signed) { s.covers = `("@method" "signature-agent")` }},
		"expired":           {change: func(s *signed) { s.expires = -time.Second }},
		"from the future":   {change: func(s *signed) { s.created = 2 * time.Minute }},
		"the clock differs": {change: func(s *signed) { s.created = 30 * time.Second }, valid: true},
		"for years":         {change: func(s *signed) { s.expires = 10000 * time.Hour }},
		"another's key":     {secret: another},
		"another signer":    {change: func(s *signed) { s.agent = `"https://unknown.example"` }},
		"no URL":            {change: func(s *signed) { s.agent = `"signer.example"` }},
		"unencrypted":       {change: func(s *signed) { s.agent = `"http://signer.example"` }},
		"another tag": {change: func(s *signed) {
			s.change = func(x string) string { return strings.Replace(x, "web-bot-auth", "x", 1) }
		}},
		"another algorithm": {change: func(s *signed) { s.change = func(x string) string { return x + `;alg="rsa-pss-sha512"` } }},
		"never expires": {change: func(s *signed) {
			s.change = func(x string) string { return strings.Replace(x, "expires", "expired", 1) }
		}},
		"a key that there isn't": {change: func(s *signed) { s.change = func(x string) string { return strings.Replace(x, exampleName, "k2", 1) } }},
		"a key that expired":     {keys: func(k *keys) { k.all[0].EXP = noon().Add(-time.Second).Unix() }},
		"a key for later":        {keys: func(k *keys) { k.all[0].NBF = noon().Add(time.Hour).Unix() }},
		"old keys":               {keys: func(k *keys) { k.confirmed = noon().Add(-8 * 24 * time.Hour) }},
		"another path":           {request: func(r *http.Request) { r.URL.Path = "/b" }},
		"another site":           {request: func(r *http.Request) { r.Host = "other.example" }},
		"another agent":          {request: func(r *http.Request) { r.Header.Set("Signature-Agent", `"https://signer.example/"`) }},
		"no signature":           {request: func(r *http.Request) { r.Header.Del("Signature") }},
		"half a signature":       {request: func(r *http.Request) { r.Header.Set("Signature", "sig1=:AAAA:") }},
		"no structure":           {request: func(r *http.Request) { r.Header.Set("Signature-Input", "sig1=(((") }},
		"too long":               {request: func(r *http.Request) { r.Header.Set("Signature-Agent", `"https://`+strings.Repeat("a", 5000)+`"`) }},
	} {
		s, secret := good(), c.secret
		if c.change != nil {
			c.change(&s)
		}
		if secret == nil {
			secret = exampleSigner()
		}
		r := s.request(t, secret, "n")
		if c.request != nil {
			c.request(r)
		}
		res := client("203.0.113.1")
		if got, _ := signersOf(c.keys).Signer(noon(), r, res); (got == "signer.example") != c.valid {
			t.Errorf("%s: signed by %q", what, got)
		}
	}
}

// TestReplayed: a signature that was copied from another client isn't valid.
func TestReplayed(t *testing.T) {
	s := signersOf(nil)
	r := good().request(t, exampleSigner(), "n")
	for i, want := range []struct{ address, signer string }{
		{"203.0.113.1", "signer.example"}, {"203.0.113.1", "signer.example"}, {"198.51.100.7", ""}, {"203.0.113.1", "signer.example"},
	} {
		if got, _ := s.Signer(noon(), r, client(want.address)); got != want.signer {
			t.Errorf("request %d, from %s, is signed by %q", i+1, want.address, got)
		}
	}
}

// TestManySigners: unknown signers take no memory.
func TestManySigners(t *testing.T) {
	const n = 100_000 // large enough to notice ten bytes for each signer
	s := signersOf(nil)
	r := good().request(t, exampleSigner(), "n")
	before := testkit.Heap()
	for i := range n {
		r.Header.Set("Signature-Agent", fmt.Sprintf(`"https://s%d.example"`, i))
		if got, known := s.Signer(noon(), r, client("203.0.113.1")); got != "" || !known {
			t.Fatal(got)
		}
	}
	if after := testkit.Heap(); after > before+1<<20 {
		t.Errorf("%d bytes more", after-before)
	}
}

// TestChecksAreShared: a flood of signatures takes limited CPU time, and a flood from one network leaves room
// for other networks. A signature that was not checked counts as unknown.
func TestChecksAreShared(t *testing.T) {
	s, forged := signersOf(nil), good().request(t, exampleSigner(), "n")
	forged.Header.Set("Signature", "sig1=(((")
	at, read := noon(), 0
	for range 10 * mostChecks {
		at = at.Add(time.Second / mostChecks)
		if _, known := s.Signer(at, forged, client("203.0.113.1")); known {
			read++
		}
	}
	if read > 11*checksOfOne {
		t.Errorf("%d signatures of one network were read in ten seconds", read)
	}
	counter := func(address string) uint64 {
		return maphash.Comparable(s.seed, classify.NetworkOf(client(address).Client)) % checkedApart
	}
	other := "198.51.100.7"
	for i := 0; counter(other) == counter("203.0.113.1"); i++ { // two networks may have the same counter by chance
		other = fmt.Sprintf("198.51.%d.7", i)
	}
	r := good().request(t, exampleSigner(), "n")
	if host, known := s.Signer(at, r, client(other)); host == "" || !known {
		t.Errorf("another's is signed by %q, %t", host, known)
	}
	s, read = signersOf(nil), 0
	for i := range 4 * mostChecks {
		if _, known := s.Signer(at, forged, client(fmt.Sprintf("203.0.%d.1", i%200))); known {
			read++
		}
	}
	testkit.Same(t, mostChecks, read, "signatures of many networks read at once")
}

func directoryOf(id string) string {
	b, _ := json.Marshal(map[string][]map[string]string{"keys": {
		{"kty": "RSA", "kid": "other", "n": "AQAB"}, {"kty": "OKP", "crv": "Ed25519", "kid": id, "x": exampleKey},
	}})
	return string(b)
}

// TestDirectory: the keys of a signer are fetched, survive a restart, and change with the signer's directory.
func TestDirectory(t *testing.T) {
	p := newPublisher(t)
	p.answers[directory] = text(directoryOf("k1"))
	host := strings.TrimPrefix(p.URL, "https://")
	ask := func() *Publishers {
		x := NewPublishers(p.Client().Transport, zap.NewNop())
		x.Ask([]robots.Robot{{Name: "r", Operator: "R", Signers: []string{host}}})
		return x
	}
	s := good()
	s.agent = `"` + p.URL + `"`
	r := s.request(t, exampleSigner(), "n")
	x := ask()
	if got, _ := x.Signer(noon(), r, client("203.0.113.1")); got != "" {
		t.Errorf("before it was asked: %q", got)
	}
	x.refresh(t.Context(), noon())
	if got, _ := x.Signer(noon(), r, client("203.0.113.1")); got != host {
		t.Errorf("signed by %q", got)
	}
	kept, err := x.AppendBinary(nil)
	testkit.Must(t, err)
	next := ask()
	for what, answer := range map[string]string{"no JSON": "<html>", "no keys": `{"keys": []}`, "other keys": `{"keys": [{"kty": "RSA"}]}`} {
		testkit.Must(t, next.UnmarshalBinary(kept))
		p.answers[directory] = text(answer)
		next.refresh(t.Context(), noon())
		if got, _ := next.Signer(noon(), r, client("203.0.113.1")); got != host {
			t.Errorf("%s: signed by %q", what, got)
		}
		next = ask()
	}
	p.answers[directory] = text(strings.Replace(directoryOf("k2"), exampleKey, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", 1))
	x.refresh(t.Context(), noon().Add(2*time.Hour))
	if got, _ := x.Signer(noon(), r, client("203.0.113.1")); got != "" {
		t.Errorf("with a key that is gone: %q", got)
	}
}

// TestSignaturesCostLittleToRead: any text in place of a signature is cheap to read. Each request may have one,
// and it is read before the client is classified.
func TestSignaturesCostLittleToRead(t *testing.T) {
	valid := func() *http.Request { return good().request(t, exampleSigner(), "n") }
	many := func(word string) string { return strings.TrimSuffix(strings.Repeat(word, 4000/len(word)), ",") }
	s := signersOf(nil)
	s.checks = rate.NewLimiter(rate.Inf, 0)
	for i := range s.ofOne {
		s.ofOne[i] = s.checks
	}
	signer := func(r *http.Request) string {
		host, _ := s.Signer(noon(), r, client("192.0.2.1"))
		return host
	}
	if signer(valid()) == "" {
		t.Fatal("the signature does not count")
	}
	for what, change := range map[string]func(h http.Header){
		"members of Signature-Input": func(h http.Header) { h.Set("Signature-Input", many("a,")) },
		"parameters":                 func(h http.Header) { h.Set("Signature-Input", "a"+many(";a")) },
		"components":                 func(h http.Header) { h.Set("Signature-Input", "a=("+many(`"" `)+")") },
		"members of Signature":       func(h http.Header) { h.Set("Signature", many("a,")) },
		"lines":                      func(h http.Header) { h["Signature"] = strings.Split(many("a,"), ",") },
		"a dictionary for each component": func(h http.Header) {
			h.Set("Signature-Agent", many("a,")+`,z="https://signer.example"`)
			h.Set("Signature-Input", strings.Replace(h.Get("Signature-Input"), `"signature-agent"`, strings.Repeat(` "signature-agent";key="z"`, 13), 1))
		},
		"the target, again and again": func(h http.Header) {
			h.Set("Signature-Input", strings.Replace(h.Get("Signature-Input"), `"@path"`, strings.Repeat(` "@target-uri"`, 13), 1))
		},
	} {
		r := valid()
		change(r.Header)
		if n := testing.AllocsPerRun(10, func() {
			testkit.Same(t, "", signer(r), "%s: its signer", what)
		}); n > 200 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	r := valid()
	r.URL.Path = "/" + strings.Repeat("x", longestBase)
	x := &signature{}
	inputs, _ := httpsfv.UnmarshalDictionary(r.Header["Signature-Input"])
	input, _ := inputs.Get("sig1")
	x.covers = input.(httpsfv.InnerList)
	if _, err := x.base(r, true); err == nil {
		t.Error("all of a very long target is hashed")
	}
}

// FuzzSigner tries any text as a signature: it never counts, and causes no panic.
func FuzzSigner(f *testing.F) {
	f.Add(`sig1=("@authority" "signature-agent");created=1764061200;expires=1764061500;keyid="k1";tag="web-bot-auth"`, "sig1=:"+strings.Repeat("A", 86)+"==:", `"https://signer.example"`)
	f.Add(`a=(:AAAA: :AAAA: "@authority" "signature-agent";key=:AAAA:);created=1;expires=9;keyid=?1;tag="web-bot-auth"`, "a=:AA==:", `z="https://signer.example"`)
	f.Add(`a=("@authority" ?1 1.5 @7 %"x" "signature-agent";key="z");tag="web-bot-auth"`, "a=();a=1", `z=("https://signer.example")`)
	s := signersOf(nil)
	for i := range s.ofOne {
		s.ofOne[i] = rate.NewLimiter(rate.Inf, 0)
	}
	s.checks = s.ofOne[0]
	f.Fuzz(func(t *testing.T, input, signature, agent string) {
		r := exampleRequest(http.MethodGet, "https://site.example/a?b=c", "Signature-Input", input, "Signature", signature, "Signature-Agent", agent)
		if host, _ := s.Signer(noon(), r, client("192.0.2.1")); host != "" {
			t.Errorf("it is signed by %s", host)
		}
		if _, x, err := signatureOf(r); err == nil {
			_, _ = x.base(r, true)
		}
	})
}
