package main

import (
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"robotsproxy/config"
)

// openLog makes the log that opts describe, with stderr where they name no
// file. The caller closes it at the end.
func openLog(opts config.Log, stderr io.Writer) (zerolog.Logger, io.Closer, error) {
	out, closer := stderr, io.Closer(io.NopCloser(nil))
	if opts.File != "" {
		f, err := os.OpenFile(opts.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return zerolog.Logger{}, nil, fmt.Errorf("opening the log: %w; name another file with --log-file", err)
		}
		out, closer = f, f
	}
	if opts.Format == "console" || opts.Format == "auto" && isTerminal(out) {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: "15:04:05"}
	}
	level, err := zerolog.ParseLevel(string(opts.Level))
	if err != nil {
		return zerolog.Logger{}, nil, fmt.Errorf("opening the log: %w", err)
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), closer, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
