package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter/gossip"
)

// gossip makes the sharer of a fleet that has no server.
func (s *sharing) gossip(g config.Gossip, log *zap.Logger) {
	sharer, err := newGossip(g, log)
	if err != nil {
		s.trouble = err
		return
	}
	s.sharer = sharer
	s.state = func() any { return sharer.State() }
	s.ties = func() map[string]bool { return map[string]bool{"other sidecars": sharer.State().Sidecars > 1} }
	if g.KeyFile != "" {
		s.setKeys = sharer.SetKeys
	}
}

// rekey reads the file of keys again. Those that there were stay if it is no good.
func (s *sharing) rekey(c *config.Config, log *zap.Logger) {
	if s.setKeys == nil {
		return
	}
	keys, err := readKeys(c.Coordination.Gossip.KeyFile)
	if err == nil {
		err = s.setKeys(keys)
	}
	if err != nil {
		log.Error("the keys of the encryption stay as they were", zap.Error(err))
	}
}

// newGossip makes the sharer itself.
func newGossip(g config.Gossip, log *zap.Logger) (*gossip.Sharer, error) {
	keys, err := readKeys(g.KeyFile)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		log.Warn("what sidecars tell each other is not encrypted: whoever reaches the port can invent debts; set coordination.gossip.keyFile")
	}
	sharer, err := gossip.New(gossip.Options{
		Name: g.Name, Listen: g.Listen, Advertise: g.Advertise, Join: g.Join, JoinFile: g.JoinFile, Keys: keys,
		Epoch: g.Epoch, History: g.History, MaxSkew: g.MaxSkew, BytesPerSecond: g.BytesPerSecond,
		Logf: log.Sugar().Warnf,
	})
	if err != nil {
		return nil, fmt.Errorf("coordination.gossip: %w", err)
	}
	return sharer, nil
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
