package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/proxy/replay"
)

// timedLog is an hour of a person who reads, and a crawler that wants more than there
// is; its User-Agent would command a terminal.
func timedLog() string {
	var s strings.Builder
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.FixedZone("", 3600))
	write := func(at int, address, target, agent string, took float64) {
		fmt.Fprintf(&s, "%s - - [%s] \"GET %s HTTP/1.1\" 200 1 \"-\" \"%s\" %.3f\n",
			address, begin.Add(time.Duration(at)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), target, agent, took)
	}
	for at := range 3600 {
		if at%5 == 0 {
			write(at, "192.0.2.1", "/page", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", 0.02)
		}
		write(at, "198.51.100.77", fmt.Sprintf("/old/%d", at), "\x1b]0;owned\a\x1b[2Jcrawler/1.0 bot", 3.5)
	}
	return s.String()
}

func writeLog(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestReplay tells the same of a log, compressed or not, in a file or from standard
// input, and shows what clients wrote harmlessly.
func TestReplay(t *testing.T) {
	plain, packed := writeLog(t, []byte(timedLog())), writeLog(t, zipped(t, timedLog()))
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	for name, arg := range map[string]string{"plain": plain, "compressed": packed, "standard input": "-"} {
		f, err := os.Open(packed)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdin = f
		code, out, trouble := call(t, nil, "replay", "--cpus", "2", arg)
		f.Close()
		if code != 0 || trouble != "" {
			t.Fatalf("%s: %d %s", name, code, trouble)
		}
		for _, want := range []string{
			"4,320 requests from 2026-11-20 09:59:5", "on 2 CPUs with 16 workers", "2026-11-20 10:00 +0100",
			"|slash32  2 keys, 4,320 requests", "198.51.100.77", "|userAgent  2 keys", "firefox linux",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, out)
			}
		}
		if strings.ContainsAny(out, "\x1b\a") {
			t.Errorf("%s: it commands the terminal: %q", name, out)
		}
	}
}

// TestReplayConfig tries the limits of a file, and prints the report as it is: with a cap the crawler is refused.
func TestReplayConfig(t *testing.T) {
	log := writeLog(t, []byte(timedLog()))
	file := filepath.Join(t.TempDir(), "tempomat.yaml")
	if err := os.WriteFile(file, []byte("backend: http://127.0.0.1:80\nthrottle: {mode: cap, shadow: true}\ncpuCount: 2\nclasses: {slash32: {share: 0.05}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ := call(t, nil, "replay", "--json", "--workers", "8", "--config", file, log)
	var r replay.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("%v, %d, %s", err, code, out)
	}
	if c := r.Classes[0]; r.Mode != "cap" || r.Total.Requests != 4320 || r.Workers != 8 || c.Top[0].ID != "198.51.100.77" || c.Top[0].Refused < 1000 || c.Top[1].Refused+c.Top[1].Delayed > 0 {
		t.Errorf("%+v", c)
	}
}

// TestReplayFails says what is wrong, and what is expected.
func TestReplayFails(t *testing.T) {
	bad := writeLog(t, []byte("hello\n"))
	broken := writeLog(t, zipped(t, timedLog())[:1000])
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no file":          {[]string{"replay", filepath.Join(t.TempDir(), "none")}, "no such file"},
		"no log":           {[]string{"replay", bad}, "log_format"},
		"half a gzip":      {[]string{"replay", broken}, "unexpected EOF"},
		"no configuration": {[]string{"replay", "--config", "/none", bad}, "can't use /none"},
		"CPUs":             {[]string{"replay", "--cpus", "-1", bad}, "--cpus -1: must be above 0"},
		"workers":          {[]string{"replay", "--workers", "70000", bad}, "--workers 70000: must be from 1"},
		"two logs at once": {[]string{"replay", bad, bad}, "unexpected argument "},
		"a directory":      {[]string{"replay", t.TempDir()}, "is a directory"},
	} {
		code, out, trouble := call(t, nil, c.args...)
		if code == 0 || out != "" || !strings.Contains(trouble, c.want) {
			t.Errorf("%s: %d %q %q, want %q", name, code, out, trouble, c.want)
		}
	}
}
