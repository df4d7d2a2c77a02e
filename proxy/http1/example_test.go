package http1_test

import (
	"fmt"
	"io"
	"strings"

	"tempomat/proxy/http1"
)

// Two requests came on one connection. Where the first one ends is plain. The second one
// says it in two ways, so that its body could end in one place here and in another for the
// backend, to which the rest would be a request of its own.
func ExampleBuffer_ReadRequest() {
	connection := strings.NewReader("" +
		"POST /search HTTP/1.1\r\nHost: example.org\r\nContent-Length: 7\r\n\r\nq=proxy" +
		"POST /search HTTP/1.1\r\nHost: example.org\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\n")
	const mostOfHead = 8 << 10
	var b http1.Buffer
	b.Reset(connection, make([]byte, 512))
	for {
		var head http1.RequestHead
		if err := b.ReadRequest(&head, mostOfHead); err != nil {
			fmt.Println(http1.StatusOf(err), err)
			return // and the connection is closed
		}
		fmt.Printf("%s %s at %s, stays: %t\n", head.Method, head.Target, head.Host, head.KeepAlive)
		if head.Framing == http1.Length {
			body, err := io.ReadAll(io.LimitReader(&b, head.Length))
			fmt.Printf("%d bytes: %q %v\n", head.Length, body, err)
		}
	}
	// Output:
	// POST /search at example.org, stays: true
	// 7 bytes: "q=proxy" <nil>
	// 400 malformed message: a body that ends in several places
}
