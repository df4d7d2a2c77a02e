package http1

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

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
		"no name":                                lines("HTTP/1.1 200 OK", ": 1", "", "a"),
		"no colon":                               lines("HTTP/1.1 200 OK", "nonsense", "", "a"),
		"a name that is no token":                lines("HTTP/1.1 200 OK", "a(b): 1", "", "a"),
		"a control character":                    lines("HTTP/1.1 200 OK", "a: b\x00c", "", "a"),
		"a CR in a value":                        "HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n",
		"a first line that goes on":              lines("HTTP/1.1 200 OK", " a: b", "", ""),
		"lengths that differ":                    lines("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2", "", "ab"),
		"a list of lengths":                      lines("HTTP/1.1 200 OK", "Content-Length: 1, 1", "", "a"),
		"a field that goes on":                   lines("HTTP/1.1 200 OK", "a: b", " c", "", ""),
		"a length with a sign":                   lines("HTTP/1.1 200 OK", "Content-Length: +1", "", "a"),
		"a length in hexadecimal":                lines("HTTP/1.1 200 OK", "Content-Length: 0x1", "", "a"),
		"a length beyond all":                    lines("HTTP/1.1 200 OK", "Content-Length: 18446744073709551617", "", "a"),
		"an empty length":                        lines("HTTP/1.1 200 OK", "Content-Length:", "", "a"),
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
