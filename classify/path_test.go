package classify

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

func shape(path, query string) string {
	text, _ := appendShape(nil, path, query)
	return string(text)
}

func TestShape(t *testing.T) {
	tests := []struct{ target, want string }{
		{"/", "/"},
		{"//", "/"},
		{"/blog", "/blog"},
		{"/blog/", "/blog"},
		{"//blog///News/", "/blog/news"},
		{"/%62log", "/blog"},
		{"/a%2Fb", "/a/b"},
		{"/a/./b/../c", "/a/c"},
		{"/../../a", "/a"},
		{"/a/%2e%2e/b", "/b"},
		{"/blog/12", "/blog/*"},
		{"/blog/2024-01-05", "/blog/*"},
		{"/page2", "/page#"},
		{"/page23", "/page#"},
		{"/2col", "/#col"},
		{"/user/550e8400-e29b-41d4-a716-446655440000/edit", "/user/*/edit"},
		{"/user/9f86d081884c7d659a2feaa0c55ad015", "/user/*"},
		{"/s/dBjftJeZ4CVPmB92K27uhbUJU1p1r", "/s/*"},
		{"/user/550e8400-e29b-41d4-a716-44665544000g", "/user/*-e#b-*-a#-#g"},
		{"/abcd1234", "/*"},
		{"/abcde12", "/abcde#"}, // too short for an identifier
		{"/x-abcde12", "/x-abcde#"},
		{"/ghijk123", "/ghijk#"},         // not hexadecimal
		{"/ghijklmnop1", "/ghijklmnop#"}, // 11 letters and runs of digits
		{"/ghijklmnopq1", "/*"},          // 12 of them
		{"/a-1-*-b", "/a-*-b"},           // adjacent wildcards become one
		{"/a-1-*b", "/a-*b"},
		{"/a1*.b", "/a#*.b"},
		{"/-a", "/a"},
		{"/abcdefghij-abcdefghij-abcdefghij", "/abcdefghij-abcdefghij-abcdefghij"}, // the longest segment
		{"/abcdefghij-abcdefghij-abcdefghijk", "/*"},
		{"/a-b.css*", "/a-b.css*"},
		{"/assets/9f86d081884c7d65.css", "/assets/*.css"},
		{"/js/jquery-3.6.0.min.js", "/js/jquery-#.min.js"},
		{"/img_0001.JPG", "/img-#.jpg"},
		{"/about-us", "/about-us"},
		{"/how-to-bake-bread", "/how-to-bake-bread"},
		{"/how-to-bake-bread-at-home", "/*"},
		{"/how-to-bake-bread-at-home.html", "/*.html"},
		{"/a-title-of-quite-a-few-words-in-a-row.jpg", "/*.jpg"},
		{"/overlong-" + strings.Repeat("y", 24) + ".jpg", "/*.jpg"},
		{"/überuns", "/*"},
		{"/%D0%BF%D1%80.pdf", "/*.pdf"},
		{"/" + strings.Repeat("x", 25), "/*"},
		{"/.well-known/acme", "/.well-known/acme"},
		{"/wp-login.php", "/wp-login.php"},
		{"/a/b/c/d/e/f/g/h", "/a/b/c/d/e/f/g/h"},
		{"/a/b/c/d/e/f/g/h/i/j", "/a/b/c/d/e/f/g/h/*"},
		{"/one-two-three-four/five-six-seven-eight/nine-ten-eleven-dozen", "/one-two-three-four/five-six-seven-eight/nine-ten-eleven-dozen"},
		{"/one-two-three-four/five-six-seven-eight/nine-ten-eleven-dozen/x", "/one-two-three-four/five-six-seven-eight/nine-ten-eleven-dozen/*"},
		{"/---", "/-"},
		{"/a%20b", "/a-b"},
		{"/a%7fb", "/*"},
		{"/a%1fb", "/*"},
		{"/w-w-w-w.css", "/w-w-w-w.css"}, // the most words of a segment
		{"/w-w-w-w-w", "/*"},
		{"/w-w-w-w-w.eeeee", "/*.eeeee"}, // the longest extension
		{"/w-w-w-w-w.eeeeee", "/*"},
		{strings.Repeat("/a/..", 3*maxSegments) + "/b", "/b"},
		{"/a?abcdefghijklmnop", "/a?abcdefghijklmnop"}, // the longest name
		{"/blog?", "/blog"},
		{"/blog?page=3", "/blog?page"},
		{"/blog?=3", "/blog?"},
		{"/blog?page=3&Sort=asc", "/blog?page&sort"},
		{"/blog?page=3;b=2", "/blog?page&b"},
		{"/w?action;title=a;b&c", "/w?action&title&b&c"},
		{"/w?;;a;;&b;", "/w?a&b"},
		{"/w?;", "/w?"},
		{"/l?f[]=1&f[]=2&f%5Bx%5D=3&q", "/l?f&q"},
		{"/l?a&b=1&b=2&a", "/l?a&b&a"}, // only adjacent names are joined
		{"/l?a&b&c&d&e", "/l?a&b&c&d"},
		{"/l?x8f7a9=1", "/l?*"},
		{"/l?1704067200", "/l?*"},
		{"/l?%70age=1", "/l?*"},
		{"/l?[x]=1", "/l?*"},
		{"/l?abcdefghijklmnopq=1", "/l?*"},
	}
	for _, test := range tests {
		u, err := url.ParseRequestURI(test.target)
		testkit.Must(t, err)
		testkit.Same(t, test.want, shape(u.Path, u.RawQuery), "shape of %q", test.target)
	}
}

