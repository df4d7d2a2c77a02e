package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/proxy/handover"
	"tempomat/proxy/telemetry/metrics"
)

// startCommand is the program's own, for what is between a process and the one that takes its
// place: "tempomat-proxy start-successor ARGUMENT..." starts the program and ends.
const startCommand = "start-successor"

// longestStart bounds how long the next process takes until it serves. A start takes
// milliseconds; one that resolves the names of a cluster first may take seconds.
const longestStart = time.Minute

// accountsPart names what a process hands over of its accounts; the history is named historyKind,
// and the rest as in the state file.
const accountsPart = "accounts"

// succession is how the next process takes this one's place.
type succession struct {
	sockets []handover.Socket // that are served
	leave   context.CancelFunc
	started sync.WaitGroup
	asked   atomic.Bool  // the next one is starting, or serves
	reloads atomic.Bool  // the configuration was read again since, and the next one may have an older one
	by      atomic.Int64 // the process that serves now; 0: this one
}

// gone reports whether another process has taken this one's place.
func (s *succession) gone() bool { return s.by.Load() != 0 }

func listeners(sockets []handover.Socket) (ls []net.Listener) {
	for _, s := range sockets {
		ls = append(ls, s.Listener)
	}
	return ls
}

// succeed starts a process that takes this one's place, from the file that this one was started
// from: a package may have put a newer program there. If it cannot serve, or the context ends
// before it does, this process keeps its place.
func (s *sidecar) succeed(ctx context.Context) {
	if s.succession.asked.Swap(true) {
		s.logs.log.Warn("another process is taking over at this moment, or has; nothing further is started")
		return
	}
	s.succession.reloads.Store(false)
	s.succession.started.Go(func() {
		if err := s.handOver(ctx); err != nil {
			s.succession.asked.Store(false)
			s.logs.log.Error("no other process takes over; this one goes on", zap.Error(err))
		}
	})
}

func (s *sidecar) handOver(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	sockets := s.succession.sockets
	s.logs.log.Info("starts a process that takes this one's place", zap.String("program", program), zap.Int("sockets", len(sockets)))
	next, err := handover.Start(program, startCommand, os.Args[1:], sockets)
	if err != nil {
		return err
	}
	pid, err := next.Give(ctx, longestStart, s.recall)
	if err != nil {
		return err
	}
	if os.Getpid() == 1 {
		passOn() // what a container is told while this process drains is for the next one
	}
	for i := range sockets {
		sockets[i].LeaveFile(true)
	}
	s.tasks.end()
	s.succession.by.Store(int64(pid))
	s.server.Retire(lingerReplaced)
	if err := next.Confirm(); err != nil {
		s.logs.log.Warn("the process that took over got no answer", zap.Int("pid", pid), zap.Error(err))
	}
	if s.succession.reloads.Load() {
		_ = syscall.Kill(pid, syscall.SIGHUP) // it may have ended
	}
	daemon.Notify(s.logs.log, daemon.MainPID(pid))
	s.logs.log.Info("was replaced", zap.Int("pid", pid))
	s.succession.leave()
	return nil
}

// startSuccessor starts this program with other arguments, and does not wait for it.
func startSuccessor(args []string) error {
	program, err := os.Executable()
	if err == nil {
		err = handover.StartNext(program, args)
	}
	return err
}

// recall sends what this process remembers.
func (s *sidecar) recall(send func(name string, data []byte) error) error {
	parts, err := s.state.collect()
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := send(p.Name, p.Data); err != nil {
			return err
		}
	}
	if s.history != nil {
		s.takeIn(time.Now())
		var text bytes.Buffer
		if err := s.history.write(&text); err != nil {
			return err
		}
		if err := send(historyKind, text.Bytes()); err != nil {
			return err
		}
	}
	return tellAccounts(time.Now(), s.limiter, func(data []byte) error { return send(accountsPart, data) })
}

