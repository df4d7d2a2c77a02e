package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"tempomat/internal/testkit"
)

const mostOfHead = 64 << 10

// readHead reads the head of a request in the pieces that src returns.
func readHead(src io.Reader) (RequestHead, error) {
	var b Buffer
	var r RequestHead
	b.Resume(src, make([]byte, 64), 0)
	err := b.ReadRequest(&r, mostOfHead)
	return r, err
}

// tell describes a head in the form that the tests use.
func tell(r RequestHead) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s 1.%d host=%s", r.Method, r.Target, r.Minor, r.Host)
	for _, f := range r.Fields {
		fmt.Fprintf(&s, " [%s|%s]", f.Name, f.Value)
	}
	fmt.Fprintf(&s, " %s", [...]string{"empty", fmt.Sprint(r.Length), "chunked"}[r.Framing])
	if r.KeepAlive {
		s.WriteString(" stays")
	}
	if r.Expects {
		s.WriteString(" expects")
	}
	return s.String()
}

const host = "Host: a\r\n"

// TestReadRequest reads each head in one piece, byte by byte, and with lines that end in LF alone.
func TestReadRequest(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"GET / HTTP/1.1\r\n" + host + "\r\n", "GET / 1.1 host=a [Host|a] empty stays"},
		{"\r\nGET / HTTP/1.1\r\n" + host + "\r\n", "GET / 1.1 host=a [Host|a] empty stays"},
		{"GET /a%zz?b=\xe4;c&d HTTP/1.1\r\n" + host + "\r\n", "GET /a%zz?b=\xe4;c&d 1.1 host=a [Host|a] empty stays"},
		{"GET / HTTP/1.0\r\n\r\n", "GET / 1.0 host= empty"},
		{"GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", "GET / 1.0 host= [Connection|x, Keep-Alive] empty stays"},
		{"GET / HTTP/1.7\r\n" + host + "connection: x ,CLOSE\r\n\r\n", "GET / 1.1 host=a [Host|a] [connection|x ,CLOSE] empty"},
		{"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\n\r\n", "GET / 1.1 host=a [Host|a] [Connection|Upgrade] empty stays"},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: a\r\n\r\n", "GET / 1.0 host= [Connection|keep-alive] [Connection|a] empty stays"},
		{"GET / HTTP/1.1\r\n" + host + "Connection: close\r\nConnection: keep-alive\r\n\r\n", "GET / 1.1 host=a [Host|a] [Connection|close] [Connection|keep-alive] empty"},
		{"X!#$%&'*+-.^_`|~9 * HTTP/1.1\r\nHost:\r\n\r\n", "X!#$%&'*+-.^_`|~9 * 1.1 host= [Host|] empty stays"},
		{"GET http://b/c HTTP/1.1\r\nHOST: [::1]:80\r\n\r\n", "GET http://b/c 1.1 host=[::1]:80 [HOST|[::1]:80] empty stays"},
		{"GET / HTTP/1.0\r\nConnection: \u212aeep-alive\r\n\r\n", "GET / 1.0 host= [Connection|\u212aeep-alive] empty"},
		{"POST / HTTP/1.1\r\n" + host + "Content-Length: 012\r\n\r\n", "POST / 1.1 host=a [Host|a] [Content-Length|012] 12 stays"},
		{"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n", "POST / 1.1 host=a [Host|a] [Content-Length|0] [Expect|100-continue] empty stays"},
		{"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nexpect: 100-Continue\r\n\r\n", "POST / 1.1 host=a [Host|a] [Content-Length|1] [expect|100-Continue] 1 stays expects"},
		{"POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n", "POST / 1.0 host= [Content-Length|1] [Expect|100-continue] 1"},
		{"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \t ChunKed \r\n\r\n", "POST / 1.1 host=a [Host|a] [Transfer-Encoding|ChunKed] chunked stays"},
		{"GET / HTTP/1.1\r\n" + host + "A: \r\na:\tb\tc \t\r\nA_b:\xff\r\n\r\n", "GET / 1.1 host=a [Host|a] [A|] [a|b\tc] [A_b|\xff] empty stays"},
	} {
		for name, src := range map[string]io.Reader{
			"one piece": strings.NewReader(tc.text),
			"bytes":     iotest.OneByteReader(strings.NewReader(tc.text)),
			"LF":        strings.NewReader(strings.ReplaceAll(tc.text, "\r\n", "\n")),
		} {
			r, err := readHead(src)
			if got := tell(r); err != nil || got != tc.want {
				t.Errorf("%q, %s: %v\n got %s\nwant %s", tc.text, name, err, got, tc.want)
			}
		}
	}
}

