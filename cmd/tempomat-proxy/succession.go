package main

import (
	"context"
	"errors"
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

// startCommand is a command that only the program itself uses: "tempomat-proxy start-successor ARGUMENT..."
// starts the program again and ends. A process uses it to start its successor.
const startCommand = "start-successor"

// longestStart is the longest time that the next process may take to become ready. A start takes milliseconds.
const longestStart = time.Minute

// succession is the state of a handover to the next process.
type succession struct {
	sockets []handover.Socket // the sockets that are served
	leave   context.CancelFunc
	started sync.WaitGroup
	asked   atomic.Bool  // the next process is starting or serves
	reloads atomic.Bool  // the configuration was reloaded after this start, so the next process may have read the previous one
	by      atomic.Int64 // the number of the process that serves now; 0: this one
}

// gone reports whether another process has replaced this one.
func (s *succession) gone() bool { return s.by.Load() != 0 }

// succeed starts a process that replaces this one. It runs the file from which this process was started,
// where a package may have installed a newer program. If the new process can't serve, or the context ends
// first, this process continues.
func (s *sidecar) succeed(ctx context.Context) {
	if s.succession.asked.Swap(true) {
		s.logs.log.Warn("no new process was started: another one is taking over, or has already taken over")
		return
	}
	s.succession.reloads.Store(false)
	s.succession.started.Go(func() {
		if err := s.handOver(ctx); err != nil {
			s.succession.asked.Store(false)
			s.logs.log.Error("the handover to a new process failed; this process continues", zap.Error(err))
		}
	})
}

func (s *sidecar) handOver(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	sockets := s.succession.sockets
	s.logs.log.Info("starting a new process to replace this one", zap.String("program", program), zap.Int("sockets", len(sockets)))
	if err := s.saveState(); err != nil {
		s.logs.log.Warn("can't save the state, so the next process won't know which clients are known", zap.Error(err))
	}
	next, err := handover.Start(program, startCommand, os.Args[1:], sockets)
	if err != nil {
		return err
	}
	pid, err := next.Serves(ctx, longestStart)
	if err != nil {
		return err
	}
	if os.Getpid() == 1 {
		passOn() // signals to a container go to its first process, but are meant for the process that serves
	}
	for i := range sockets {
		sockets[i].LeaveFile(true)
	}
	s.tasks.end()
	s.succession.by.Store(int64(pid))
	s.server.Retire(lingerReplaced)
	if err := next.Confirm(); err != nil {
		s.logs.log.Warn("can't confirm the handover to the process that took over", zap.Int("pid", pid), zap.Error(err))
	}
	if s.succession.reloads.Load() {
		_ = syscall.Kill(pid, syscall.SIGHUP) // fails only if the process has ended
	}
	daemon.Notify(s.logs.log, daemon.MainPID(pid))
	s.logs.log.Info("replaced by another process", zap.Int("pid", pid))
	s.succession.leave()
	return nil
}

// startSuccessor starts this program with other arguments, and doesn't wait for it.
func startSuccessor(args []string) error {
	program, err := os.Executable()
	if err == nil {
		err = handover.StartNext(program, args)
	}
	return err
}

// takeOver informs the predecessor, if there is one, that this process serves, and waits until the predecessor has
// stopped its tasks. If takeOver returns an error, the predecessor continues, and this process must end.
func (s *sidecar) takeOver(sockets []handover.Socket) error {
	if s.inherited.From == nil {
		return nil
	}
	switch err := s.inherited.From.Serving(); {
	case errors.Is(err, handover.ErrSilent):
		s.logs.log.Error("this process is serving, but the previous one may still be serving as well. End the previous process (kill -9)", zap.Error(err))
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
	s.logs.log.Info("took over from another process")
	return nil
}

// passOn forwards the signals that this process gets to its successors. This is needed in a container, because
// signals to a container go to its first process.
func passOn() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for sig := range signals {
			for _, pid := range children() {
				_ = syscall.Kill(pid, sig.(syscall.Signal)) // fails only if the process has ended
			}
		}
	}()
}

// outlive waits until all successors of this process have ended, because a container ends when its first
// process ends. It returns the exit status of the last one.
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

// children returns the processes whose parent is this one.
func children() (pids []int) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children") // fails only for an invalid pattern
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // a thread that has ended has no children
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// singletonTasks are the tasks that only one process at a time may do: saving the state, sharing accounts,
// sending to Graphite, and answering the doctor and Prometheus. A process that was replaced ends them before
// it drains.
type singletonTasks struct {
	stop  context.CancelFunc
	stops sync.Once
	all   sync.WaitGroup
}

// beginTasks starts the tasks. The tasks of a predecessor must have ended before.
func (s *sidecar) beginTasks(ready func() error) {
	t := &s.tasks
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // end calls stop
	t.stop = stop
	t.all.Go(func() { s.state.run(ctx) })
	t.all.Go(func() { s.sharing.Run(ctx, s.limiter) })
	t.all.Go(func() { s.sendToGraphite(ctx) })
	if l := daemon.ListenMetrics(ctx, s.config.Metrics, s.logs.log); l != nil {
		t.all.Go(func() {
			daemon.Serve(ctx, l, metrics.Handler(s.numbers, s.statistics.durations), "metrics", s.logs.log)
		})
	}
	unix := daemon.ListenAdmin(ctx, s.config.Admin.Listen, s.logs.log)
	s.grant(s.config.Admin)
	if web := s.openWeb(ctx, s.config.Admin); unix != nil || web != nil {
		t.all.Go(func() { s.serveAdmin(ctx, unix, web, ready) })
	}
}

// end ends the tasks. When it returns, the state is saved and the sockets of the tasks are closed.
func (t *singletonTasks) end() {
	t.stops.Do(t.stop)
	t.all.Wait()
}
