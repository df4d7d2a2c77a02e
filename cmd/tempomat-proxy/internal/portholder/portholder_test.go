package portholder

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes a file below dir.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// TestFind in a /proc of its own: two processes share a port, one has only a connection
// from it, and one cannot be looked into.
func TestFind(t *testing.T) {
	proc := t.TempDir()
	write(t, proc, "net/tcp", head+
		"   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n"+
		"   1: 0100007F:0050 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n"+
		"   2: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n"+
		"garbage\n")
	write(t, proc, "net/tcp6", head+
		"   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1\n")
	for pid, socket := range map[string]string{"20": "4714", "3": "4711", "4": "4712", "5": "4713"} {
		write(t, proc, pid+"/comm", "program"+pid+"\n")
		write(t, proc, pid+"/fd/0", "")
		if err := os.Symlink("socket:["+socket+"]", filepath.Join(proc, pid, "fd", "7")); err != nil {
			t.Fatal(err)
		}
	}
	write(t, proc, "6/comm", "hidden\n")
	write(t, proc, "self/comm", "no number\n")
	want := []Process{{"program3", 3}, {"program20", 20}}
	if diff := cmp.Diff(want, Find(proc, 80)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Find(proc, 443); got != nil {
		t.Errorf("nobody listens there, found %v", got)
	}
	if got := Find(filepath.Join(proc, "none"), 80); got != nil {
		t.Errorf("without /proc, found %v", got)
	}
	if got := (Process{"\x1b[2J", 3}).String(); got != `"\x1b[2J" (process 3)` {
		t.Errorf("a name that is none is told as %s", got)
	}
}

// TestFindOnThisSystem finds this process by what it listens on.
func TestFindOnThisSystem(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip(err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // a machine without IPv6
		}
		port := l.Addr().(*net.TCPAddr).Port
		if !slices.ContainsFunc(Find("/proc", port), func(p Process) bool { return p.PID == os.Getpid() }) {
			t.Errorf("%s: this process is not among %v", l.Addr(), Find("/proc", port))
		}
		_ = l.Close()
	}
}