// TestRefuseRequest reads heads that servers understand differently. The package documentation says how
// attackers use them.
func TestRefuseRequest(t *testing.T) {
	get := func(fields string) string { return "GET / HTTP/1.1\r\n" + host + fields + "\r\n" }
	post := func(fields string) string { return "POST / HTTP/1.1\r\n" + host + fields + "\r\nabc" }
	for name, tc := range map[string]struct {
		text   string
		status int
	}{
		"two empty lines":              {"\r\n\r\n" + get(""), 400},
		"a CR":                         {"\rGET / HTTP/1.1\r\n" + host + "\r\n", 400},
		"a line of its own":            {"GET\r\n\r\n", 400},
		"HTTP/0.9":                     {"GET /\r\n\r\n", 400},
		"two spaces":                   {"GET  / HTTP/1.1\r\n" + host + "\r\n", 400},
		"two spaces before a version":  {"GET /  HTTP/1.1\r\n" + host + "\r\n", 400},
		"a tab":                        {"GET\t/ HTTP/1.1\r\n" + host + "\r\n", 400},
		"a space after the version":    {"GET / HTTP/1.1 \r\n" + host + "\r\n", 400},
		"a space in the target":        {"GET /a b HTTP/1.1\r\n" + host + "\r\n", 400},
		"a space before the method":    {" GET / HTTP/1.1\r\n" + host + "\r\n", 400},
		"no method":                    {" / HTTP/1.1\r\n" + host + "\r\n", 400},
		"a method that is no token":    {"G(T / HTTP/1.1\r\n" + host + "\r\n", 400},
		"no target":                    {"GET  HTTP/1.1\r\n" + host + "\r\n", 400},
		"a fragment":                   {"GET /#a HTTP/1.1\r\n" + host + "\r\n", 400},
		"a CR in the target":           {"GET /\ra HTTP/1.1\r\n" + host + "\r\n", 400},
		"DEL in the target":            {"GET /\x7f HTTP/1.1\r\n" + host + "\r\n", 400},
		"NUL in the target":            {"GET /\x00 HTTP/1.1\r\n" + host + "\r\n", 400},
		"another protocol":             {"GET / HTTQ/1.1\r\n" + host + "\r\n", 400},
		"in small letters":             {"GET / http/1.1\r\n" + host + "\r\n", 400},
		"a version of letters":         {"GET / HTTP/1.x\r\n" + host + "\r\n", 400},
		"a version of letters, before": {"GET / HTTP/x.1\r\n" + host + "\r\n", 400},
		"a longer version":             {"GET / HTTP/1.10\r\n" + host + "\r\n", 400},
		"a comma in the version":       {"GET / HTTP/1,1\r\n" + host + "\r\n", 400},
		"HTTP/2":                       {"GET / HTTP/2.0\r\n" + host + "\r\n", 505},
		"HTTP/0":                       {"GET / HTTP/0.9\r\n" + host + "\r\n", 505},
		"no host":                      {"GET / HTTP/1.1\r\nA: b\r\n\r\n", 400},
		"two hosts":                    {get("Host: b\r\n"), 400},
		"two hosts that are alike":     {get(host), 400},
		"two hosts of HTTP/1.0":        {"GET / HTTP/1.0\r\n" + host + host + "\r\n", 400},
		"a host with a path":           {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
		"a host with a user":           {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
		"a host of two words":          {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		"a host beyond ASCII":          {"GET / HTTP/1.1\r\nHost: \xe4\r\n\r\n", 400},
		"a space before the colon":     {get("A : b\r\n"), 400},
		"a length with a space":        {post("Content-Length : 3\r\n"), 400},
		"a tab before the colon":       {get("A\t: b\r\n"), 400},
		"no name":                      {get(": b\r\n"), 400},
		"no colon":                     {get("A\r\n"), 400},
		"a name that is no token":      {get("A(: b\r\n"), 400},
		"a name beyond ASCII":          {get("\xe4: b\r\n"), 400},
		"a line that goes on":          {get("A: b\r\n c\r\n"), 400},
		"a first line that goes on":    {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
		"a line of spaces":             {get("A: b\r\n \r\n"), 400},
		"a line that goes on by a tab": {get("A: b\r\n\tc\r\n"), 400},
		"a CR in a value":              {get("A: b\rc\r\n"), 400},
		"two CRs":                      {get("A: b\r\r\n"), 400},
		"NUL in a value":               {get("A: b\x00\r\n"), 400},
		"DEL in a value":               {get("A: b\x7f\r\n"), 400},
		"a control in a value":         {get("A: \x01\r\n"), 400},
		"two lengths":                  {post("Content-Length: 3\r\nContent-Length: 4\r\n"), 400},
		"two lengths that are alike":   {post("Content-Length: 3\r\nContent-Length: 3\r\n"), 400},
		"a list of lengths":            {post("Content-Length: 3, 3\r\n"), 400},
		"an empty length":              {post("Content-Length:\r\n"), 400},
		"a length with a sign":         {post("Content-Length: +3\r\n"), 400},
		"a length below zero":          {post("Content-Length: -3\r\n"), 400},
		"a length in hexadecimal":      {post("Content-Length: 0x3\r\n"), 400},
		"a length of two words":        {post("Content-Length: 3 3\r\n"), 400},
		"a length too large":           {post("Content-Length: 9223372036854775808\r\n"), 400},
		"a length beside chunks":       {post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400},
		"chunks beside a length":       {post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"), 400},
		"chunks beside a length of 0":  {post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 400},
		"chunks in HTTP/1.0":           {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		"chunks twice":                 {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
		"chunks twice in a line":       {post("Transfer-Encoding: chunked, chunked\r\n"), 501},
		"another coding":               {post("Transfer-Encoding: gzip, chunked\r\n"), 501},
		"chunks that are not last":     {post("Transfer-Encoding: chunked, identity\r\n"), 501},
		"identity":                     {post("Transfer-Encoding: identity\r\n"), 501},
		"no coding":                    {post("Transfer-Encoding:\r\n"), 501},
		"chunks in quotes":             {post("Transfer-Encoding: \"chunked\"\r\n"), 501},
		"chunks with a Kelvin sign":    {post("Transfer-Encoding: chun\u212aed\r\n"), 501},
		"chunks with a parameter":      {post("Transfer-Encoding: chunked;a=b\r\n"), 501},
		"a vertical tab":               {post("Transfer-Encoding: \x0bchunked\r\n"), 400},
		"another expectation":          {get("Expect: 200-ok\r\n"), 417},
		"a head that is too long":      {get("A: " + strings.Repeat("b", mostOfHead) + "\r\n"), 431},
		"many connection options":      {get("Connection: " + strings.Repeat("a,", mostOptions) + "\r\n"), 400},
		"too many fields":              {get(strings.Repeat("A: b\r\n", maxFields)), 400},
	} {
		for _, src := range []io.Reader{strings.NewReader(tc.text), iotest.OneByteReader(strings.NewReader(tc.text))} {
			if r, err := readHead(src); !errors.Is(err, ErrMalformed) || StatusOf(err) != tc.status {
				t.Errorf("%s: %v, %s", name, err, tell(r))
			}
		}
	}
}

// TestRequestEnds: the error shows whether a connection ends between two requests or within a request.
func TestRequestEnds(t *testing.T) {
	text := "\r\nGET / HTTP/1.1\r\n" + host + "\r\n"
	for n := range len(text) {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := readHead(strings.NewReader(text[:n])); !errors.Is(err, want) || n > 0 && errors.Is(err, io.EOF) {
			t.Errorf("after %q: %v", text[:n], err)
		}
	}
}

// TestPipeline reads requests that arrived together.
func TestPipeline(t *testing.T) {
	var b Buffer
	text := strings.Repeat("GET /abcdefg HTTP/1.1\r\n"+host+"\r\n", 5)
	for _, read := range []int{1, 2, 30, 60} {
		memory := make([]byte, 64)
		b.Resume(strings.NewReader(text[read:]), memory, copy(memory, text[:read]))
		testkit.Same(t, text[:read], string(b.Peek(100)), "%d bytes that were read", read)
		for i := range 5 {
			var r RequestHead
			if err := b.ReadRequest(&r, mostOfHead); err != nil || tell(r) != "GET /abcdefg 1.1 host=a [Host|a] empty stays" {
				t.Errorf("request %d: %v, %s", i, err, tell(r))
			}
		}
	}
}

// TestTargets tries each character that a target may have.
func TestTargets(t *testing.T) {
	for c := range 256 {
		testkit.Same(t, c > ' ' && c != 0x7f && c != '#', IsTarget(string([]byte{byte(c)})), "%q is part of a target", byte(c))
	}
}

func TestHosts(t *testing.T) {
	for c := range 256 {
		want := c < 0x80 && strings.ContainsRune("-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", rune(c))
		if IsHost(string([]byte{byte(c)})) != want || IsHost("a"+string([]byte{byte(c)})) != want && c != ':' {
			t.Errorf("%q is part of a host: %t", rune(c), !want)
		}
	}
	for host, want := range map[string]bool{
		"": false, "a": true, "a.b.": true, "a:": true, "a:80": true, "a:65535": true, "a:123456": false, "a:8x": false, "a:-1": false,
		":80": false, "a:b:c": false, "a:1:2": false, "192.0.2.1:80": true,
		"[::1]": true, "[2001:db8::1]:443": true, "[::1": false, "::1": false, "[::1]x": false, "[::1]:x": false, "[]": false, "[": false,
		"[::1%eth0]": false, "[192.0.2.1]": false, "[a]": false, "a[::1]": false,
	} {
		testkit.Same(t, want, IsHost(host), "%q is a host", host)
	}
}

// FuzzReadRequest compares this package with net/http, which accepts every request that this package accepts, and
// understands it in the same way. In addition to net/http, this package rejects only the cases of TestRefuseRequest.
func FuzzReadRequest(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\n" + host + "\r\n", "POST /?a HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"GET http://b/ HTTP/1.0\nConnection: keep-alive\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b Buffer
		var r RequestHead
		b.Resume(bytes.NewReader(text), make([]byte, 128), 0)
		err := b.ReadRequest(&r, mostOfHead)
		if s, e := readHead(iotest.OneByteReader(bytes.NewReader(text))); (err == nil) != (e == nil) || err == nil && tell(r) != tell(s) {
			t.Fatalf("in one piece %v, %s; byte by byte %v, %s", err, tell(r), e, tell(s))
		}
		if err != nil {
			return
		}
		// This package skips an empty line before the request (RFC 9112, 2.2), and the server checks targets
		// elsewhere.
		text = bytes.TrimPrefix(bytes.TrimPrefix(text, []byte("\r")), []byte("\n"))
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			if strings.Contains(err.Error(), "parse ") || strings.Contains(err.Error(), "invalid URI") {
				return
			}
			t.Fatalf("%q is refused by net/http: %v", text, err)
		}
		compareHeads(t, &b, r, theirs)
	})
}

func compareHeads(t *testing.T, b *Buffer, ours RequestHead, theirs *http.Request) {
	t.Helper()
	length := ours.Length
	switch {
	case ours.Method != theirs.Method, ours.Target != theirs.RequestURI:
		t.Fatalf("%s; net/http: %s %s", tell(ours), theirs.Method, theirs.RequestURI)
	case length != theirs.ContentLength:
		t.Fatalf("%s; net/http has a length of %d", tell(ours), theirs.ContentLength)
	case theirs.URL.Host == "" && ours.Host != theirs.Host:
		t.Fatalf("%s; net/http has the host %q", tell(ours), theirs.Host)
	case ours.KeepAlive == theirs.Close && theirs.ProtoMinor < 2:
		t.Fatalf("%s; net/http closes: %t", tell(ours), theirs.Close)
	}
	// Both read the same body, or both fail.
	want, theirErr := io.ReadAll(theirs.Body)
	var got []byte
	var err error
	switch ours.Framing {
	case Length:
		got, err = io.ReadAll(io.LimitReader(b, min(length, 1<<20)))
		if int64(len(got)) < length {
			err = io.ErrUnexpectedEOF
		}
	case Chunked:
		var c ChunkedBody
		c.Reset(b)
		got, err = io.ReadAll(&c)
	case Empty, UntilEnd:
	}
	if err == nil && (theirErr != nil || !bytes.Equal(got, want)) {
		t.Fatalf("%s: body %q; net/http: %q, %v", tell(ours), got, want, theirErr)
	}
}

// TestProxyHeader: the answer to a PROXY protocol header says that only one side is configured for it.
func TestProxyHeader(t *testing.T) {
	for text, told := range map[string]bool{
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\n" + host + "\r\n":                       true,
		"PROXY UNKNOWN\r\nGET / HTTP/1.1\r\n" + host + "\r\n":                                            true,
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + strings.Repeat("\x01", 12) + "GET / HTTP/1.0\r\n\r\n": true,
		"PROXY / HTTP/0\r\n" + host + "\r\n":                                                             false,
	} {
		_, err := readHead(strings.NewReader(text))
		if !errors.Is(err, ErrMalformed) || strings.Contains(err.Error(), "PROXY protocol") != told {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// refused are answers that must be rejected.
func refused() map[string]string {
	return map[string]string{
		"no HTTP":                 "SSH-2.0-OpenSSH_9.2\r\n\r\n",
		"HTTP/1.x":                "HTTP/1.x 204 OK\r\n\r\n",
		"a minor version below 0": "HTTP/1./ 204 OK\r\n\r\n",
		"a status with a letter":  "HTTP/1.1 20x OK\r\n\r\n",
		"a length after none":     lines("HTTP/1.1 200 OK", "Content-Length: 0", "Content-Length: 1", "", "a"),
		"data that end in LF":     lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "a\n0", "", ""),
		"trailers that are long in all": lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0") +
			strings.Repeat("\r\na: "+strings.Repeat("x", maxTrailer/10), 11) + "\r\n\r\n",
		"one before the final that has a length": lines("HTTP/1.1 102 Processing", "Content-Length: 19", "", "HTTP/1.1 200 OK", "", ""),
		"one before the final in chunks":         lines("HTTP/1.1 100 Continue", "Transfer-Encoding: chunked", "", "0", "", ""),
		"HTTP/2":                                 "HTTP/2.0 200 OK\r\n\r\n",
		"a status of two digits":                 "HTTP/1.1 20 OK\r\n\r\n",
		"a status of four digits":                "HTTP/1.1 2000 OK\r\n\r\n",
		"a status that is none":                  "HTTP/1.1 099 OK\r\n\r\n",
		"a space before the colon":               lines("HTTP/1.1 200 OK", "Content-Length : 1", "", "a"),
		"lengths that differ":                    lines("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2", "", "ab"),
		"a list of lengths":                      lines("HTTP/1.1 200 OK", "Content-Length: 1, 1", "", "a"),
		"a field that goes on":                   lines("HTTP/1.1 200 OK", "a: b", " c", "", ""),
		"chunks with a Kelvin sign":              lines("HTTP/1.1 200 OK", "Transfer-Encoding: chun\u212aed", "", ""),
		"another transfer coding":                lines("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked", "", ""),
		"a coding after chunked":                 lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked, identity", "", ""),
		"chunked twice":                          lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", "", "0", "", ""),
		"a coding that looks like it":            lines("HTTP/1.1 200 OK", "Transfer-Encoding: \"chunked\"", "", ""),
		"a chunk without a size":                 lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "", ""),
		"a chunk with a sign":                    lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "-1", "a", "0", "", ""),
		"a chunk with a prefix":                  lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0x1", "a", "0", "", ""),
		"a chunk of 2^64 and 1":                  lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "10000000000000001", "a", "0", "", ""),
		"a chunk longer than it says":            lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "ab", "0", "", ""),
		"a chunk shorter than it says":           lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "3", "a", "0", "", ""),
		"a trailer that is no field":             lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0", "nonsense", "", ""),
		"a long line before a chunk":             lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1;"+strings.Repeat("x", maxChunkLine), "a", "0", "", ""),
		"a chunk that begins after LF":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
		"a trailer that ends in LF":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: b\n\r\n",
		"a long head":                            lines("HTTP/1.1 200 OK", "a: "+strings.Repeat("x", maxHead), "", ""),
		"too many fields":                        "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", maxFields+1) + "\r\n",
		"trailers without end":                   lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0") + strings.Repeat("\r\na: b", maxFields+1) + "\r\n\r\n",
		"many connection options":                "HTTP/1.1 204 OK\r\n" + strings.Repeat("Connection: a, b\r\n", mostOptions/2+1) + "\r\n",
		"long trailers":                          lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "0", "a: "+strings.Repeat("x", maxTrailer), "", ""),
	}
}

func TestRefusesWhatIsAmbiguous(t *testing.T) {
	for name, text := range refused() {
		for how, src := range map[string]io.Reader{
			"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		} {
			if a, err := read(src, "GET"); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, %s: %+v, error %v, want a malformed message", name, how, a, err)
			}
		}
		if a, err := readInto(4096, strings.NewReader(text), "GET"); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s, with room for it: %+v, error %v, want a malformed message", name, a, err)
		}
	}
}
