package savedfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// writerVariable has this program write a file again and again, in its directory.
	writerVariable = "SAVEDFILE_TEST_WRITES"
	writtenFile    = "file"
)

func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) != "" {
		writeForever(writtenFile)
	}
	goleak.VerifyTestMain(m)
}

// generation is a file that holds together: all of it is one number.
func generation(i int) []Part {
	return []Part{{"first", []byte(fmt.Sprint(i))}, {"much", bytes.Repeat([]byte{byte(i)}, 300_000)}, {"last", []byte(fmt.Sprint(i))}}
}

func save(path string, i int) error {
	return Replace(path, func(w io.Writer) error { return Write(w, "test", 1, generation(i)) })
}

func writeForever(path string) {
	for i := 0; ; i++ {
		if err := save(path, i); err != nil {
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
		text, err := ReadOwn(path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := Decode(text, "test", 1)
		if err != nil || len(parts) != 3 || !bytes.Equal(parts[0].Data, parts[2].Data) {
			t.Fatalf("what is left is not whole: %v, %d parts", err, len(parts))
		}
	}
	if err := save(path, 1); err != nil { // whatever lies beside it
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
	if err := save(path, 1); err != nil {
		t.Fatal(err)
	}
	if err := save(path, 2); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk is told as %v", err)
	}
	text, err := ReadOwn(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if parts, err := Decode(text, "test", 1); err != nil || string(parts[0].Data) != "1" {
		t.Errorf("the file was changed: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v is left, %v", files, err)
	}
}
