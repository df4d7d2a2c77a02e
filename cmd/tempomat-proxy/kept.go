package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/handover"
)

// kept is what the service manager keeps of this service's sockets, so that who connects
// while it is started anew waits. A nil one keeps nothing.
type kept struct {
	keeper    handover.Keeper
	addresses []string // of those that are kept
}

// The manager closes what it is to forget a moment after it was told: a port of it is tried
// again so often, with such a pause.
const (
	freedTries = 500
	freedPause = 10 * time.Millisecond
)

// newKept looks at what the process was started with.
func newKept() *kept {
	k := &kept{keeper: handover.Keeper{Notify: os.Getenv("NOTIFY_SOCKET")}}
	for _, name := range inheritedNames() {
		if address, ok := handover.KeptAddress(name); ok {
			k.addresses = append(k.addresses, address)
		}
	}
	return k
}

// listen takes those of the sockets, which were kept, that the addresses name, gives the
// others up, and opens what is missing.
func (k *kept) listen(ctx context.Context, sockets []handover.Socket, addresses []string, log *zap.Logger) ([]handover.Socket, error) {
	taken, missing, rest := match(sockets, addresses)
	if len(taken) > 0 {
		log.Info("serves sockets that the service manager has kept", zap.Int("sockets", len(taken)))
	}
	// Before others are opened: they may be at the same port.
	k.forget(rest, log)
	opened, err := listen(ctx, missing)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && len(rest) > 0 && tries < freedTries && ctx.Err() == nil; tries++ {
		time.Sleep(freedPause)
		opened, err = listen(ctx, missing)
	}
	if err != nil {
		handover.Close(taken)
		return nil, err
	}
	return append(taken, opened...), nil
}

// forget closes sockets that were kept, here and there.
func (k *kept) forget(sockets []handover.Socket, log *zap.Logger) {
	if len(sockets) == 0 {
		return
	}
	handover.Close(sockets)
	var err error
	for _, s := range sockets {
		err = errors.Join(err, k.keeper.Forget(s.Address))
	}
	if err = errors.Join(err, k.keeper.Wait()); err != nil {
		log.Warn("the service manager may keep sockets that nobody serves", zap.Error(err))
	}
}

// update has sockets kept, which are served from now on, and no others; before are those
// of the process that was replaced.
func (k *kept) update(sockets, before []handover.Socket, log *zap.Logger) {
	if k == nil {
		return
	}
	for _, s := range before {
		k.addresses = append(k.addresses, s.Address)
	}
	var all error
	for _, a := range k.addresses {
		if a != "" && !slices.ContainsFunc(sockets, func(s handover.Socket) bool { return s.Address == a }) {
			all = errors.Join(all, k.keeper.Forget(a))
		}
	}
	k.addresses = nil
	for _, s := range sockets {
		if s.Address == "" { // a supervisor has it
			continue
		}
		is, err := k.keeper.Keep(s)
		all = errors.Join(all, err)
		if is {
			k.addresses = append(k.addresses, s.Address)
		}
	}
	if all != nil {
		log.Warn("a restart may refuse connections: the service manager was not told which sockets to keep", zap.Error(all))
	}
}

// giveUp has nothing kept: this process cannot serve, and nobody knows when the next one
// can, or another program is to have the ports. A client that connects is refused then.
func (k *kept) giveUp() {
	if k == nil {
		return
	}
	for _, a := range k.addresses {
		_ = k.keeper.Forget(a) // the process ends with an error of its own
	}
	if len(k.addresses) > 0 {
		_ = k.keeper.Wait()
	}
}
