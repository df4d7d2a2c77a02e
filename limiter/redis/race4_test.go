package redis

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/limiter/quota"
)

// The test program runs itself again as a process that checks one bucket: so many
// times, by so many goroutines, once its standard input ends. It prints how many
// checks passed and how many failed.
const childEnv = "TEMPOMAT_TEST_CHILD"

func child() int {
	var o Options
	var checks, workers int
	var b quota.Bucket
	var now int64
	var address string
	if _, err := fmt.Sscan(os.Getenv(childEnv), &address, &checks, &workers,
		&b.Size, &b.DripRate, &b.DripSize, &now); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o.Addresses, o.Timeout = []string{address}, time.Minute
	c := NewChecker(o)
	defer c.Close()
	if _, err := c.Check(context.Background(), time.Time{}, "warm", "up", b, 1); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	var passed, failed atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range checks/workers + min(1, max(0, checks%workers-w)) {
				switch info, err := c.check(context.Background(), "raced", b, 1, now); {
				case err != nil:
					failed.Add(1)
				case !info.Blocked:
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	fmt.Println(passed.Load(), failed.Load())
	return 0
}

// race has processes check the bucket "raced" at the same time.
func race(t *testing.T, s *server, processes int, checks, workers int, b quota.Bucket, now int64) (passed, failed int) {
	t.Helper()
	commands := make([]*exec.Cmd, processes)
	outputs := make([]*lines, processes)
	for i := range commands {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d %d %d %d", childEnv, s.Address,
			checks, workers, b.Size, b.DripRate, b.DripSize, now))
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		commands[i], outputs[i] = c, &lines{in: in, out: out}
	}
	for _, o := range outputs {
		if got := o.next(t); got != "ready" {
			t.Fatalf("a process says %q", got)
		}
	}
	for _, o := range outputs {
		o.in.Close()
	}
	for i, o := range outputs {
		var p, f int
		if _, err := fmt.Sscan(o.next(t), &p, &f); err != nil {
			t.Fatal(err)
		}
		passed, failed = passed+p, failed+f
		commands[i].Wait()
	}
	return passed, failed
}

// lines are the pipes of a process.
type lines struct {
	in  interface{ Close() error }
	out interface{ Read([]byte) (int, error) }
}

func (l *lines) next(t *testing.T) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if n, err := l.out.Read(b); n == 0 || b[0] == '\n' {
			if err != nil && len(line) == 0 {
				t.Fatal(err)
			}
			return string(line)
		}
	}
}

// TestExactly has four processes make 10,000 checks of a bucket for 100.
func TestExactly(t *testing.T) {
	s := startServer(t)
	must(t, s.direct().Do(context.Background(), s.direct().B().Flushall().Build()))
	passed, failed := race(t, s, 4, 2500, 32, quota.Bucket{Size: 100, DripRate: quota.Most, DripSize: 1}, serverClock)
	t.Logf("%d of 10000 passed", passed)
	if passed != 100 || failed != 0 {
		t.Errorf("%d passed and %d failed, want 100 and none", passed, failed)
	}
}

// TestOneDrip has two processes drip the same tick of a full bucket, many times: one
// request passes each time, and the bucket is as if it had dripped once.
func TestOneDrip(t *testing.T) {
	s := startServer(t)
	direct := s.direct()
	b := quota.Bucket{Size: 5, DripRate: 1000, DripSize: 2}
	o := s.options()
	sidecars := [2]*Checker{checker(t, o), checker(t, o)}
	for round := range 200 {
		key := "drip" + strconv.Itoa(round)
		must(t, direct.Do(context.Background(), direct.B().Arbitrary("HSET", key, "c", "6", "t", "1000000").Build()))
		var passed atomic.Int64
		var wg sync.WaitGroup
		for _, c := range sidecars {
			wg.Go(func() {
				info, err := c.check(context.Background(), key, b, 1, 1001500)
				if err != nil {
					t.Error(err)
				} else if !info.Blocked {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		got, err := direct.Do(context.Background(), direct.B().Hmget().Key(key).Field("c", "t").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if want := "5 1001000"; strings.Join(got, " ") != want || passed.Load() != 1 {
			t.Fatalf("round %d: %v, %d passed; want %s, 1 passed", round, got, passed.Load(), want)
		}
	}
}
