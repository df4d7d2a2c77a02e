package savedfile

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func encode(t testing.TB, kind string, version uint16, parts []Part) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, kind, version, parts); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var some = []Part{{"one", []byte("some data")}, {"two", nil}, {"one", bytes.Repeat([]byte{7}, 300)}}

func TestRoundTrip(t *testing.T) {
	for _, parts := range [][]Part{nil, some, some[1:2]} {
		got, err := Decode(encode(t, "kind", 3, parts), "kind", 3)
		same := cmp.Comparer(bytes.Equal) // nil is empty
		if diff := cmp.Diff(parts, got, same); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestDamage: whatever is cut off, changed or added is noticed.
func TestDamage(t *testing.T) {
	good := encode(t, "kind", 3, some)
	for i := range good {
		if parts, err := Decode(good[:i], "kind", 3); err == nil || parts != nil {
			t.Errorf("%d bytes of %d are believed: %v", i, len(good), parts)
		}
	}
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if parts, err := Decode(bad, "kind", 3); err == nil || parts != nil {
			t.Errorf("with bit %d of byte %d changed it is believed", i%8, i/8)
		}
	}
	if _, err := Decode(append(bytes.Clone(good), 0), "kind", 3); err == nil {
		t.Error("a byte more is believed")
	}
	less := encode(t, "kind", 3, some[:2])
	if _, err := Decode(append(less[:len(less)-besideData-len(endPart)-4:len(less)], good[len(good)-besideData-len(endPart)-4:]...), "kind", 3); err == nil {
		t.Error("a part less is believed")
	}
}

func TestForeign(t *testing.T) {
	good := encode(t, "kind", 3, some)
	for _, text := range []string{"", "{}", "tempomat save", "\x00\x01\x02", string(encode(t, "other", 3, some))} {
		if _, err := Decode([]byte(text), "kind", 3); !errors.Is(err, ErrForeign) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	for _, version := range []uint16{0, 2, 4} {
		if _, err := Decode(good, "kind", version); err == nil || errors.Is(err, ErrForeign) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// fullDisk takes so many bytes.
type fullDisk int

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), int(*d))
	*d -= fullDisk(n)
	if n < len(b) {
		return n, errors.New("no space left")
	}
	return n, nil
}

func TestWriteTellsOfErrors(t *testing.T) {
	for i := range encode(t, "kind", 3, some) {
		room := fullDisk(i)
		if err := Write(&room, "kind", 3, some); err == nil {
			t.Errorf("with room for %d bytes it is written", i)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, "kind", 3, some))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, text []byte) {
		parts, err := Decode(text, "kind", 3)
		if err == nil && !bytes.Equal(encode(t, "kind", 3, parts), text) {
			t.Errorf("%q is read as %q", text, parts)
		}
	})
}
