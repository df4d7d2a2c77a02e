package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestShare: status prints the document of any kind of sharing line by line. Names that peers chose can't
// control the terminal.
func TestShare(t *testing.T) {
	path := serveOther(t, 200, `{"version":1,"kind":"other\u001b[2J","trouble":"no route\r\n","state":{
		"name":"b","sent":123456789,"rate":0.25,"nothing":null,"empty":[],"domains":["a","\u001b]0;owned\u0007"],
		"peers":[{"name":"x\u202e","live":true},{"name":"y","live":false}],"deep":[1,[2]]}}`)
	code, stdout, stderr := call(t, nil, "status", "--socket", path)
	const want = `sharing               other\x1b[2J
trouble       no route\r\n
deep.1        1
deep.2.1      2
domains       a, \x1b]0;owned\a
empty         none
name          b
peers.1.live  true
peers.1.name  x\u202e
peers.2.live  false
peers.2.name  y
rate          0.25
sent          123456789
`
	plain := regexp.MustCompile(` {2,}`).ReplaceAllString(stdout, "  ")
	for line := range strings.Lines(want) {
		if !strings.Contains(plain, regexp.MustCompile(` {2,}`).ReplaceAllString(line, "  ")) {
			t.Errorf("status %d, stderr %q: no %q in\n%s", code, stderr, line, stdout)
		}
	}
}
