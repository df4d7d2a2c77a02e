package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"encoding/hex"

	"github.com/redis/rueidis"
)

// script is one that is run many times in a pipeline.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is how Redis names scripts
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// run is one run of a script in a pipeline.
type run struct {
	script *script
	keys   []string
	args   []string
}

func (r run) command(c rueidis.Client) rueidis.Completed {
	return c.B().Evalsha().Sha1(r.script.sha).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(r.args...).Build()
}

func (r run) commandWithText(c rueidis.Client) rueidis.Completed {
	return c.B().Eval().Script(r.script.text).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(r.args...).Build()
}

// pipeline makes runs in one round trip. Those whose script the server does not
// have, which therefore did nothing, take another one.
func pipeline(ctx context.Context, c rueidis.Client, runs []run) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, len(runs))
	for i, r := range runs {
		commands[i] = r.command(c)
	}
	results := c.DoMulti(ctx, commands...)
	var missing []int
	commands = commands[:0]
	for i, r := range runs {
		if err, ok := rueidis.IsRedisErr(results[i].Error()); ok && err.IsNoScript() {
			missing = append(missing, i)
			commands = append(commands, r.commandWithText(c))
		}
	}
	if missing == nil {
		return results
	}
	for i, r := range c.DoMulti(ctx, commands...) {
		results[missing[i]] = r
	}
	return results
}
