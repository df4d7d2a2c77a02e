package view

import (
	"testing"

	"tempomat/internal/testkit"
)

func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		Duration(0): "-", Duration(0.21): "210ms", Duration(0.9994): "999ms", Duration(0.9996): "1.0s", Duration(9.96): "10s",
		Duration(119.4): "119s", Duration(119.6): "2m", Duration(7200): "2h", Duration(3 * 86400): "3d",
		Number(0.004): "0", Number(-2.5): "-2.50", Number(99.99): "99.99", Number(99.996): "100.0", Number(1234.5): "1234",
		Decimals(0.126, 2): "0.13", Decimals(7, 0): "7",
		Count(0): "0", Count(999): "999", Count(1240): "1,240", Count(uint64(12345678)): "12,345,678",
		Percent(1, 0): "0 %", Percent(0, 5): "0 %", Percent(0.04, 5): "<1 %", Percent(0.05, 5): "1 %", Percent(5, 5): "100 %",
		Percent(7, 5): "100 %",
		Bytes(900):    "1 KB", Bytes(1<<20 + 200<<10): "1.2 MB", Bytes(3 << 30): "3.0 GB", Clock(1_000_000.5): "13:46:40",
	} {
		testkit.Same(t, want, got, "figures")
	}
}
