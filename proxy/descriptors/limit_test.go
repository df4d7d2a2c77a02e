package descriptors

import "testing"

func TestForClients(t *testing.T) {
	for limit, want := range map[uint64]int{
		0:       1,
		64:      8,
		128:     16,
		256:     64,
		1024:    448,
		65536:   32704,
		262144:  131008,
		1 << 30: 262144,
		1 << 63: 262144, // RLIM_INFINITY is more still
	} {
		if got := ForClients(limit); got != want {
			t.Errorf("of %d descriptors %d are for clients, want %d", limit, got, want)
		}
	}
}

func TestForClientsGrowsWithTheLimit(t *testing.T) {
	last := 0
	for limit := range uint64(600_000) {
		n := ForClients(limit)
		if n < last || n < 1 || limit > 0 && uint64(n) > max(1, limit/2) {
			t.Fatalf("of %d descriptors %d are for clients, of one less %d", limit, n, last)
		}
		last = n
	}
}

func TestLimit(t *testing.T) {
	if n, err := Limit(); err != nil || n < 16 {
		t.Errorf("%d, %v", n, err)
	}
}
