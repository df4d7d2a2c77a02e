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

// TestWrittenAsItCame: the one name that is common in another spelling than that of package
// net/http keeps its own.
func TestWrittenAsItCame(t *testing.T) {
	h, order := Header([]Field{{[]byte("ETag"), []byte("1")}})
	if got := string(AppendHeader(nil, h, order, skipsNone)); got != lines("ETag: 1", "") || h.Get("Etag") != "1" {
		t.Errorf("%q, of %v", got, h)
	}
}

func TestAnnounced(t *testing.T) {
	for name, c := range map[string]struct{ told, want []string }{
		"none":    {nil, nil},
		"nothing": {[]string{" , ,"}, nil},
		"two":     {[]string{"x-sum, Etag"}, []string{"Etag", "X-Sum"}},
		"lines":   {[]string{"A,", "b"}, []string{"A", "B"}},
	} {
		got := Announced(http.Header{"Trailer": c.told})
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRoomForTexts: memory is made once for all that is asked for, and used as long as it
// goes.
func TestRoomForTexts(t *testing.T) {
	var all Texts
	long := Field{make([]byte, 5000), make([]byte, 5000)}
	if text := all.Borrow([]Field{long}, 7); text.all.Cap() < 10_007 {
		t.Errorf("room for %d bytes of 10007", text.all.Cap())
	}
	var text Text
	text.grow(nil, 0, 64)
	text.Of([]byte("a"))
	left := text.all.Cap() - 1
	if text.grow(nil, left, 64); text.all.Len() != 1 {
		t.Error("memory with enough room is left behind")
	}
	if text.grow(nil, left+1, 64); text.all.Len() != 0 {
		t.Error("memory with too little room is used")
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
