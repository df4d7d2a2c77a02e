package quota

import "testing"

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		rule, where string
		want        bool
	}{
		{"", "/a", true}, {"/a", "/a", true}, {"/a", "/ab", false}, {"/a*", "/ab", true},
		{"/a/*", "/a", true}, {"/a/*", "/a/b", true}, {"/a/*", "/ab", false}, {"/*", "/", true},
		{"/a.php", "/a.php/b", true}, {"/a.php", "/a.phpx", false}, {"/a", "/a/b", false}, {"/a.d/b", "/a.d/b/c", false},
	} {
		if got := covers(c.rule, c.where); got != c.want {
			t.Errorf("%q covers %q: %v", c.rule, c.where, got)
		}
	}
}

func TestSpellings(t *testing.T) {
	for where, want := range map[string][4]string{
		"/a": {"/a", "/a", "/a", "/a"}, "*": {"/*", "/*", "/*", "/*"},
		"/a//b/../c/": {"/a/c", "/a/c", "/a//b/../c/", "/a/c"},
		`/\../a`:      {`/\../a`, "/a", `/\../a`, "/a"},
		`\a`:          {`/\a`, "/a", `/\a`, "/a"},
		"/a;b/..;/c;": {"/a;b/..;/c;", "/a;b/..;/c;", "/a;b/..;/c;", "/c"},
		";a;b/c;d/":   {"/;a;b/c;d", "/;a;b/c;d", "/;a;b/c;d/", "/c"},
	} {
		if got := spellings(where); got != want {
			t.Errorf("%q may be %q, want %q", where, got, want)
		}
	}
}