// remember has the sidecar remember what its predecessor does, its accounts included.
func (s *sidecar) remember() error {
	var parts []savedPart
	remembered := s.history == nil
	err := s.inherited.From.Parts(func(name string, data []byte) error {
		switch name {
		case accountsPart:
			return takeAccounts(time.Now(), s.limiter, data)
		case historyKind:
			if s.history != nil {
				s.history.tell(s.history.take(data))
				remembered = true
			}
		default:
			parts = append(parts, savedPart{name, data})
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.state.tell(s.state.remember(parts))
	if !remembered { // the predecessor keeps none
		s.history.load()
	}
	return nil
}

// takeOver makes the predecessor, if there is one, give up all its work, because this process
// serves. On an error it won't, and this process must end.
func (s *sidecar) takeOver(sockets []handover.Socket) error {
	if s.inherited.From == nil {
		return nil
	}
	switch err := s.inherited.From.Serving(); {
	case errors.Is(err, handover.ErrSilent):
		s.logs.log.Error("serves, and so may the process that it replaces: end that one (kill -9)", zap.Error(err))
	case err != nil:
		return err
	}
	for _, all := range [][]handover.Socket{sockets, s.unserved} {
		for i := range all {
			all[i].LeaveFile(false)
		}
	}
	handover.Close(s.unserved)
	s.fdStore.adopt(s.inherited.Sockets)
	s.logs.log.Info("has replaced a process")
	return nil
}

// passOn has the successors of this process, if it is the first one of a container, get the
// signals that it gets.
func passOn() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for sig := range signals {
			for _, pid := range children() {
				_ = syscall.Kill(pid, sig.(syscall.Signal)) // it may have ended
			}
		}
	}()
}

// outlive waits for the successors of this process, if it is the first one of a container,
// which would end with it. It returns the exit status of the one that ended last.
func outlive() (status int) {
	for {
		var ended syscall.WaitStatus
		switch _, err := syscall.Wait4(-1, &ended, 0, nil); {
		case err == nil:
			status = ended.ExitStatus()
		case !errors.Is(err, syscall.EINTR): // none is left
			return status
		}
	}
}

// children are the processes that have no parent but this one.
func children() (pids []int) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is right
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // a thread that has ended has none
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// singletonTasks are what only one process does for a site: it saves its state, shares its
// accounts, reports, and answers the doctor and Prometheus. A process that another one
// replaces gives them up as it begins to drain.
type singletonTasks struct {
	stop  context.CancelFunc
	stops sync.Once
	all   sync.WaitGroup
}

// beginTasks begins them. The process before this one, if there is one, has given them up.
func (s *sidecar) beginTasks(ready func() error) {
	t := &s.tasks
	ctx, stop := context.WithCancel(context.Background())
	t.stop = func() { stop(); s.endReports() }
	t.all.Go(func() { s.state.run(ctx) })
	forgetHistory(s.config, s.logs.log)
	if s.history != nil {
		t.all.Go(func() { s.history.run(ctx) })
	}
	t.all.Go(func() { s.sharing.Run(ctx, s.limiter) })
	s.reports.restart(s.config)
	if l := daemon.ListenMetrics(ctx, s.config.Metrics, s.logs.log); l != nil {
		t.all.Go(func() {
			daemon.Serve(ctx, l, metrics.Handler(s.numbers, s.statistics.durations), "metrics", s.logs.log)
		})
	}
	unix := s.openAdmin(s.config.Admin.Listen)
	s.grant(s.config.Admin)
	if web := s.openWeb(ctx, s.config.Admin); unix != nil || web != nil {
		t.all.Go(func() { s.serveAdmin(ctx, unix, web, ready) })
	}
}

// endReports ends the reports for good, whatever is reloaded.
func (s *sidecar) endReports() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports.stop()
	s.reports.ended = true
}

// end gives the tasks up. When it returns, the state is saved for the last time, and
// what it had open is closed.
func (t *singletonTasks) end() {
	t.stops.Do(t.stop)
	t.all.Wait()
}
