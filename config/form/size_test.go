package form

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0KB": 0, "17": 17, "17B": 17, "64KB": 65536, "64 kb": 65536, "1GB": 1 << 30, "2mb": 2 << 20, "1TB": 1 << 40,
	} {
		if got, ok := parseSize(text); got != want || !ok {
			t.Errorf("%q: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "KB", "-1", "+1", "1.5GB", "64K", "1e6", "0x10", "10 MiB", "1 000", "9223372036854775808", "8388608TB", "99999999999999999999",
	} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestSizeIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Min(0).Draw(t, "size")
		if got, ok := parseSize(formatSize(want)); got != want || !ok {
			t.Fatalf("%d is printed as %q, and read as %d, %t", want, formatSize(want), got, ok)
		}
	})
}
