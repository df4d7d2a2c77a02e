package limiter

import (
	"fmt"
	"time"
)

// Why says in plain words why the request waits, without a full stop. It names a key,
// which a client may have chosen: who shows it has to see to it that it does no harm.
func (o *Outlook) Why() string {
	switch o.Barrier {
	case Owes:
		return fmt.Sprintf("%s %s owes CPU time; its debt is paid in about %s", o.Key.Class, o.Key.ID, words(o.Paid))
	case BehindOwn:
		if o.Have == 1 {
			return "one of its client's own requests of its size goes first"
		}
		return fmt.Sprintf("%d of its client's own requests of its size go first", o.Have)
	case KeyHolds:
		return fmt.Sprintf("%s %s holds its part of the workers: %d of %d", o.Key.Class, o.Key.ID, o.Have, o.Most)
	case StrangersHold:
		return fmt.Sprintf("strangers hold their part of the workers: %d of %d", o.Have, o.Most)
	case Misjudged:
		return "requests that came as short ones, and are not, hold the workers that are kept for short ones"
	case SiteAhead:
		return fmt.Sprintf("%s has had its share of the CPUs, and leaves room to the other sites", o.site())
	case nothing, NoRoom, RoomForOthers, NoWorker, Untried, LeavesCPU, Turn:
	}
	return o.whyAtGate()
}

// whyAtGate is Why of those that wait for room, a worker or their turn.
func (o *Outlook) whyAtGate() string {
	switch o.Barrier {
	case NoRoom:
		return fmt.Sprintf("as many requests %s compute as may: %d of %d", o.sizes(), o.Have, o.Most)
	case RoomForOthers:
		return fmt.Sprintf("%s, and the room that is left is for those who had less: %d of %d compute %s", o.ahead(), o.Have, o.Most, o.sizes())
	case NoWorker:
		if o.Size == 0 || o.Size > seconds(light) {
			return fmt.Sprintf("the workers that are left are kept for shorter requests: %d of %d are held as long or longer", o.Have, o.Most)
		}
		return fmt.Sprintf("all workers are busy: %d of %d", o.Have, o.Most)
	case Untried:
		return "nobody knows what its page costs, and only one such request is tried at a time"
	case LeavesCPU:
		return fmt.Sprintf("%s, and what others use leaves no CPU for a long request", o.ahead())
	case Turn:
		if o.Stranger {
			return "strangers share one turn, and others of them go first"
		}
		return "others go first, who had less or came earlier"
	case nothing, Owes, BehindOwn, KeyHolds, StrangersHold, Misjudged, SiteAhead:
	}
	return ""
}

// site names the request's site.
func (o *Outlook) site() string {
	if o.Site == "" {
		return "what is no named site"
	}
	return "its site " + o.Site
}

// ahead says who had more than its share.
func (o *Outlook) ahead() string {
	if o.Stranger {
		return "it is a stranger's, who share one turn"
	}
	return fmt.Sprintf("its client has had %.1f CPU-seconds more than its share", o.Lead)
}

// sizes says which sizes count together.
func (o *Outlook) sizes() string {
	if o.Size == 0 {
		return "of any size"
	}
	return "of up to " + words(o.Size)
}

// words is a duration for people.
func words(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 1:
		return fmt.Sprintf("%.0f ms", 1000*s)
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	case s < 100*60:
		return fmt.Sprintf("%.0f min", s/60)
	default:
		return fmt.Sprintf("%.0f h", s/3600)
	}
}
