package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/config"
	"robotsproxy/internal/logging"
	"robotsproxy/proxy"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots/keeper"
)

// A reloader replaces the configuration of a running proxy without losing a request.
type reloader struct {
	load   func() (config.Config, error)
	log    zerolog.Logger
	reopen func() error // the log's file
	gate   *gate.Gate
	pacer  *pace.Pacer
	keeper *keeper.Keeper
	server *proxy.Server

	mu      sync.Mutex
	started config.Config // what the proxy was started with
	current config.Config
}

// newReloader makes the reloader of a proxy that was started with cfg. load reads the
// configuration again.
func newReloader(e *engine, g *gate.Gate, server *proxy.Server, cfg config.Config, load func() (config.Config, error)) *reloader {
	return &reloader{
		load: load, log: e.log, reopen: e.logWriter.Reopen,
		gate: g, pacer: e.pacer, keeper: e.keeper, server: server,
		started: cfg, current: cfg,
	}
}

// reload reopens the log's file and reads the configuration again. If the new one is
// invalid, the old one stays, and the error says why. Keys that need a restart keep their
// old values; the log names them.
func (r *reloader) reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reopen(); err != nil {
		r.log.Error().Err(err).Msg("the log stays in its old file")
	}
	err := r.apply()
	if err != nil {
		r.log.Error().Err(err).Msg("the configuration is invalid and was not reloaded: the old one stays")
		return err
	}
	if keys := r.current.NeedsRestart(r.started); len(keys) > 0 {
		r.log.Warn().Strs("keys", keys).Msg("the configuration was reloaded, but these keys need a restart")
		return nil
	}
	r.log.Info().Msg("the configuration was reloaded")
	return nil
}

func (r *reloader) apply() error {
	cfg, err := r.load()
	if err != nil {
		return err
	}
	own, ownWarnings, err := cfg.ListenTLS.Load()
	if err != nil {
		return fmt.Errorf("listen_tls: %w", err)
	}
	if err := r.gate.SetSettings(cfg.GateSettings()); err != nil {
		return err
	}
	if err := r.server.SetAccess(cfg.Clients, cfg.HTTPS.Tunnels); err != nil {
		return err
	}
	if own != nil {
		r.server.SetCertificate(own)
	}
	for _, warning := range ownWarnings {
		r.log.Warn().Msg(warning)
	}
	r.server.SetStallTimeout(cfg.Limits.StallTimeout)
	r.keeper.SetOptions(cfg.Robots.Options)
	r.pacer.SetOptions(cfg.Pace)
	logging.SetLevel(cfg.Log.Level)
	for _, warning := range cfg.Warnings() {
		r.log.Warn().Msg(warning.Error())
	}
	r.current = cfg
	return nil
}

// shutdownGrace is how long requests in flight may take to end.
func (r *reloader) shutdownGrace() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.ShutdownGrace
}

// onHangup starts a goroutine that reloads at each SIGHUP until ctx ends.
func (r *reloader) onHangup(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-hangup:
				r.reload()
			case <-ctx.Done():
				return
			}
		}
	}()
}
