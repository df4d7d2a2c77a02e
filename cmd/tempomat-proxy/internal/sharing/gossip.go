package sharing

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/gossip"
)

// gossiping is a Sharer of a fleet that has no server, and where its keys are.
type gossiping struct {
	*gossip.Sharer
	keyFile string // empty: nothing is encrypted
}

// newGossip makes it. If it cannot be made, as its keys are no good, the sidecar serves all
// the same, and works alone.
func newGossip(c *config.Config, log *zap.Logger) (limiter.Sharer, error) {
	g := c.Coordination.Gossip
	keys, err := readKeys(g.KeyFile)
	if err != nil {
		return unable{err}, nil //nolint:nilerr // the Sharer tells it
	}
	if len(keys) == 0 {
		log.Warn("what sidecars tell each other is not encrypted: whoever reaches the port can invent debts; set coordination.gossip.keyFile")
	}
	sharer, err := gossip.New(gossip.Options{
		Listen: g.Listen, Advertise: g.Advertise, Join: g.Join, Keys: keys, Logf: log.Sugar().Warnf,
	})
	if err != nil {
		return unable{fmt.Errorf("coordination.gossip: %w", err)}, nil
	}
	return gossiping{sharer, g.KeyFile}, nil
}

// Reload reads the file of keys again. Those that there were stay if it is no good.
func (g gossiping) Reload(limiter.Policy) error {
	if g.keyFile == "" {
		return nil
	}
	keys, err := readKeys(g.keyFile)
	if err == nil {
		err = g.SetKeys(keys)
	}
	if err != nil {
		return fmt.Errorf("the keys of the encryption stay as they were: %w", err)
	}
	return nil
}

// readKeys reads the keys of the encryption, one in each line, in base64. The first
// one encrypts. Without a file there are none.
func readKeys(file string) (keys [][]byte, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("coordination.gossip.keyFile: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return nil, fmt.Errorf("coordination.gossip.keyFile: %s:%d: must be 16, 24 or 32 bytes in base64", file, n)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("coordination.gossip.keyFile: %s: there is no key in it", file)
	}
	return keys, lines.Err()
}

// CheckKeys tells what is wrong with the file of keys: then nothing is shared.
func CheckKeys(c *config.Config) error {
	if c.Coordination.Kind != "gossip" {
		return nil
	}
	_, err := readKeys(c.Coordination.Gossip.KeyFile)
	return err
}
