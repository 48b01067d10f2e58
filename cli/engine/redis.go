package engine

import (
	"context"
	"errors"
	"fmt"

	"robotsproxy/config"
	"robotsproxy/config/strictyaml"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/redisclient"
	"robotsproxy/robots/store"
)

// openRedis opens the client through which the store and the pacer use one Redis server, if the
// configuration names one. A server that refuses what the configuration says is an error. One that
// cannot be used now is none: the proxy goes on without it.
func (e *Engine) openRedis(ctx context.Context, cfg config.Config) (err error) {
	if cfg.Cache.Kind != store.Redis {
		return nil
	}
	if e.redis, err = redisclient.Open(cfg.Cache.Server); err != nil {
		return fmt.Errorf("opening the Redis of the configuration: %w", err)
	}
	e.onClose(e.redis.Close)
	away, err := check(ctx, e.redis, cfg)
	if away != nil {
		e.log.Warn().Err(away).Msg("Redis cannot be used now; going on without it until it can")
	}
	return err
}

// CheckRedis asks the Redis that cfg names, if it names one. The error is what Redis refuses. away
// is why it cannot be used now, although cfg may be right. Both have positions.
func CheckRedis(ctx context.Context, cfg config.Config) (away strictyaml.Errors, err error) {
	if cfg.Cache.Kind != store.Redis {
		return nil, nil
	}
	server, err := redisclient.Open(cfg.Cache.Server)
	if err != nil {
		return nil, fmt.Errorf("opening the Redis of the configuration: %w", err)
	}
	defer server.Close()
	return check(ctx, server, cfg)
}

// check is CheckRedis of a server that is open.
func check(ctx context.Context, server *redisclient.Client, cfg config.Config) (away strictyaml.Errors, err error) {
	err = server.Check(ctx)
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, new(*keyerr.Error)):
		return nil, cfg.Locate(keyerr.In("cache", err))
	}
	return cfg.Locate(keyerr.Wrap("cache.redis_url", err)), nil
}
