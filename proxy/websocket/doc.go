// Package websocket follows the frames that go one way over a WebSocket (RFC 6455), as
// far as that is needed to end it in good order: where one frame ends and the next one
// begins. It keeps nothing of what they say.
//
// A proxy that ends takes down connections whose backend goes on, and a client that sees
// its connection close cannot tell that from a failure of the network. A close frame
// with the status 1001, "going away" (section 7.4.1), tells it, and browsers hand it on
// to the page. It may stand between any two frames, also of one message (section 5.4), but
// nowhere else: within a frame it would be taken for its payload. So the direction from
// the server to the client has to be followed from its first byte, the one after the
// head of the 101. Where it does not read like frames any more, nothing is ever said.
package websocket
