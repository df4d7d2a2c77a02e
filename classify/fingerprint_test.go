package classify

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type fieldList []string

func (l fieldList) Len() int           { return len(l) }
func (l fieldList) Name(at int) string { return l[at] }

func fields(names string) Fields { return fieldList(strings.Fields(names)) }

func fingerprint(fields Fields, header http.Header) string {
	r := &http.Request{ProtoMajor: 1, ProtoMinor: 1, Header: header}
	if fields == nil {
		r.ProtoMajor, r.ProtoMinor = 2, 0
	}
	return string(appendFingerprint(nil, r, fields))
}

const chromeFields = "Host Connection Sec-Ch-Ua Sec-Ch-Ua-Mobile Sec-Ch-Ua-Platform User-Agent Accept Sec-Fetch-Site Sec-Fetch-Mode Sec-Fetch-Dest Accept-Encoding Accept-Language"

func TestFingerprint(t *testing.T) {
	chrome := fingerprint(fields(chromeFields), nil)
	if chrome != "ca5d574e6caa9991" { // sidecars of other versions have the same
		t.Errorf("got %s", chrome)
	}
	for name, same := range map[string]string{
		"a person's":      strings.Replace(chromeFields, "Accept-Encoding", "Referer Cookie Authorization Accept-Encoding", 1),
		"a request's":     "Range If-None-Match " + chromeFields + " Content-Type Cache-Control",
		"a proxy's":       "X-Real-Ip X-Forwarded-For " + chromeFields + " Via",
		"somebody's own":  chromeFields + strings.Repeat(" X-Invented", 10),
		"beyond the last": chromeFields + strings.Repeat(" X-Invented", mostFields) + " Dnt",
	} {
		if got := fingerprint(fields(same), nil); got != chrome {
			t.Errorf("%s fields make another fingerprint, %s", name, got)
		}
	}
	for name, other := range map[string]string{
		"fewer":         strings.Replace(chromeFields, " Accept-Language", "", 1),
		"more":          chromeFields + " Dnt",
		"another order": strings.Replace(chromeFields, "Host Connection", "Connection Host", 1),
		"none":          "",
	} {
		if got := fingerprint(fields(other), nil); got == chrome || len(got) != 16 {
			t.Errorf("%s: fingerprint %s, want one of its own", name, got)
		}
	}
}

// With HTTP/2 only what there is counts, however the map is walked.
func TestFingerprintWithoutOrder(t *testing.T) {
	names := append(strings.Fields(chromeFields), "Cookie", "X-Invented")
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "sent")
		make := func(names []string) http.Header {
			h := http.Header{}
			for _, n := range names {
				h[n] = []string{rapid.String().Draw(t, "value")}
			}
			return h
		}
		first := fingerprint(nil, make(sent))
		counts := slices.DeleteFunc(slices.Clone(sent), func(n string) bool { return markOf(n) == 0 })
		slices.Reverse(counts)
		if again := fingerprint(nil, make(counts)); again != first {
			t.Fatalf("%s and %s of the same fields", first, again)
		}
		if len(counts) > 0 && fingerprint(nil, make(counts[1:])) == first {
			t.Fatalf("a field less makes no difference")
		}
	})
}

// A mark that two fields have would make them one.
func TestMarksDiffer(t *testing.T) {
	seen := make(map[byte]string)
	for name := range strings.FieldsSeq(chromeFields + " Accept-Charset Dnt Sec-Gpc Te Keep-Alive Proxy-Connection From Upgrade Http2-Settings Save-Data Device-Memory") {
		mark := markOf(name)
		if mark == 0 || mark > 31 || seen[mark] != "" || http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s has the mark %d, as has %q", name, mark, seen[mark])
		}
		seen[mark] = name
	}
	if len(seen) != 23 {
		t.Errorf("%d fields have a mark", len(seen))
	}
}
