// Package engine opens what a configuration describes, wires it up, reloads it and closes
// it. [Open] makes an [Engine], which knows what every origin allows. [OpenService] makes a
// [Service]: the proxy with all its doors, and the admin server. [OpenPrivate] makes a
// [Private], the proxy of one command.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"robotsproxy/certs"
	"robotsproxy/config"
	"robotsproxy/internal/build"
	"robotsproxy/internal/logging"
	"robotsproxy/internal/redisclient"
	"robotsproxy/proxy"
	"robotsproxy/proxy/counter"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/report"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/redisstore"
	"robotsproxy/robots/store/sqlitestore"
)

// An Engine is what a Service and a Private are built on: all that is needed to know what
// an origin allows.
type Engine struct {
	log       zerolog.Logger
	logWriter *logging.Writer
	metrics   *prometheus.Registry
	transport *upstream.Transport
	keeper    *keeper.Keeper
	redis     *redisclient.Client // nil: the configuration names none
	store     store.Store
	counts    counts.Store
	decisions *counter.Counter // nil until there is a proxy
	pacer     *pace.Pacer      // nil before openProxy

	closers []func() error // Close calls them in reverse order
}

// Open opens what cfg names. Callers must call Close. If the data directory cannot
// be written, Open returns an error, unless allowReadOnly is true: then the engine
// keeps new policies in memory only.
func Open(ctx context.Context, cfg config.Config, allowReadOnly bool, stderr io.Writer) (_ *Engine, err error) {
	e := &Engine{metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if err := e.openLog(cfg, stderr); err != nil {
		return nil, err
	}
	e.registerMetrics()
	if err := e.openRedis(ctx, cfg); err != nil {
		return nil, err
	}
	if err := e.openStore(ctx, cfg, allowReadOnly); err != nil {
		return nil, err
	}
	if e.transport, err = upstream.NewTransport(cfg.Upstream); err != nil {
		return nil, err
	}
	e.onClose(func() error { e.transport.CloseIdleConnections(); return nil })
	if err := e.openKeeper(cfg); err != nil {
		return nil, err
	}
	return e, nil
}

// Log is the log that the configuration describes.
func (e *Engine) Log() zerolog.Logger { return e.log }

// Keeper knows the policies of all origins. It ends with the engine.
func (e *Engine) Keeper() *keeper.Keeper { return e.keeper }

// Observer returns a pacer that only knows what holds requests in the fleet that cfg names; nil
// if it names none.
func (e *Engine) Observer(cfg config.Config) *pace.Pacer {
	if e.redis == nil {
		return nil
	}
	return pace.NewObserver(cfg.Pace, e.redis)
}

// Counts are those of decisions. They end with the engine.
func (e *Engine) Counts() counts.Store { return e.counts }

// Report makes a report of what the store has kept. A store that does not last has the counts
// of this process, and no changes of robots.txt.
func (e *Engine) Report(ctx context.Context, scope report.Scope) (*report.Report, error) {
	return report.Read(ctx, e.counts, e.changes, scope)
}

// changes calls do with the changes of robots.txt that the store has from a time until another,
// in no order. A store that does not last has none.
func (e *Engine) changes(ctx context.Context, from, until time.Time, do func(store.Change)) error {
	versions, lasting := e.store.(interface {
		Changes(ctx context.Context, from, until time.Time, do func(store.Change)) error
	})
	if !lasting {
		return nil
	}
	return versions.Changes(ctx, from, until, do)
}

// Transport is the way out to origins. It follows no redirect, and ends with the engine.
func (e *Engine) Transport() http.RoundTripper { return e.transport }

// onClose has Close call f.
func (e *Engine) onClose(f func() error) { e.closers = append(e.closers, f) }

// Close closes everything that was opened, in reverse order. Callers must shut down a
// proxy that uses the engine before.
func (e *Engine) Close() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	return errors.Join(errs...)
}

func (e *Engine) openLog(cfg config.Config, stderr io.Writer) (err error) {
	if e.log, e.logWriter, err = logging.Open(cfg.Log.Options, stderr, decision.Console); err != nil {
		return err
	}
	e.onClose(e.logWriter.Close)
	return nil
}

func (e *Engine) registerMetrics() {
	e.metrics.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newBuildInfo(),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "robotsproxy_log_lines_lost_total",
			Help: "Lines of the log that could not be written, or not fast enough.",
		}, func() float64 { return float64(e.logWriter.Lost()) }),
	)
}

