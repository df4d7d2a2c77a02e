package policy

import (
	"tempomat/classify"
	"tempomat/classify/mmdb"
	"tempomat/config"
)

// Databases has a store read the files that a configuration names, as far as that is not done,
// and returns what classes ask.
func Databases(c *config.Config, store *mmdb.Store) (map[string]classify.Database, error) {
	if err := store.Load(c.Databases.Files()); err != nil {
		return nil, err
	}
	all := make(map[string]classify.Database)
	for kind, table := range store.Tables() {
		all[kind] = table
	}
	return all, nil
}
