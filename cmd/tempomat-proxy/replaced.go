package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/proxy/handover"
)

// replaced is how another process takes this one's place.
type replaced struct {
	sockets []handover.Socket // that are served
	leave   context.CancelFunc

	mu    sync.Mutex // guards the following
	asked bool       // a process takes over
	by    int        // the process that has; 0: none
	// From then on the files of sockets are left as they are, as the sockets are closed:
	drains bool // those that are served
	ended  bool // the admin API's
}

// drain notes that the sockets are closed from now on. It tells whether that is
// because another process serves them.
func (r *replaced) drain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drains = true
	return r.by != 0
}

// gone tells whether another process has taken over.
func (r *replaced) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by != 0
}

// end notes that the admin API's socket is closed from now on.
func (r *replaced) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

func listeners(sockets []handover.Socket) (ls []net.Listener) {
	for _, s := range sockets {
		ls = append(ls, s.Listener)
	}
	return ls
}

// handOver hands everything over to the process that asks, and goes on if that comes
// to nothing.
func (s *sidecar) handOver(conn *net.UnixConn) {
	g, err := handover.Answer(conn, handoverLimits())
	if err != nil {
		s.logs.log.Warn("nothing is handed over", zap.Error(err))
		return
	}
	sockets, err := s.replaced.offer(s.duties.socket)
	if err != nil {
		s.logs.log.Warn("nothing is handed over", zap.Int("pid", g.PID), zap.Error(g.Withdraw(err)))
		return
	}
	s.logs.log.Info("hands over to a process", zap.Int("pid", g.PID), zap.Int("sockets", len(sockets)))
	kept, err := g.Give(sockets, s.recall)
	if err != nil {
		s.replaced.resume(sockets)
		s.logs.log.Error("nothing was handed over; this process goes on", zap.Int("pid", g.PID), zap.Error(err))
		return
	}
	s.duties.end()
	s.replaced.done(g.PID, sockets, kept)
	s.server.Retire(lingerReplaced)
	if err := g.Confirm(); err != nil {
		s.logs.log.Warn("the process that took over was not told that it has", zap.Int("pid", g.PID), zap.Error(err))
	}
	daemon.Notify(s.logs.log, daemon.MainPID(g.PID))
	s.logs.log.Info("was replaced", zap.Int("pid", g.PID))
	s.replaced.leave()
}

// recall sends what this process remembers.
func (s *sidecar) recall(send func(name string, data []byte) error) error {
	saved, err := s.state.collect()
	if err != nil {
		return err
	}
	for name, data := range saved {
		if err := send(name, data); err != nil {
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

// offer returns what there is to hand over, to one process at a time: the admin API's
// socket only while this one drains.
func (r *replaced) offer(admin *handover.Socket) (sockets []handover.Socket, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.by != 0:
		return nil, fmt.Errorf("process %d has taken over already", r.by)
	case r.asked:
		return nil, errors.New("another process is taking over at this moment")
	case r.ended:
		return nil, errors.New("this process ends at this moment; ask again")
	}
	r.asked = true
	if !r.drains {
		sockets = slices.Clone(r.sockets)
	}
	if admin != nil {
		sockets = append(sockets, *admin)
	}
	for _, s := range sockets { // if this process ends meanwhile, the other one has them
		s.LeaveFile(true)
	}
	return sockets, nil
}

// resume goes on as if nobody had asked.
func (r *replaced) resume(sockets []handover.Socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = false
	for _, s := range sockets {
		if s.Role == roleAdmin && !r.ended || s.Role == roleServe && !r.drains {
			s.LeaveFile(false)
		}
	}
}

// done notes who has taken over. The files of the sockets that it has not kept go with
// them.
func (r *replaced) done(by int, sockets []handover.Socket, kept []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by = by
	for i, s := range sockets {
		if s.Role == roleServe && !r.drains && !slices.Contains(kept, i) {
			s.LeaveFile(false)
		}
	}
}
