package config

import (
	"time"

	"tempomat/config/form"
)

// Throttle sets how tempomat slows down clients in debt.
type Throttle struct {
	Mode    string        // fair, observe, cap or cooperative
	Shadow  bool          // only log what Mode would do
	MaxHold time.Duration // the longest delay of a request; requests that would wait longer are rejected
	Memory  time.Duration // the longest time that it takes to pay a debt; larger debts are reduced
}

func defaultThrottle() Throttle {
	return Throttle{Mode: "fair", MaxHold: 30 * time.Second, Memory: 120 * time.Second}
}

// HasGate reports whether requests go through the gate, even if the gate delays and rejects nothing.
func (t *Throttle) HasGate() bool { return t.Mode == "fair" || t.Mode == "observe" }

// GateActs reports whether requests wait at the gate.
func (t *Throttle) GateActs() bool { return t.Mode == "fair" && !t.Shadow }

func throttleSettings(t *Throttle) []form.Setting {
	return []form.Setting{
		{Path: "throttle.mode", Value: form.Choice("fair", "observe", "cap", "cooperative").In(&t.Mode)},
		{Path: "throttle.shadow", Value: form.Boolean().In(&t.Shadow)},
		{Path: "throttle.maxHold", Value: form.Duration(0, time.Hour).In(&t.MaxHold)},
		{Path: "throttle.memory", Value: form.Duration(time.Second, day).In(&t.Memory)},
	}
}
