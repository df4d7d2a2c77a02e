package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/config"
	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

func newPast(state string, hours int) (*pastHours, *config.Config, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	c := config.Default()
	c.State, c.History.Hours = state, hours
	return newPastHours(c, telemetry.NewWords(), zap.New(core)), c, logs
}

// saveHistory saves a history of three hours.
func saveHistory(t *testing.T, state string) (text []byte) {
	t.Helper()
	p, _, logs := newPast(state, 168)
	for i := range 3 {
		p.Take(time.Unix(1_800_000_000, 0).Add(time.Duration(i)*time.Hour), new(telemetry.Batch))
	}
	ended, end := context.WithCancel(context.Background())
	end()
	p.run(ended)
	text, err := os.ReadFile(state + ".history")
	if err != nil || logs.Len() > 0 {
		t.Fatal(err, logs.All())
	}
	return text
}

// TestHistorySurvives a restart, if its file is sound; else it begins anew, with a line.
func TestHistorySurvives(t *testing.T) {
	t.Parallel()
	state := filepath.Join(tempDir(t), "state")
	good := saveHistory(t, state)
	for name, c := range map[string]struct {
		text  []byte
		hours int
		lines int
	}{
		"sound":           {good, 3, 0},
		"cut off":         {good[:len(good)-1], 0, 1},
		"another kind":    {savedText(t, stateKind, stateVersion, nil), 0, 1},
		"another version": {savedText(t, historyKind, historyVersion-1, nil), 0, 1},
		"an odd part":     {savedText(t, historyKind, historyVersion, []savedPart{{Name: "x"}}), 0, 1},
		"an old state":    {[]byte(`{"known":"eA=="}`), 0, 1},
	} {
		if err := os.WriteFile(state+".history", c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, _, logs := newPast(state, 168)
		p.load()
		if got := len(p.Reply(168).Hours); got != c.hours || logs.Len() != c.lines {
			t.Errorf("%s: %d hours, want %d; %v", name, got, c.hours, logs.All())
		}
	}
}

// TestHistoryIsOff: nothing is kept, and what was kept goes, but nobody else's file.
func TestHistoryIsOff(t *testing.T) {
	t.Parallel()
	state := filepath.Join(tempDir(t), "state")
	saveHistory(t, state)
	p, c, logs := newPast(state, 0)
	forgetHistory(c, zap.NewNop())
	if _, err := os.Lstat(state + ".history"); err == nil || p.reply() != nil || logs.Len() > 0 {
		t.Error("there is a history", logs.All())
	}
	writeFile(t, state+".history", "precious")
	forgetHistory(c, zap.NewNop())
	if text, err := os.ReadFile(state + ".history"); err != nil || string(text) != "precious" {
		t.Errorf("somebody else's file is %q, %v", text, err)
	}
	memory, c, _ := newPast("", 24)
	memory.load()
	memory.run(context.Background())
	forgetHistory(c, zap.NewNop())
	if memory.reply() == nil {
		t.Error("without a state file there is no history")
	}
}

// TestHistoryOfProcesses: what was asked for is told after a replacement, a restart, and
// a crash, and is gone where it is switched off.
func TestHistoryOfProcesses(t *testing.T) {
	t.Parallel()
	url := pageBackend(t)
	state := filepath.Join(tempDir(t), "state")
	yaml := "state: " + state + "\n"
	p := startProxy(t, url, yaml)
	tells := func(want uint64) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(want, " requests are told of"), func() (told bool) {
			var reply api.HistoryReply
			p.ask("/v1/history?hours=2", &reply)
			n, keys := uint64(0), uint64(0)
			for _, h := range reply.Hours {
				n += h.Requests
				for _, c := range h.Classes[:min(1, len(h.Classes))] { // an hour that has just begun has none
					for _, k := range c.Keys {
						keys += k.Requests
					}
				}
			}
			return n == want && keys == want
		})
	}
	again := func() {
		p.signal(syscall.SIGTERM)
		p.exit()
		p.startAgain()
	}
	for range 3 {
		p.get("203.0.113.9", "/page?x=1")
	}
	tells(3)
	p.get("203.0.113.9", "/page?x=1")
	p = p.successor() // gets also what nobody had added up yet
	tells(4)
	again()
	tells(4)
	if err := p.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	again()
	tells(4)
	p.configure(t, url, yaml+"history: {hours: 0}\n")
	again()
	if status := p.ask("/v1/history", nil); status != 404 {
		t.Errorf("status %d of a history that is switched off", status)
	}
	if _, err := os.Lstat(state + ".history"); err == nil {
		t.Error("the file is still there")
	}
}
