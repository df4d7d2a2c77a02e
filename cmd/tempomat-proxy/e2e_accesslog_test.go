package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestNoRequestWaitsForTheLog: the log is a pipe that isn't read, a full disk, or a closed pipe. Requests are still
// served, lost lines are counted, and the process ends after SIGTERM.
func TestNoRequestWaitsForTheLog(t *testing.T) {
	t.Parallel()
	pipe := func(t *testing.T) (in, out *os.File) {
		in, out, err := os.Pipe()
		testkit.Must(t, err)
		t.Cleanup(func() { _ = in.Close() })
		return in, out
	}
	for _, tc := range []struct {
		name string
		open func(t *testing.T) (in, out *os.File)
	}{
		{"a pipe that is not read", pipe},
		{"a full disk", func(t *testing.T) (in, out *os.File) {
			out, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip("there is no /dev/full: ", err)
			}
			return nil, out
		}},
		{"a closed pipe", func(t *testing.T) (in, out *os.File) {
			in, out = pipe(t)
			_ = in.Close()
			return nil, out
		}},
	} {
		for _, access := range []string{"all", "sampled"} {
			t.Run(tc.name+", "+access, func(t *testing.T) {
				t.Parallel()
				in, out := tc.open(t)
				s := startProxyLogging(t, out, "log: {access: "+access+"}\n")
				_ = out.Close()
				c := newClient(t)
				long := "/" + strings.Repeat("\u009b", 240) + "?" // each character becomes six in the log
				h := http.Header{"Host": {strings.Repeat("a.", 250) + "example"}}
				lost := func() uint64 { return s.stats().Counters["logLinesLost"] }
				due := access == "all" || in == nil // with sampled, there are too few lines in a second to fill the queue
				for i := 0; i < 300 || due && lost() == 0; i++ {
					if i == 3000 {
						t.Fatal("no line is lost")
					}
					if a := fetch(t, c, http.MethodGet, s.url+long, h.Clone(), nil); a.StatusCode != http.StatusOK {
						t.Fatal(a.Status)
					}
				}
				if in == nil || !due {
					return
				}
				text := new(testkit.Output)
				go func() {
					buffer := make([]byte, 64<<10)
					for n, err := in.Read(buffer); err == nil; n, err = in.Read(buffer) {
						_, _ = text.Write(buffer[:n])
					}
				}()
				text.Await(t, 0, `"msg":"log lines were lost because the log could not be written or its reader was too slow"`, `"lines_left_out":`)
			})
		}
	}
}

// startProxyLogging starts a proxy whose standard error is a file.
func startProxyLogging(t *testing.T, stderr *os.File, yaml string) *sidecarProcess {
	t.Helper()
	s, address := unstarted(t), "127.0.0.1:"+freePort(t)
	s.url = "http://" + address
	s.configure(t, pageBackend(t), yaml+"listen: "+address+"\n")
	s.process = testkit.StartWith(t, []*os.File{stderr}, nil, "sh", "-c", `exec "$0" "$@" 2>&3 3>&-`, program(t, "tempomat-proxy"), "-config", s.file)
	s.Listens(address)
	return s
}
