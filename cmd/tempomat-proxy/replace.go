package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy/handover"
)

// handoverLimits bound how long one process waits for the other. A start takes
// milliseconds; who resolves the names of a cluster first may take seconds.
func handoverLimits() handover.Limits {
	return handover.Limits{Answer: 10 * time.Second, Start: time.Minute}
}

// accountsPart is the part of a hand-over with the accounts, historyKind that with the
// history; the others have the names of the state file's.
const accountsPart = "accounts"

// predecessor is the process whose place this one takes. A nil one is none: this one
// just starts.
type predecessor struct {
	taker   *handover.Taker
	sockets []handover.Socket // that are served
	admin   *handover.Socket  // the admin API's; nil: it was not handed over
	log     *zap.Logger
}

// findPredecessor asks the process that runs for its place; nil if none runs.
func findPredecessor(ctx context.Context, c *config.Config, log *zap.Logger) (*predecessor, error) {
	path, ok := strings.CutPrefix(c.Admin.Listen, "unix:")
	if !ok {
		return nil, errors.New("-replace: the process that runs is asked at admin.listen, which is off")
	}
	t, err := handover.Ask(ctx, path, handoverLimits())
	if errors.Is(err, handover.ErrNobody) {
		log.Info("there is no process to replace: this one just starts", zap.String("admin", path))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("-replace: %w", err)
	}
	p := &predecessor{taker: t, log: log}
	for i, s := range t.Sockets {
		if s.Role == roleAdmin {
			p.admin = &t.Sockets[i]
		} else {
			p.sockets = append(p.sockets, s)
		}
	}
	log.Info("replaces a process", zap.Int("pid", t.PID), zap.Int("sockets", len(p.sockets)))
	return p, nil
}

// listen takes those over of the predecessor's sockets that the addresses name, and
// opens the others. What a supervisor opened is taken whatever it is.
func (p *predecessor) listen(ctx context.Context, addresses []string) (sockets []handover.Socket, err error) {
	if slices.ContainsFunc(p.sockets, func(s handover.Socket) bool { return s.Address == "" }) {
		p.log.Info("serves sockets that were handed over (LISTEN_FDS), to the process that it replaces: listen opens none")
		return p.sockets, nil
	}
	taken, missing, _ := match(p.sockets, addresses)
	opened, err := listen(ctx, missing)
	return append(taken, opened...), err
}

// match finds the sockets that addresses name, and what is left of either. Those that are
// taken have the spelling of the addresses.
func match(offered []handover.Socket, addresses []string) (taken []handover.Socket, missing []string, rest []handover.Socket) {
	rest = slices.Clone(offered)
	for _, a := range addresses {
		i := slices.IndexFunc(rest, func(s handover.Socket) bool { return isAlike(a, s) })
		if i < 0 {
			missing = append(missing, a)
			continue
		}
		s := rest[i]
		s.Address = a
		taken, rest = append(taken, s), slices.Delete(rest, i, i+1)
	}
	return taken, missing, rest
}

// isAlike tells whether a socket listens where an address says, even if another
// spelling of it was given.
func isAlike(address string, s handover.Socket) bool {
	if address == s.Address {
		return true
	}
	switch at := s.Addr().(type) {
	case *net.UnixAddr:
		return address == "unix:"+at.Name
	case *net.TCPAddr:
		if strings.HasPrefix(address, "unix:") {
			return false
		}
		want, err := net.ResolveTCPAddr("tcp", address)
		if err != nil || want.Port == 0 || want.Port != at.Port {
			return false
		}
		if want.IP == nil { // all addresses of both kinds
			want.IP = net.IPv6unspecified
		}
		return want.IP.Equal(at.IP) && want.Zone == at.Zone
	}
	return false
}

// remember gives the sidecar what its predecessor remembers, its accounts included.
func (p *predecessor) remember(s *sidecar) error {
	saved := make(map[string][]byte)
	accounts, remembered := 0, false
	err := p.taker.Parts(func(name string, data []byte) error {
		switch name {
		case accountsPart:
		case historyKind:
			remembered = true
			s.history.take(data)
			return nil
		default:
			saved[name] = data
			return nil
		}
		accounts++
		return takeAccounts(time.Now(), s.limiter, data)
	})
	if err != nil {
		return fmt.Errorf("-replace: %w", err)
	}
	s.state.tell(s.state.remember(saved))
	if !remembered { // by a release that had no history, or one that keeps none
		s.history.load()
	}
	return nil
}

// end has the predecessor give up all that it does, as this process serves. An error
// says that it will not: this one must end.
func (p *predecessor) end(sockets []handover.Socket) error {
	if p == nil {
		return nil
	}
	if p.admin != nil {
		sockets = append(slices.Clone(sockets), *p.admin)
	}
	err := p.taker.Serving(sockets)
	if errors.Is(err, handover.ErrSilent) {
		p.log.Error("serves, and so may the process that it replaces: end that one (kill -9)", zap.Int("pid", p.taker.PID), zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("-replace: %w", err)
	}
	p.log.Info("has replaced a process", zap.Int("pid", p.taker.PID))
	return nil
}

// served are the sockets that it served.
func (p *predecessor) served() []handover.Socket {
	if p == nil {
		return nil
	}
	return p.sockets
}

// adminSocket is the admin API's, if it was handed over.
func (p *predecessor) adminSocket() *handover.Socket {
	if p == nil {
		return nil
	}
	return p.admin
}

// giveUp leaves everything to the predecessor.
func (p *predecessor) giveUp() {
	if p != nil {
		p.taker.Close()
	}
}
