package form

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0KB": 0, "17": 17, "17B": 17, "64KB": 65536, "64 kb": 65536, "1GB": 1 << 30, "2mb": 2 << 20, "1TB": 1 << 40,
	} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "must be a size", "KB": "must be a size", "-1": "must be a size", "+1": "must be a size", "1.5GB": "must be a size",
		"64K": "must be a size", "1e6": "must be a size", "0x10": "must be a size", "10 MiB": "must be a size", "1 000": "must be a size",
		"9223372036854775808": "too large", "8388608TB": "too large", "99999999999999999999": "too large",
	} {
		if got, err := parseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v; want %s", text, got, err, want)
		}
	}
}

func TestSizeIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Min(0).Draw(t, "size")
		if got, err := parseSize(formatSize(want)); got != want || err != nil {
			t.Fatalf("%d is printed as %q, and read as %d, %v", want, formatSize(want), got, err)
		}
	})
}
