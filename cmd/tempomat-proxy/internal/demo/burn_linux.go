package demo

import (
	"crypto/sha256"
	"runtime"
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD, which package syscall does not name.
const rusageThread = 1

// burn uses so much CPU time, however long that takes beside others.
func burn(cost time.Duration) (sum [sha256.Size]byte) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadTime() + cost; threadTime() < end; {
		for range 100 {
			sum = sha256.Sum256(sum[:])
		}
	}
	return sum
}

func threadTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
