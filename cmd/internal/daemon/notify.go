package daemon

import (
	"fmt"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// What systemd can be told (sd_notify(3)).
const (
	Ready    = systemd.SdNotifyReady
	Stopping = systemd.SdNotifyStopping
	Watchdog = systemd.SdNotifyWatchdog
)

// Reloading is that the configuration is read again from now on; Ready ends it.
func Reloading() string {
	return systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec() // when, for Type=notify-reload
}

// MainPID is that another process is the service's from now on.
func MainPID(pid int) string { return fmt.Sprintf("MAINPID=%d", pid) }

// Notify tells systemd, if it asked to be told.
func Notify(log *zap.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}
