package proxy

import (
	"bufio"
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/errorpage"
)

// BenchmarkRefuse is a refusal for debt, from one real socket to another: what refusing a
// crawler costs.
func BenchmarkRefuse(b *testing.B) {
	for name, accept := range map[string]string{
		"text": "*/*", "json": "application/json",
		"html": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: de-DE,de;q=0.9,en;q=0.5",
	} {
		b.Run(name, func(b *testing.B) {
			h := benchHandler(b, limiter.Cap, http.NotFoundHandler())
			pages, err := errorpage.Load(errorpage.Options{Languages: []string{"en", "de"}})
			if err != nil {
				b.Fatal(err)
			}
			p := *h.Policy()
			p.Pages = pages
			h.SetPolicy(&p)
			now := time.Now()
			h.limiter.Raise(now, limiter.Key{Class: "slash32", ID: "127.0.0.1"}, now.Add(time.Hour))
			c := benchServer(b, h)[0]
			br := bufio.NewReaderSize(c, 8<<10)
			ask := []byte("GET /page/12?a=1 HTTP/1.1\r\nHost: site.example\r\nUser-Agent: Mozilla/5.0\r\nAccept: " + accept + "\r\n\r\n")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(ask); err != nil {
					b.Fatal(err)
				}
				if err := skipRefusal(br); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// skipRefusal reads a refusal.
func skipRefusal(br *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 429 ")) {
			return &strconv.NumError{Func: "status", Num: string(line), Err: strconv.ErrSyntax}
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			_, err := br.Discard(length)
			return err
		}
	}
}
