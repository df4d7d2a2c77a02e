// Command ask is both the backend and the clients in the test of the packages. The clients make requests all the time
// and count failures.
//
//	ask -serve ADDRESS
//	ask -url URL [-clients N] [-patient]
//	                             runs until it is interrupted, and then prints its figures
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	address := flag.String("serve", "", "run the backend at this `address`")
	url := flag.String("url", "", "request this URL")
	clients := flag.Int("clients", 8, "number of clients; half of them open a new connection for each request")
	patient := flag.Bool("patient", false, "retry for up to 5 s if a connection is refused, or reset before an answer begins")
	flag.Parse()
	if *address != "" {
		fmt.Fprintln(os.Stderr, serve(*address))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !ask(ctx, *url, *clients, *patient) {
		stop()
		os.Exit(1) //nolint:gocritic // stopped above
	}
}

func serve(address string) error {
	s := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(5 * time.Millisecond)
		_, _ = io.WriteString(w, "page")
	})}
	return s.ListenAndServe()
}

type figures struct {
	asked, failed atomic.Int64
	longest       atomic.Int64 // nanoseconds
}

// ask makes requests until the context ends, and reports whether all of them succeeded.
func ask(ctx context.Context, url string, clients int, patient bool) bool {
	var f figures
	var all sync.WaitGroup
	for i := range clients {
		transport := &http.Transport{DisableKeepAlives: i%2 == 1}
		c := &http.Client{Transport: transport, Timeout: time.Minute}
		all.Go(func() {
			for ctx.Err() == nil {
				f.once(c, url, patient)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	all.Wait()
	fmt.Printf("%d requests, %d failed, the longest took %v\n", f.asked.Load(), f.failed.Load(), time.Duration(f.longest.Load()).Round(time.Millisecond))
	return f.failed.Load() == 0 && f.asked.Load() > 0
}

func (f *figures) once(c *http.Client, url string, patient bool) {
	begin := time.Now()
	f.asked.Add(1)
	err := get(c, url)
	for patient && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)) && time.Since(begin) < 5*time.Second {
		time.Sleep(2 * time.Millisecond)
		err = get(c, url)
	}
	if err != nil {
		f.failed.Add(1)
		fmt.Println(time.Now().Format("15:04:05.000"), err)
	}
	took := int64(time.Since(begin))
	for {
		longest := f.longest.Load()
		if took <= longest || f.longest.CompareAndSwap(longest, took) {
			return
		}
	}
}

func get(c *http.Client, url string) error {
	res, err := c.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("while reading the answer: %v", err) //nolint:errorlint // counts as a failure in any case
	}
	if res.StatusCode != http.StatusOK || string(body) != "page" {
		return errors.New(res.Status)
	}
	return nil
}
