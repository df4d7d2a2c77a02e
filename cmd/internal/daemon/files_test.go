package daemon

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

	"tempomat/internal/testkit"
)

// writerVariable makes this program write a file again and again, in its directory.
const writerVariable = "TEMPOMAT_TEST_WRITES"

func TestMain(m *testing.M) {
	for i := 0; os.Getenv(writerVariable) != ""; i++ {
		if err := writeGeneration("file", byte(i)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if i == 0 {
			fmt.Println("writes")
		}
	}
	os.Exit(m.Run())
}

// writeGeneration writes a file whose bytes are all the same.
func writeGeneration(path string, i byte) error {
	return ReplaceFile(path, 0o600, Keep, Keep, func(w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte{i}, 300_000))
		return err
	})
}

// readGeneration fails if the file has bytes from several generations.
func readGeneration(t *testing.T, path string) byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 300_000 || bytes.Count(text, text[:1]) != len(text) {
		t.Fatalf("%v, or the %d bytes are not whole", err, len(text))
	}
	return text[0]
}

// TestKilled kills a process several times while it writes. The file is always complete.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for range 5 {
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), writerVariable+"=1")
		writer.Dir = dir
		out, err := writer.StdoutPipe()
		testkit.Must(t, errors.Join(err, writer.Start()))
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Errorf("it does not write: %v", err)
		}
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond) // at any point of a write
		_ = writer.Process.Kill()
		_ = writer.Wait()
		readGeneration(t, path)
	}
}

// TestFullDisk: on a full disk, the file stays unchanged, and no temporary file is left.
func TestFullDisk(t *testing.T) {
	dir := testkit.SmallDisk(t, 512)
	path := filepath.Join(dir, "file")
	testkit.Must(t, writeGeneration(path, 1))
	if err := writeGeneration(path, 2); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk is told as %v", err)
	}
	testkit.Same(t, 1, readGeneration(t, path), "the file's generation")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v is left, %v", files, err)
	}
}

// TestSecretWithoutAccess: the error of a secret that this process can't read says how to give it access.
func TestSecretWithoutAccess(t *testing.T) {
	if err := WithRemedy(&os.PathError{Op: "open", Path: "/f", Err: syscall.EACCES}, "/f"); err.Error() != "open /f: permission denied. Let the group tempomat read it: chgrp tempomat /f && chmod 640 /f" {
		t.Error(err)
	}
}
