package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"robotsproxy/certs"
	"robotsproxy/config"
	"robotsproxy/proxy"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// house is what serve, run and check share: all that it takes to know what an
// origin allows.
type house struct {
	log       zerolog.Logger
	logWriter *logWriter
	metrics   *prometheus.Registry
	transport *proxy.Transport
	keeper    *policy.Keeper
	pacer     *pace.Pacer // of the server; nil before openServer

	closers []io.Closer // closed in reverse
}

// openHouse opens all that cfg names. The caller closes it. A data directory that
// cannot be written is an error, unless what is learnt may be forgotten at the end.
func openHouse(ctx context.Context, cfg config.Config, mayForget bool, stderr io.Writer) (_ *house, err error) {
	h := &house{metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	h.metrics.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newBuildInfo(),
	)
	if h.log, h.logWriter, err = openLog(cfg.Log, stderr); err != nil {
		return nil, err
	}
	h.closers = append(h.closers, h.logWriter)
	h.metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "robotsproxy_log_lines_lost_total",
		Help: "Lines of the log that could not be written, or not fast enough.",
	}, func() float64 { return float64(h.logWriter.dropped.Load()) }))

	folder, err := cfg.DataFolder()
	if err != nil {
		return nil, err
	}
	policies, err := store.Open(ctx, cfg.Cache.Options, folder, cfg.Cache.Memory, h.log)
	switch {
	case err == nil:
	case mayForget && unwritable(err):
		h.log.Error().Err(err).Msg("the data directory cannot be written: what is learnt now is kept in memory alone")
		policies = store.OpenReadOnly(ctx, folder, cfg.Cache.Memory)
	case unwritable(err), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%w; name a folder that can be written with --data-dir or data_dir", err)
	default:
		return nil, err
	}
	h.closers = append(h.closers, policies)

	if h.transport, err = proxy.NewTransport(cfg.Upstream); err != nil {
		return nil, err
	}
	version, _ := buildVersion()
	h.keeper, err = policy.NewKeeper(policy.Setup{
		Options:   cfg.Robots.Options,
		Memory:    cfg.Cache.Memory,
		Store:     policies,
		Transport: h.transport,
		UserAgent: "robotsproxy/" + version,
		Log:       h.log,
		Metrics:   h.metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the policy cache: %w", err)
	}
	h.closers = append(h.closers, closer(h.keeper.Close), closer(h.transport.CloseIdleConnections))
	return h, nil
}

// unwritable reports whether an error says that files cannot be written or made.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// openServer makes the proxy that cfg describes. It is the caller's to shut down,
// before the house.
func (h *house) openServer(cfg config.Config, ca *certs.CA) (*gate.Gate, *proxy.Server, error) {
	for _, warning := range cfg.Warnings() {
		h.log.Warn().Msg(warning.Error())
	}
	var err error
	if h.pacer, err = pace.New(cfg.Pace, cfg.Cache.SharedAt(), h.log, h.metrics); err != nil {
		return nil, nil, err
	}
	h.closers = append(h.closers, h.pacer)
	g, err := gate.New(cfg.GateSettings(), h.keeper, h.pacer, h.log, h.metrics)
	if err != nil {
		return nil, nil, err
	}
	server := proxy.New(proxy.Options{
		Name:   cfg.Name,
		Via:    cfg.Upstream.Via,
		Limits: cfg.Limits,
	}, g, ca, h.transport, h.log, h.metrics)
	return g, server, server.Admit(cfg.Clients, cfg.HTTPS.Tunnels)
}

// Close ends what openHouse began, in reverse.
func (h *house) Close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i].Close())
	}
	return errors.Join(errs...)
}

type closer func()

func (c closer) Close() error {
	c()
	return nil
}
