package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	// writerVariable has this program write a file again and again, in its directory.
	writerVariable = "TEMPOMAT_TEST_WRITES"
	writtenFile    = "file"
)

func savedText(t testing.TB, kind string, version int, parts []savedPart) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := (&saved{kind, version, parts}).write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSaved: what is read is what was written, and whatever is cut off, changed, added or of
// another kind is noticed.
func TestSaved(t *testing.T) {
	some := []savedPart{{"one", []byte("some data")}, {"two", nil}, {"one", bytes.Repeat([]byte{7}, 300)}}
	good := savedText(t, "kind", 3, some)
	got, err := decodeSaved(good, "kind", 3)
	if diff := cmp.Diff(some, got, cmp.Comparer(bytes.Equal)); err != nil || diff != "" { // nil is empty
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for i := range good {
		if parts, err := decodeSaved(good[:i], "kind", 3); err == nil || parts != nil {
			t.Errorf("%d bytes of %d are believed: %v", i, len(good), parts)
		}
	}
	for i := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if parts, err := decodeSaved(bad, "kind", 3); err == nil || parts != nil {
			t.Errorf("with bit %d of byte %d changed it is believed", i%8, i/8)
		}
	}
	if _, err := decodeSaved(append(bytes.Clone(good), 0), "kind", 3); err == nil {
		t.Error("a byte more is believed")
	}
	for _, text := range []string{"", "{}", "tempomat save", "\x00\x01\x02", string(savedText(t, "other", 3, some))} {
		if _, err := decodeSaved([]byte(text), "kind", 3); !errors.Is(err, errForeign) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	for _, version := range []int{0, 2, 4} {
		if _, err := decodeSaved(good, "kind", version); err == nil || errors.Is(err, errForeign) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// generation is a file that holds together: all of it is one number.
func generation(i int) []savedPart {
	return []savedPart{{"first", []byte(fmt.Sprint(i))}, {"much", bytes.Repeat([]byte{byte(i)}, 300_000)}, {"last", []byte(fmt.Sprint(i))}}
}

func saveGeneration(path string, i int) error {
	return replaceFile(path, (&saved{"test", 1, generation(i)}).write)
}

func writeForever(path string) {
	for i := 0; ; i++ {
		if err := saveGeneration(path, i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if i == 0 {
			fmt.Println("writes")
		}
	}
}

// TestKilled ends a process as it writes, some times. What is there is always whole.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, writtenFile)
	for range 15 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), writerVariable+"=1")
		writer.Dir = dir
		out, err := writer.StdoutPipe()
		if err = errors.Join(err, writer.Start()); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Errorf("it does not write: %v", err)
		}
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond) // anywhere in a write
		_ = writer.Process.Kill()
		_ = writer.Wait()
		text, err := readOwn(path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := decodeSaved(text, "test", 1)
		if err != nil || len(parts) != 3 || !bytes.Equal(parts[0].Data, parts[2].Data) {
			t.Fatalf("what is left is not whole: %v, %d parts", err, len(parts))
		}
	}
	if err := saveGeneration(path, 1); err != nil { // whatever lies beside it
		t.Error(err)
	}
}

// TestFullDisk leaves the file as it was, and nothing beside it.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("this test needs to mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "file")
	if err := saveGeneration(path, 1); err != nil {
		t.Fatal(err)
	}
	if err := saveGeneration(path, 2); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk is told as %v", err)
	}
	text, err := readOwn(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := decodeSaved(text, "test", 1); err != nil || string(parts[0].Data) != "1" {
		t.Errorf("the file was changed: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v is left, %v", files, err)
	}
}
