package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

const megabyte = 1 << 20

// protocols are the ways in. A client of each speaks only that.
var protocols = []struct {
	name   string
	major  int
	client func(*testing.T) *http.Client
}{
	{"HTTP1", 1, newClient},
	{"h2c", 2, newH2C},
}

// TestPages asks real Apache and PHP for all kinds of things through the proxy.
func TestPages(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, "log: {access: all}\n")
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c := p.client(t)
			page := fetch(t, c, http.MethodGet, s.url+"/page.php?ms=5", nil, nil)
			if page.ProtoMajor != p.major {
				t.Errorf("the answer came by %s", page.Proto)
			}
			if page.StatusCode != http.StatusOK || !strings.Contains(page.body, "A page of 5 ms") ||
				!strings.HasSuffix(page.body, "</body></html>\n") {
				t.Errorf("page: %s, %d bytes", page.Status, len(page.body))
			}
			t.Run("file", func(t *testing.T) { passesFiles(t, c, s.url, backend.url) })
			t.Run("upload", func(t *testing.T) { passesUpload(t, c, s.url) })
			t.Run("events", func(t *testing.T) { passesEvents(t, c, s.url) })
		})
	}
}

// passesFiles compares a static file with the one that Apache gives itself.
func passesFiles(t *testing.T, c *http.Client, through, direct string) {
	want, err := os.ReadFile("../../testdata/apache/site/style.css")
	if err != nil {
		t.Fatal(err)
	}
	got := fetch(t, c, http.MethodGet, through+"/style.css", nil, nil)
	itself := fetch(t, newClient(t), http.MethodGet, direct+"/style.css", nil, nil)
	if got.body != string(want) {
		t.Errorf("the file came as %d bytes, not these %d:\n%s", len(got.body), len(want), got.body)
	}
	for _, name := range []string{"Content-Type", "Content-Length", "Last-Modified", "Etag", "Accept-Ranges", "Server"} {
		if g, w := got.Header[name], itself.Header[name]; fmt.Sprint(g) != fmt.Sprint(w) || len(w) == 0 {
			t.Errorf("%s: %q, Apache itself says %q", name, g, w)
		}
	}
	head := fetch(t, c, http.MethodHead, through+"/style.css", nil, nil)
	if head.StatusCode != http.StatusOK || head.body != "" || head.ContentLength != int64(len(want)) {
		t.Errorf("HEAD: %s, %d bytes, length %d, want none and %d", head.Status, len(head.body), head.ContentLength, len(want))
	}
	part := fetch(t, c, http.MethodGet, through+"/style.css", http.Header{"Range": {"bytes=100-199"}}, nil)
	if r := fmt.Sprintf("bytes 100-199/%d", len(want)); part.StatusCode != http.StatusPartialContent ||
		part.Header.Get("Content-Range") != r || part.body != string(want[100:200]) {
		t.Errorf("Range: %s, %q, %q", part.Status, part.Header["Content-Range"], part.body)
	}
	cached := fetch(t, c, http.MethodGet, through+"/style.css", http.Header{"If-None-Match": itself.Header["Etag"]}, nil)
	if cached.StatusCode != http.StatusNotModified || cached.body != "" {
		t.Errorf("If-None-Match: %s, %d bytes", cached.Status, len(cached.body))
	}
}

// passesUpload sends 20 MB, with their length announced and without.
func passesUpload(t *testing.T, c *http.Client, through string) {
	data := make([]byte, 20*megabyte)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(data)
	sum := sha1.Sum(data)
	want := fmt.Sprint(len(data), " ", hex.EncodeToString(sum[:]))
	for name, body := range map[string]io.Reader{
		"announced": bytes.NewReader(data),
		"chunked":   io.MultiReader(bytes.NewReader(data)),
	} {
		res := fetch(t, c, http.MethodPost, through+"/upload.php", nil, body)
		var got struct {
			Length int
			SHA1   string
		}
		if err := json.Unmarshal([]byte(res.body), &got); err != nil {
			t.Fatalf("%s: %s: %v: %q", name, res.Status, err, res.body)
		}
		if told := fmt.Sprint(got.Length, " ", got.SHA1); told != want {
			t.Errorf("%s: %s arrived, want %s", name, told, want)
		}
	}
}

// passesEvents reads server-sent events.
func passesEvents(t *testing.T, c *http.Client, through string) {
	res := fetch(t, c, http.MethodGet, through+"/sse.php?n=5&ms=10", nil, nil)
	var want strings.Builder
	for i := 1; i <= 5; i++ {
		fmt.Fprintf(&want, "id: %d\ndata: event %d of 5\n\n", i, i)
	}
	if res.body != want.String() || res.Header.Get("Content-Type") != "text/event-stream;charset=UTF-8" {
		t.Errorf("%s: %q, want %q", res.Header.Get("Content-Type"), res.body, want.String())
	}
	// The second event comes in a minute. If the first waited for it, it would
	// come then, too.
	first := make(chan string, 1)
	stream := open(t, c, http.MethodGet, through+"/sse.php?n=2&ms=60000", nil, nil)
	defer stream.Body.Close()
	go readEvent(stream.Body, first)
	testkit.Eventually(t, "the first event before the second was sent", func() bool { return len(first) > 0 })
	if event := <-first; event != "id: 1\ndata: event 1 of 2\n\n<nil>" {
		t.Errorf("the first event is %q", event)
	}
}

func readEvent(stream io.Reader, to chan<- string) {
	event := make([]byte, len("id: 1\ndata: event 1 of 2\n\n"))
	_, err := io.ReadFull(stream, event)
	to <- fmt.Sprint(string(event), err)
}
