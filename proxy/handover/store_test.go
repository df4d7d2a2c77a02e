package handover_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/proxy/handover"
	"tempomat/proxy/handover/handovertest"
)

func listening(t *testing.T, address string) handover.Socket {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return handover.Socket{Listener: l, Address: address}
}

// TestKeep: who connects while nobody accepts is answered by whoever gets the socket next,
// and is refused when it is forgotten.
func TestKeep(t *testing.T) {
	manager := handovertest.StartManager(t)
	store := handover.Store{Notify: manager.Path}
	s := listening(t, "[::1%lo]:80")
	if kept, err := store.Keep(s); !kept || err != nil {
		t.Fatalf("kept: %t, %v", kept, err)
	}
	if err := store.Wait(); err != nil {
		t.Fatal(err)
	}
	files, names := manager.Kept(t)
	if len(names) != 1 || strings.Contains(names[0], ":") {
		t.Fatalf("it keeps %q", names)
	}
	at := s.Addr().String()
	_ = s.Close()
	waits, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatalf("refused though it is kept: %v", err)
	}
	defer waits.Close()
	next, err := net.FileListener(files[0])
	if err != nil {
		t.Fatal(err)
	}
	c, err := next.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "served")
	_ = c.Close()
	_ = next.Close()
	_ = files[0].Close()
	if text, err := io.ReadAll(waits); string(text) != "served" || err != nil {
		t.Errorf("who waited got %q, %v", text, err)
	}
	if err := store.Forget(s.Address); err != nil {
		t.Fatal(err)
	}
	if err := store.Wait(); err != nil {
		t.Fatal(err)
	}
	for { // it is free soon
		l, err := net.Listen("tcp", at)
		if err == nil {
			_ = l.Close()
			return
		}
		if !errors.Is(err, syscall.EADDRINUSE) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestKeepsNothing: what cannot be kept is no error, and the manager is not told of it.
func TestKeepsNothing(t *testing.T) {
	manager := handovertest.StartManager(t)
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	for name, c := range map[string]struct {
		notify string
		socket handover.Socket
	}{
		"no manager":         {"", listening(t, ":80")},
		"a unix socket":      {manager.Path, handover.Socket{Listener: unix, Address: "unix:socket"}},
		"an endless address": {manager.Path, listening(t, strings.Repeat("x", 300)+":80")},
	} {
		store := handover.Store{Notify: c.notify}
		if kept, err := store.Keep(c.socket); kept || err != nil {
			t.Errorf("%s: kept %t, %v", name, kept, err)
		}
		if err := store.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, said := range manager.Said() {
		if said != "BARRIER=1" {
			t.Errorf("the manager was told %q", said)
		}
	}
	if _, err := (handover.Store{Notify: filepath.Join(t.TempDir(), "nobody")}).Keep(listening(t, ":80")); err == nil {
		t.Error("that nobody hears it is no error")
	}
}
