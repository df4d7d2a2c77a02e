package http1

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func skipsNone(string) bool { return false }

// TestOrder: fields come as they were written, then what was added to them.
func TestOrder(t *testing.T) {
	fields := []Field{
		{[]byte("x-B"), []byte("1")}, {[]byte("ETAG"), []byte("2")}, {[]byte("A"), []byte("3")}, {[]byte("X-b"), []byte("4")}, {[]byte("Gone"), []byte("5")},
	}
	h, order := Header(fields)
	h["New"], h["Also"] = []string{"6"}, []string{"7"}
	delete(h, "Gone")
	got := string(AppendHeader(nil, h, order, func(name string) bool { return name == "A" || name == "Also" }))
	if want := lines("x-B: 1", "x-B: 4", "ETAG: 2", "New: 6", ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHeaderRoundTrip: what is written of a header that was read is read as the same one,
// whatever its order, and in the same order again.
func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fields []Field
		for i := range rapid.IntRange(0, 3*fewNames).Draw(t, "fields") {
			name := rapid.SampledFrom([]string{"ETag", "etag", "Cookie", "X-A", "x-a", "Host"}).Draw(t, "name")
			if rapid.Bool().Draw(t, "of its own") {
				name = fmt.Sprintf("n%d", i)
			}
			fields = append(fields, Field{[]byte(name), []byte(rapid.StringMatching("[a-z]{0,3}").Draw(t, "value"))})
		}
		h, order := Header(fields)
		added := maps.Clone(h)
		added["Zz"] = []string{"1"}
		text := AppendHeader(nil, added, order, skipsNone)
		if !strings.HasSuffix(string(text), "Zz: 1\r\n") {
			t.Fatalf("what is added is not at the end: %q", text)
		}
		again, err := appendFields(nil, append(text, "\r\n"...), true)
		if err != nil {
			t.Fatal(err)
		}
		h2, order2 := Header(again)
		if !maps.EqualFunc(added, h2, slices.Equal[[]string]) || !slices.Equal(append(order, Name{"Zz", "Zz"}), order2) {
			t.Fatalf("%v, %v became %v, %v", added, order, h2, order2)
		}
	})
}

// TestNamesThatAreMany are written once each, in little time.
func TestNamesThatAreMany(t *testing.T) {
	h := http.Header{}
	var fields []Field
	for i := range maxFields {
		fields = append(fields, Field{[]byte(fmt.Sprintf("n%d", i)), []byte("x")})
		h[fmt.Sprintf("M%d", i)] = []string{"x"}
	}
	all, order := Header(fields)
	maps.Copy(all, h)
	if n := strings.Count(string(AppendHeader(nil, all, order, skipsNone)), "\n"); n != 2*maxFields {
		t.Errorf("%d lines", n)
	}
}
