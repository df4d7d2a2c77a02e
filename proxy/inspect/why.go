package inspect

import (
	"fmt"
	"time"

	"tempomat/limiter"
)

// lightest is the size up to which a request is short.
const lightest = 100 * time.Millisecond

// why says in plain words why the request waits, without a full stop. It names a key,
// which a client may have chosen: who shows it has to see to it that it does no harm.
func why(o *limiter.Outlook) string {
	switch o.Barrier {
	case limiter.Owes:
		return fmt.Sprintf("%s %s owes CPU time; its debt is paid in about %s", o.Key.Class, o.Key.ID, words(o.Paid))
	case limiter.BehindOwn:
		if o.Have == 1 {
			return "one of its client's own requests of its size goes first"
		}
		return fmt.Sprintf("%d of its client's own requests of its size go first", o.Have)
	case limiter.KeyHolds:
		return fmt.Sprintf("%s %s holds its part of the workers: %d of %d", o.Key.Class, o.Key.ID, o.Have, o.Most)
	case limiter.StrangersHold:
		return fmt.Sprintf("strangers hold their part of the workers: %d of %d", o.Have, o.Most)
	case limiter.Misjudged:
		return "requests that came as short ones, and are not, hold the workers that are kept for short ones"
	case limiter.SiteAhead:
		return fmt.Sprintf("%s has had its share of the CPUs, and leaves room to the other sites", siteOf(o))
	case limiter.NoRoom, limiter.RoomForOthers, limiter.NoWorker, limiter.Untried, limiter.LeavesCPU, limiter.Turn:
	}
	return whyAtGate(o)
}

// whyAtGate is why of those that wait for room, a worker or their turn.
func whyAtGate(o *limiter.Outlook) string {
	switch o.Barrier {
	case limiter.NoRoom:
		return fmt.Sprintf("as many requests %s compute as may: %d of %d", sizesOf(o), o.Have, o.Most)
	case limiter.RoomForOthers:
		return fmt.Sprintf("%s, and the room that is left is for those who had less: %d of %d compute %s", aheadOf(o), o.Have, o.Most, sizesOf(o))
	case limiter.NoWorker:
		if o.Size == 0 || o.Size > lightest {
			return fmt.Sprintf("the workers that are left are kept for shorter requests: %d of %d are held as long or longer", o.Have, o.Most)
		}
		return fmt.Sprintf("all workers are busy: %d of %d", o.Have, o.Most)
	case limiter.Untried:
		return "nobody knows what its page costs, and only one such request is tried at a time"
	case limiter.LeavesCPU:
		return fmt.Sprintf("%s, and what others use leaves no CPU for a long request", aheadOf(o))
	case limiter.Turn:
		if o.Stranger {
			return "strangers share one turn, and others of them go first"
		}
		return "others go first, who had less or came earlier"
	case limiter.Owes, limiter.BehindOwn, limiter.KeyHolds, limiter.StrangersHold, limiter.Misjudged, limiter.SiteAhead:
	}
	return ""
}

// site names the request's site.
func siteOf(o *limiter.Outlook) string {
	if o.Site == "" {
		return "what is no named site"
	}
	return "its site " + o.Site
}

// ahead says who had more than its share.
func aheadOf(o *limiter.Outlook) string {
	if o.Stranger {
		return "it is a stranger's, who share one turn"
	}
	return fmt.Sprintf("its client has had %.1f CPU-seconds more than its share", o.Lead)
}

// sizes says which sizes count together.
func sizesOf(o *limiter.Outlook) string {
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
