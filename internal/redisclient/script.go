package redisclient

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A Call is one run of a script.
type Call struct {
	Keys []string
	Args []any
}

// RunAll runs a script several times in one round trip, in a Cluster on all nodes at once. The
// script must be safe to repeat. The error is the first one of any run.
func RunAll(ctx context.Context, rdb redis.Cmdable, script *redis.Script, calls []Call) ([]*redis.Cmd, error) {
	send := func(run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) ([]*redis.Cmd, error) {
		replies := make([]*redis.Cmd, len(calls))
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, c := range calls {
				replies[i] = run(ctx, p, c.Keys, c.Args...)
			}
			return nil
		})
		return replies, err
	}
	replies, err := send(script.EvalSha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // it is new to a node, or the node has been restarted
		return send(script.Eval)
	}
	return replies, err
}