// TestShapePathEnd: the key of a PathShape class doesn't include the names of the parameters.
func TestShapePathEnd(t *testing.T) {
	const longest = "/one-two-three-four/five-six-seven-eight/nine-ten-eleven-dozen"
	for _, test := range []struct{ path, query, want string }{
		{"/a/1", "", "/a/*"},
		{"/a/1", "x=1&y=2", "/a/*?"},
		{"", "", "/"},
		{longest, "x", longest + "?"},
	} {
		text, end := appendShape([]byte("before"), test.path, test.query)
		testkit.Same(t, test.want, string(text[len("before"):end]), "path %q, query %q: key", test.path, test.query)
	}
}

func checkShape(t interface {
	Helper()
	Fatalf(string, ...any)
}, path, query string) {
	t.Helper()
	got := shape(path, query)
	if len(got) > maxShape || got == "" || got[0] != '/' {
		t.Fatalf("shape(%q, %q) = %q, want a leading / and at most %d bytes", path, query, got, maxShape)
	}
	for _, c := range []byte(got) {
		if (c < 'a' || c > 'z') && strings.IndexByte("/*#.-?&", c) < 0 {
			t.Fatalf("shape(%q, %q) = %q contains the byte %q", path, query, got, c)
		}
	}
	before, after, _ := strings.Cut(got, "?")
	if len(before) > maxShapePath || strings.Count(before, "/") > maxSegments+1 || strings.Count(after, "&") >= maxNames {
		t.Fatalf("shape(%q, %q) = %q has a part that is too long", path, query, got)
	}
	if again := shape(before, ""); again != before {
		t.Fatalf("shape(%q, _) = %q, whose shape is %q", path, before, again)
	}
	if again := shape(before, after); after != "" && again != got {
		t.Fatalf("shape(%q, %q) = %q, whose shape is %q", path, query, got, again)
	}
}

func TestShapeIsBoundedAndStable(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"/", "/", "-", ".", "_", "..", "/../", "*", "#", "~", "é", "\x00", " ", "abcdefghijklmnopqrstuvwx", "word",
			"12ab34", "deadbeef", "abcdef0", "css", "550e8400-e29b-41d4-a716-446655440000",
		}),
		rapid.StringMatching(`[a-zA-Z]{1,12}`),
		rapid.StringMatching(`[0-9]{1,5}`),
	)
	text := rapid.SliceOfN(piece, 0, 24)
	rapid.Check(t, func(t *rapid.T) {
		path := strings.Join(text.Draw(t, "path"), "")
		query := strings.Join(text.Draw(t, "query"), rapid.SampledFrom([]string{"", "&", ";", "=", "[", "%"}).Draw(t, "by"))
		checkShape(t, path, query)
	})
}

// TestShapeOfIdentifiersIsOne: random identifiers, dates and numbers don't make new shapes.
func TestShapeOfIdentifiersIsOne(t *testing.T) {
	identifier := rapid.OneOf(
		rapid.StringMatching(`[0-9]{1,30}`),
		rapid.StringMatching(`[0-9]{4}-[0-9]{2}-[0-9]{2}`),
		rapid.StringMatching(`[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}`),
		rapid.StringMatching(`[a-f]{4}[0-9]{4}[a-f0-9]{0,40}`),
		rapid.StringMatching(`[A-Za-z]{3}[0-9]{2}[A-Za-z]{3}[0-9][A-Za-z0-9]{0,40}`),
		rapid.StringMatching(`[A-Za-z]{25,60}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		id := identifier.Draw(t, "id")
		if got := shape("/item/"+id+"/edit", id+"="+id); got != "/item/*/edit?*" {
			t.Fatalf("the shape with %q is %q", id, got)
		}
	})
}

func FuzzPathShape(f *testing.F) {
	f.Add("/", "")
	f.Add("/blog/2024/05/a-title-of-five-words.html", "page=3&f[]=1")
	f.Add("/../a/./b//550e8400-e29b-41d4-a716-446655440000", "&=&%&[")
	f.Add("/w", "a;b=1;;&c;[")
	f.Add("/.a..b.-.c*#*1/\xff\x00", "12&a1&*&#")
	f.Fuzz(func(t *testing.T, path, query string) { checkShape(t, path, query) })
}
