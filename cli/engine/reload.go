package engine

import (
	"errors"
	"fmt"
	"time"

	"robotsproxy/internal/logging"
)

// Reload reopens the log's file and replaces the configuration, without losing a request. If
// the new configuration is invalid, the old one stays, and the error says why. Keys that need
// a restart keep their old values; the log names them. Reload is safe for concurrent use.
func (s *Service) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.engine.logWriter.Reopen(); err != nil {
		s.engine.log.Error().Err(err).Msg("the log stays in its old file")
	}
	err := s.apply()
	if err != nil {
		s.engine.log.Error().Err(err).Msg("the configuration is invalid and was not reloaded: the old one stays")
		return err
	}
	if keys := s.current.NeedsRestart(s.started); len(keys) > 0 {
		s.engine.log.Warn().Strs("keys", keys).Msg("the configuration was reloaded, but these keys need a restart")
		return nil
	}
	s.engine.log.Info().Msg("the configuration was reloaded")
	return nil
}

// apply replaces the configuration.
func (s *Service) apply() error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	if cfg.IsBeingWritten(s.current) {
		return errors.New("the configuration's file is empty, as a file is while it is being written: reload when it is whole; if you want the defaults, write {} into it")
	}
	own, ownWarnings, err := cfg.ListenTLS.Load()
	if err != nil {
		return fmt.Errorf("listen_tls: %w", err)
	}
	if err := s.gate.SetSettings(cfg.GateSettings()); err != nil {
		return err
	}
	if err := s.publishKeys(); err != nil {
		return err
	}
	if err := s.proxy.SetAccess(cfg.Clients, cfg.HTTPS.Tunnels); err != nil {
		return err
	}
	if own != nil {
		s.proxy.SetCertificate(own)
	}
	for _, warning := range ownWarnings {
		s.engine.log.Warn().Msg(warning)
	}
	s.proxy.SetStallTimeout(cfg.Limits.StallTimeout)
	s.engine.keeper.SetOptions(cfg.Robots.Options)
	s.engine.pacer.SetOptions(cfg.Pace)
	logging.SetLevel(cfg.Log.Level)
	for _, warning := range cfg.Warnings() {
		s.engine.log.Warn().Msg(warning.Error())
	}
	s.current = cfg
	return nil
}

// shutdownGrace is how long requests in flight may take to end.
func (s *Service) shutdownGrace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.ShutdownGrace
}
