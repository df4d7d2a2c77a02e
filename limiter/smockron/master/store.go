package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// RedisStore is a Store in Redis. A record is a string under the key that the
// first master uses, throttle;<domain>;<identifier>, and expires with its meaning.
type RedisStore struct {
	option rueidis.ClientOption
	client rueidis.Client // nil: not connected yet
}

// OpenRedisStore makes a RedisStore of a URL: redis://[user:password@]host[:port][/database],
// rediss:// for TLS, unix:///path. It connects when it is first used, and again
// when it has to.
func OpenRedisStore(url string) (*RedisStore, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	o.DisableCache = true
	o.ConnWriteTimeout = storeWait
	o.Dialer.Timeout = time.Second
	o.DisableRetry = true // the next exchange is the retry
	o.ForceSingleClient = true
	return &RedisStore{option: o}, nil
}

// connect makes the first connection; the client keeps it.
func (s *RedisStore) connect() (err error) {
	if s.client == nil {
		if s.client, err = rueidis.NewClient(s.option); err != nil {
			s.client = nil
			return fmt.Errorf("redis: %w", err)
		}
	}
	return nil
}

// Close ends the connection.
func (s *RedisStore) Close() {
	if s.client != nil {
		s.client.Close()
	}
}

const keyPrefix = "throttle;"

func storeKey(domain, identifier string) string { return keyPrefix + domain + ";" + identifier }

// globbed is a pattern of Redis for the keys that begin with the prefix.
func globbed(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix) + "*"
}

// scanCount is how many keys Redis looks at in one step.
const scanCount = 1000

// Load implements Store.
func (s *RedisStore) Load(ctx context.Context, domain string, each func(Record)) error {
	if err := s.connect(); err != nil {
		return err
	}
	prefix := storeKey(domain, "")
	pattern := globbed(prefix)
	for cursor := uint64(0); ; {
		page, err := s.client.Do(ctx, s.client.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return fmt.Errorf("redis: scan: %w", err)
		}
		records := make([]Record, 0, len(page.Elements))
		for _, key := range page.Elements {
			if id, ok := strings.CutPrefix(key, prefix); ok {
				records = append(records, Record{Domain: domain, Identifier: id})
			}
		}
		if err := s.Fetch(ctx, records); err != nil {
			return err
		}
		for _, r := range records {
			each(r)
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// Fetch implements Store.
func (s *RedisStore) Fetch(ctx context.Context, records []Record) error {
	if err := s.connect(); err != nil {
		return err
	}
	commands := make(rueidis.Commands, 0, len(records))
	for _, r := range records {
		commands = append(commands, s.client.B().Get().Key(storeKey(r.Domain, r.Identifier)).Build())
	}
	for i, answer := range s.client.DoMulti(ctx, commands...) {
		text, err := answer.ToString()
		if err != nil && !rueidis.IsRedisNil(err) && !isWrongType(err) {
			return fmt.Errorf("redis: get: %w", err)
		}
		records[i].State = text
	}
	return nil
}

// Save implements Store.
func (s *RedisStore) Save(ctx context.Context, records []Record) error {
	if err := s.connect(); err != nil {
		return err
	}
	now := time.Now()
	commands := make(rueidis.Commands, 0, len(records))
	for _, r := range records {
		if ttl := r.Expires.Sub(now); ttl > 0 {
			commands = append(commands, s.client.B().Set().Key(storeKey(r.Domain, r.Identifier)).Value(r.State).Px(ttl).Build())
		}
	}
	for _, answer := range s.client.DoMulti(ctx, commands...) {
		if err := answer.Error(); err != nil {
			return fmt.Errorf("redis: set: %w", err)
		}
	}
	return nil
}

// isWrongType tells whether a key is not a string: not one of ours.
func isWrongType(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) && strings.HasPrefix(e.Error(), "WRONGTYPE")
}
