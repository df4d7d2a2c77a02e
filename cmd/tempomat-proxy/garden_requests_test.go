//go:build world

package main

import (
	"fmt"
	"strings"
)

// sent is a request that a client of the garden sends.
type sent struct {
	kind    string // kind of answer that the client wants; see recorder
	method  string
	minor   int    // minor version of HTTP
	fields  string // lines
	body    string // the body, decoded
	coded   string // the body as it is sent, if it differs
	expects bool   // the body is sent only when the server asks for it
	status  int    // of the answer
	closes  bool   // the connection closes after the request
	breaks  bool   // the body is invalid and is refused
}

// text returns the request in two parts: the headers and the body.
func (s *sent) text(id string) (head, body string) {
	if body = s.coded; body == "" {
		body = s.body
	}
	return fmt.Sprintf("%s /%s/%s HTTP/1.%d\r\nHost: garden.example\r\n%s\r\n", s.method, id, s.kind, s.minor, s.fields), body
}

// step is one or more requests that a client sends in one piece.
type step struct {
	name     string
	requests []sent
}

func lengthOf(body string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(body)) }

const chunkedField = "Transfer-Encoding: chunked\r\n"

// upload is a body that is larger than any socket buffer.
var upload = strings.Repeat("0123456789abcde\n", 20000)

// requestOfABody is a body that looks like a request.
const requestOfABody = "GET /smuggled/x HTTP/1.1\r\nHost: garden.example\r\n\r\n"

// chunks writes a body in two chunks.
func chunks(body string) string {
	half := len(body) / 2
	return fmt.Sprintf("%x\r\n%s\r\n%X\r\n%s\r\n0\r\n\r\n", half, body[:half], len(body)-half, body[half:])
}

func get(kind string) sent { return sent{kind: kind, method: "GET", minor: 1, status: 200} }

func post(kind, body string) sent {
	return sent{kind: kind, method: "POST", minor: 1, fields: lengthOf(body), body: body, status: 200}
}

func (s sent) with(fields string) sent { s.fields += fields; return s }
func (s sent) says(status int) sent    { s.status = status; return s }
func (s sent) as(method string) sent   { s.method = method; return s }
func (s sent) inChunks() sent {
	s.fields = strings.Replace(s.fields, lengthOf(s.body), chunkedField, 1)
	s.coded = chunks(s.body)
	return s
}
func (s sent) extended() sent {
	s.coded = strings.Replace(s.coded, "\r\n", ";a=b;c=\"d\"\r\n", 1)
	return s
}
func (s sent) trailed() sent {
	s.fields += "Trailer: X-Trail\r\n"
	s.coded = strings.TrimSuffix(s.coded, "\r\n") + "X-Trail: t\r\n\r\n"
	return s
}
func (s sent) old(stays bool) sent {
	if s.minor = 0; stays {
		s.fields += "Connection: keep-alive\r\n"
	}
	s.closes = !stays
	return s
}
func (s sent) expecting() sent {
	s.fields += "Expect: 100-continue\r\n"
	s.expects = true
	return s
}

// steps are the requests that every chain must carry, on one connection if it stays open.
func steps() []step {
	one := func(name string, s sent) step { return step{name, []sent{s}} }
	return []step{
		one("no body", get("length")),
		one("an answer in chunks", get("chunks")),
		one("an answer in chunks, extended", get("extended")),
		one("an answer without a length", get("end")),
		one("a length", post("length", "hello")),
		one("a length of nothing", post("length", "")),
		one("chunks", post("length", "hello, garden").inChunks()),
		one("chunks, extended", post("length", "hello, garden").inChunks().extended()),
		one("a trailer", post("length", "hello, garden").inChunks().trailed()),
		one("a trailer of the answer", get("trailer")),
		one("chunks both ways", post("chunks", "hello, garden").inChunks().as("PUT")),
		one("a body that looks like a request", post("length", requestOfABody)),
		one("the same in chunks", post("length", requestOfABody).inChunks()),
		one("a body of DELETE that looks like a request", post("length", requestOfABody).as("DELETE")),
		one("HEAD", get("length").as("HEAD")),
		one("HEAD of chunks", get("chunks").as("HEAD")),
		one("204", get("nothing").says(204)),
		one("304", get("unchanged").with("If-None-Match: \"1\"\r\n").says(304)),
		one("103 first", get("hints")),
		one("a range", get("part").with("Range: bytes=2-5\r\n").says(206)),
		one("Expect", post("length", "hello").expecting()),
		one("Expect, in chunks", post("length", "hello").inChunks().expecting()),
		one("an upload", post("length", upload)),
		one("an upload in chunks", post("length", upload).inChunks()),
		{"two at once", []sent{get("length"), get("chunks")}},
		{"a body, and two more", []sent{post("length", "hello"), get("nothing").says(204), post("chunks", "bye").inChunks()}},
		{"HEAD and another one", []sent{get("length").as("HEAD"), get("length")}},
		one("an early answer", post("early", upload).says(413)),
		one("no wish for the body", post("refused", "hello").expecting().says(403)),
		one("a body that breaks off", sent{kind: "length", method: "POST", minor: 1, fields: chunkedField, coded: "5\r\nhello\r\nxyz\r\n", breaks: true}),
		one("HTTP/1.0 that stays", get("length").old(true)),
		one("HTTP/1.0 that stays, with a body", post("length", "hello").old(true)),
		one("HTTP/1.0, an answer in chunks", get("chunks").old(true)),
		one("HTTP/1.0", get("length").old(false)),
		one("HTTP/1.0, an answer in chunks, and the end", get("chunks").old(false)),
		one("no body at the end", get("length").with("Connection: close\r\n")),
	}
}