// newBuildInfo is a metric that is always 1; its labels say which build runs.
func newBuildInfo() prometheus.Collector {
	version, commit := build.Version()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "robotsproxy_build_info",
		Help:        "What runs; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}

// openStore opens the store that cfg names. What it does not keep of counts is kept in memory.
func (e *Engine) openStore(ctx context.Context, cfg config.Config, allowReadOnly bool) (err error) {
	inMemory := cfg.Cache.Memory / 2 // the garbage collector lets the heap grow to twice what is in use
	switch cfg.Cache.Kind {
	case store.SQLite:
		e.store, err = e.openSQLite(ctx, cfg, inMemory, allowReadOnly)
	case store.Redis:
		e.store = redisstore.New(e.redis, cfg.Cache.Options)
	case store.None:
		e.store = store.NewMemory(inMemory)
	default:
		err = fmt.Errorf("opening the store of policies: no store is called %q", cfg.Cache.Kind)
	}
	if err != nil {
		return err
	}
	e.onClose(e.store.Close)
	var lasting bool
	if e.counts, lasting = e.store.(counts.Store); !lasting {
		e.counts = new(counts.Memory)
	}
	return nil
}

// openSQLite opens the policies in the data directory. If that cannot be written,
// allowReadOnly says whether to go on with a memory of so many bytes.
func (e *Engine) openSQLite(ctx context.Context, cfg config.Config, inMemory int64, allowReadOnly bool) (store.Store, error) {
	folder, err := cfg.DataFolder()
	if err != nil {
		return nil, err
	}
	policies, err := sqlitestore.Open(ctx, cfg.Cache.Options, folder, e.log)
	switch {
	case err == nil:
		return policies, nil
	case allowReadOnly && isUnwritable(err):
		e.log.Error().Err(err).Msg("the data directory cannot be written: new policies are kept in memory only")
		return sqlitestore.OpenReadOnly(ctx, folder, store.NewMemory(inMemory)), nil
	case isUnwritable(err), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%w; name a folder that can be written with --data-dir or data_dir", err)
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("%w; make room there, or name another folder with --data-dir or data_dir", err)
	}
	return nil, err
}

// isUnwritable reports whether err says that files cannot be written or made.
func isUnwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

func (e *Engine) openKeeper(cfg config.Config) (err error) {
	version, _ := build.Version()
	e.keeper, err = keeper.New(keeper.Setup{
		Options:   cfg.Robots.Options,
		Memory:    cfg.Cache.Memory,
		Store:     e.store,
		Transport: e.transport,
		UserAgent: "robotsproxy/" + version,
		Log:       e.log,
		Metrics:   e.metrics,
	})
	if err != nil {
		return fmt.Errorf("setting up the policy cache: %w", err)
	}
	e.onClose(func() error { e.keeper.Close(); return nil })
	return nil
}

// openProxy makes the proxy that cfg describes, with hooks for the transparent door, and
// logs cfg's warnings. Callers must shut the proxy down before they close the engine.
func (e *Engine) openProxy(cfg config.Config, ca *certs.CA, hooks func(*proxy.Options)) (*gate.Gate, *proxy.Server, error) {
	for _, warning := range cfg.Warnings() {
		e.log.Warn().Msg(warning.Error())
	}
	e.pacer = pace.New(cfg.Pace, e.redis, e.log, e.metrics)
	e.onClose(func() error { e.pacer.Close(); return nil })
	g, err := gate.New(cfg.GateSettings(), e.keeper, e.pacer, e.log, e.metrics)
	if err != nil {
		return nil, nil, err
	}
	g.CDN = e.keeper.CDN
	g.TDMRep = e.keeper.TDMRep
	e.decisions = counter.New(e.counts, time.Now, e.log)
	e.onClose(func() error { e.decisions.Close(); return nil })
	g.Watch(e.decisions.Add)
	options := proxy.Options{
		Name:   cfg.Name,
		Via:    cfg.Upstream.Via,
		Limits: cfg.Limits,
	}
	if hooks != nil {
		hooks(&options)
	}
	server := proxy.New(options, g, ca, e.transport, e.log, e.metrics)
	return g, server, server.SetAccess(cfg.Clients, cfg.HTTPS.Tunnels)
}
