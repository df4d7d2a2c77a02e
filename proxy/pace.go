package proxy

import (
	"time"

	"tempomat/proxy/spool"
)

// patience is how long the backend waits for its client, in one answer's course
// altogether, before a spool takes the answer.
const patience = 10 * time.Millisecond

// takeover is a spool in the place of a client that is slow.
type takeover struct {
	kept chan *spool.Spool
	over chan struct{} // the backend has finished
}

// keepPace passes the answer on piece by piece while the client keeps up, as most
// do: a spool with its file would cost as much as all the rest. While a piece
// waits for the client longer than patience, a spool begins to take what comes
// next.
func (a *relay) keepPace(piece *[]byte, n int, waits bool) {
	t := takeover{make(chan *spool.Spool, 1), make(chan struct{})}
	left := patience
	timer := time.AfterFunc(left, func() { a.takeOver(&t) })
	from := time.Now()
	a.x.writer.spooled = true // the pauses are counted here
	for {
		a.x.Pause(from)
		err := a.send((*piece)[:n], waits)
		if !timer.Stop() {
			a.empty(&t, err, piece)
			return
		}
		now := time.Now()
		a.x.Resume(now)
		if err != nil || a.x.gone() {
			a.giveUp()
		}
		left -= now.Sub(from)
		if n, waits, err = a.read(*piece); err != nil {
			a.end((*piece)[:n], err)
			return
		}
		from = time.Now()
		timer.Reset(max(left, 0))
	}
}

// takeOver has the spool take the rest of the answer. The piece on its way to
// the client is no pause of the backend's any more.
func (a *relay) takeOver(t *takeover) {
	defer close(t.over)
	a.x.Resume(time.Now())
	kept := a.open()
	t.kept <- kept
	err := a.fill(kept)
	a.finish(err)
	kept.CloseWrite(err)
}
