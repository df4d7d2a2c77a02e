//go:build world

package main

import (
	"fmt"
	"strings"
)

// doubt is a request that servers may interpret in several ways. In the text, ID stands for the request's name, N for
// the length of requestOfABody, and S for requestOfABody itself.
type doubt struct{ group, name, text string }

const doubtHost = "Host: garden.example\r\n"

// doubts returns the cases from lists of attacks on the framing of requests: two lengths (CL.CL, CL.TE, TE.TE), fields
// that only some servers see, and ends of lines or chunks that only some servers accept.
func doubts() (all []doubt) {
	add := func(group, name, text string) { all = append(all, doubt{group, name, text}) }
	post := func(group, name, fields, body string) {
		add(group, name, "POST /ID/length HTTP/1.1\r\n"+doubtHost+fields+"\r\n"+body)
	}
	chunk := func(name, body string) { post("chunks", name, chunkedField, body) }
	line := func(name, text string) { add("request line", name, text+"\r\n"+doubtHost+"\r\n") }
	field := func(name, text string) {
		add("fields", name, "GET /ID/length HTTP/1.1\r\n"+doubtHost+text+"\r\n")
	}
	host := func(name, text string) { add("host", name, "GET /ID/length HTTP/1.1\r\n"+text+"\r\n") }
	const ended, five = "0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"

	post("two lengths", "CL 5, then TE chunked, then a request", "Content-Length: 5\r\n"+chunkedField, ended+requestOfABody)
	post("two lengths", "TE chunked, then CL", chunkedField+"Content-Length: N\r\n", ended+"S")
	post("two lengths", "CL that covers a request, then TE", "Content-Length: 55\r\n"+chunkedField, ended+requestOfABody)
	post("two lengths", "CL 5, CL 6", "Content-Length: 5\r\nContent-Length: 6\r\n", "hello!")
	post("two lengths", "CL 0, CL N", "Content-Length: 0\r\nContent-Length: N\r\n", "S")
	post("two lengths", "CL N, CL 0", "Content-Length: N\r\nContent-Length: 0\r\n", "S")
	post("two lengths", "CL 5 twice", "Content-Length: 5\r\nContent-Length: 5\r\n", "hello")
	post("two lengths", "CL 5, 5 in a list", "Content-Length: 5, 5\r\n", "hello")
	post("two lengths", "CL 5, 6 in a list", "Content-Length: 5, 6\r\n", "hello!")
	post("two lengths", "Content_Length beside CL", "Content_Length: 0\r\nContent-Length: 5\r\n", "hello")
	post("two lengths", "Transfer_Encoding beside CL", "Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello")

	for _, v := range []struct{ name, value string }{
		{"+5", " +5"}, {"-5", " -5"}, {"0x5", " 0x5"}, {"5 5", " 5 5"}, {"nothing", ""}, {"0_5", " 0_5"}, {"5.0", " 5.0"}, {"5e0", " 5e0"},
		{"\"5\"", " \"5\""}, {", 5", " , 5"}, {"2^64 + 5", " 18446744073709551621"}, {"NUL after it", " 5\x00"}, {"VT before it", "\v5"},
		{"digits beyond ASCII", " ５"},
	} {
		post("a length", v.name, "Content-Length:"+v.value+"\r\n", "hello")
	}
	post("a length", "a space before the colon", "Content-Length : N\r\n", "S")
	post("a length", "NUL in the name", "Content-Length\x00: N\r\n", "S")
	post("a length", "005", "Content-Length: 005\r\n", "hello")
	post("a length", "tabs around it", "Content-Length:\t5\t\r\n", "hello")
	post("a length", "in a second line", "Content-Length:\r\n 5\r\n", "hello")

	for _, v := range []struct{ name, lines string }{
		{"chunked and a comma", "Transfer-Encoding: chunked ,\r\n"}, {"xchunked", "Transfer-Encoding: xchunked\r\n"},
		{"chunked, identity", "Transfer-Encoding: chunked, identity\r\n"}, {"identity, chunked", "Transfer-Encoding: identity, chunked\r\n"},
		{"gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n"}, {"identity", "Transfer-Encoding: identity\r\n"},
		{"chunked, then identity", chunkedField + "Transfer-Encoding: identity\r\n"}, {"chunked twice", chunkedField + chunkedField},
		{"chunked, chunked", "Transfer-Encoding: chunked, chunked\r\n"}, {"nothing", "Transfer-Encoding:\r\n"},
		{"a space before the colon", "Transfer-Encoding : chunked\r\n"}, {"NUL after it", "Transfer-Encoding: chunked\x00\r\n"},
		{"VT before it", "Transfer-Encoding: \vchunked\r\n"}, {"FF after it", "Transfer-Encoding: chunked\f\r\n"},
		{"in quotes", "Transfer-Encoding: \"chunked\"\r\n"}, {"with a parameter", "Transfer-Encoding: chunked;q=1\r\n"},
		{"in a second line", "Transfer-Encoding:\r\n chunked\r\n"}, {"in the second line of another field", "X: y\r\n Transfer-Encoding: chunked\r\n"},
		{"behind a bare CR", "X: y\rTransfer-Encoding: chunked\r\n"}, {"no colon", "Transfer-Encoding chunked\r\n"},
		{"NBSP before it", "Transfer-Encoding: \xa0chunked\r\n"}, {"a BOM before it", "Transfer-Encoding: \xef\xbb\xbfchunked\r\n"},
		{"the Kelvin sign in it", "Transfer-Encoding: chun\u212aed\r\n"},
	} {
		post("a transfer coding beside CL", v.name, v.lines+"Content-Length: 5\r\n", ended)
	}
	post("a transfer coding", "identity", "Transfer-Encoding: identity\r\n", "")
	post("a transfer coding", "gzip, chunked", "Transfer-Encoding: gzip, chunked\r\n", five)
	post("a transfer coding", "CHUNKED", "Transfer-Encoding: CHUNKED\r\n", five)
	add("a transfer coding", "in HTTP/1.0", "POST /ID/length HTTP/1.0\r\n"+doubtHost+"Connection: keep-alive\r\n"+chunkedField+"\r\n"+five)

	for _, v := range []struct{ name, body string }{
		{"LF after an extension", "5;a\nhello\r\n0\r\n\r\n"}, {"CR in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"},
		{"LF after the size", "5\nhello\r\n0\r\n\r\n"}, {"CR after the size", "5\rhello\r\n0\r\n\r\n"}, {"LF after the data", "5\r\nhello\n0\r\n\r\n"},
		{"data that are longer", "5\r\nhelloXX0\r\n\r\n"}, {"data without an end", "5\r\nhello0\r\n\r\n"}, {"0x5", "0x5\r\nhello\r\n0\r\n\r\n"},
		{"+5", "+5\r\nhello\r\n0\r\n\r\n"}, {"-5", "-5\r\nhello\r\n0\r\n\r\n"}, {"no size", "\r\nhello\r\n0\r\n\r\n"},
		{"a space before the size", " 5\r\nhello\r\n0\r\n\r\n"}, {"a tab after the size", "5\t\r\nhello\r\n0\r\n\r\n"},
		{"a size of 2^64 + 5", "10000000000000005\r\nhello\r\n0\r\n\r\n"}, {"a size of 31 digits", strings.Repeat("0", 30) + "5\r\nhello\r\n0\r\n\r\n"},
		{"0_5", "0_5\r\nhello\r\n0\r\n\r\n"}, {"LF after the last one", "5\r\nhello\r\n0\n\r\n"}, {"LF as the end", "5\r\nhello\r\n0\r\n\n"},
		{"LF after a trailer", "5\r\nhello\r\n0\r\nX: y\n\r\n"}, {"a quoted CR LF in an extension", "5;a=\"\r\n\r\n\"\r\nhello\r\n0\r\n\r\n"},
		{"NUL in an extension", "5;a\x00\r\nhello\r\n0\r\n\r\n"}, {"a space in the name of a trailer", "5\r\nhello\r\n0\r\nX : y\r\n\r\n"},
		{"no number as the second", "5\r\nhello\r\nxyz\r\nhello\r\n0\r\n\r\n"},
	} {
		chunk(v.name, v.body)
	}
	chunk("an extension", "5;a=b\r\nhello\r\n0\r\n\r\n")
	chunk("spaces after the size", "5  \r\nhello\r\n0\r\n\r\n")
	chunk("00 as the last one", "5\r\nhello\r\n00\r\n\r\n")
	chunk("a length as a trailer", "5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n")
	chunk("a request as data", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(requestOfABody), requestOfABody))

	line("two spaces", "GET  /ID/length HTTP/1.1")
	line("a tab", "GET\t/ID/length HTTP/1.1")
	line("a space after it", "GET /ID/length HTTP/1.1 ")
	line("a space in the target", "GET /ID/length a HTTP/1.1")
	line("a space before it", " GET /ID/length HTTP/1.1")
	line("http/1.1", "GET /ID/length http/1.1")
	line("HTTP/2.0", "GET /ID/length HTTP/2.0")
	line("HTTP/1.10", "GET /ID/length HTTP/1.10")
	line("no version", "GET /ID/length")
	line("NUL in the method", "G\x00T /ID/length HTTP/1.1")
	line("NUL in the target", "GET /ID/length\x00 HTTP/1.1")
	line("CR in the target", "GET /ID/length\rX: HTTP/1.1")
	line("a fragment", "GET /ID/length#a HTTP/1.1")
	line("no slash", "GET ID/length HTTP/1.1")
	line("another scheme", "GET ftp://garden.example/ID/length HTTP/1.1")
	line("an absolute URL", "GET http://garden.example/ID/length HTTP/1.1")
	add("request line", "CR LF before it", "\r\nGET /ID/length HTTP/1.1\r\n"+doubtHost+"\r\n")

	host("none", "")
	host("two", "Host: a\r\nHost: b\r\n")
	host("two that are alike", "Host: a\r\nHost: a\r\n")
	host("of a user", "Host: u@garden.example\r\n")
	host("with a slash", "Host: a/b\r\n")
	host("two in a list", "Host: a, b\r\n")
	host("a space before the colon", "Host : a\r\n")
	host("in a second line", "Host:\r\n a\r\n")

	field("lines that end in LF alone", "X: a\nY: b\r\n")
	field("a second line", "X: a\r\n b\r\n")
	field("a bare CR in a value", "X: a\rb\r\n")
	field("NUL in a value", "X: a\x00b\r\n")
	field("DEL in a value", "X: a\x7fb\r\n")
	field("a space in a name", "X y: a\r\n")
	field("a space before the colon", "X : a\r\n")
	field("NUL in a name", "X\x00y: a\r\n")
	field("no name", ": a\r\n")
	field("no colon", "Xyz\r\n")
	add("fields", "the first line begins with a space", "GET /ID/length HTTP/1.1\r\n X: y\r\n"+doubtHost+"\r\n")
	return all
}

// written returns the request, followed by another one.
func (d *doubt) written(id, next string) string {
	text := strings.NewReplacer("ID", id, "Content-Length: N", fmt.Sprintf("Content-Length: %d", len(requestOfABody))).Replace(d.text)
	text = strings.Replace(text, "Content-Length : N", fmt.Sprintf("Content-Length : %d", len(requestOfABody)), 1)
	text = strings.Replace(text, "Content-Length\x00: N", fmt.Sprintf("Content-Length\x00: %d", len(requestOfABody)), 1)
	if body, ok := strings.CutSuffix(text, "S"); ok {
		text = body + requestOfABody
	}
	return text + "GET /" + next + "/length HTTP/1.1\r\n" + doubtHost + "Connection: close\r\n\r\n"
}
