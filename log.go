package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"robotsproxy/config"
	"robotsproxy/internal/printable"
)

// openLog makes the log that opts describe, with stderr where they name no
// file. The caller closes it at the end.
func openLog(opts config.Log, stderr io.Writer) (zerolog.Logger, io.Closer, error) {
	out, closer, terminal := stderr, io.Closer(io.NopCloser(nil)), isTerminal(stderr)
	if opts.File != "" {
		f, err := openLogFile(opts.File)
		if err != nil {
			return zerolog.Logger{}, nil, err
		}
		out, closer, terminal = f, f, isTerminal(f.file)
	}
	out = printableWriter{zerolog.MultiLevelWriter(out)}
	if opts.Format == "console" || opts.Format == "auto" && terminal {
		out = zerolog.ConsoleWriter{
			Out: out, TimeFormat: "15:04:05", NoColor: !terminal || os.Getenv("NO_COLOR") != "",
			FormatPrepare: showMessage,
		}
	}
	level, err := zerolog.ParseLevel(string(opts.Level))
	if err != nil {
		return zerolog.Logger{}, nil, fmt.Errorf("opening the log: %w", err)
	}
	zerolog.SetGlobalLevel(level) // not the logger's own: a reload changes it
	l := zerolog.New(out).With().Timestamp().Logger()
	// net/http's client tells of odd origins by the standard logger alone.
	log.SetFlags(0)
	log.SetOutput(debugWriter{l})
	return l, closer, nil
}

// showMessage makes the message of a line safe for a terminal. The console format
// quotes the control characters of every other field.
func showMessage(line map[string]any) error {
	if message, ok := line[zerolog.MessageFieldName].(string); ok {
		line[zerolog.MessageFieldName] = printable.Line(message)
	}
	return nil
}

// printableWriter escapes what JSON and the console format let through.
type printableWriter struct{ out zerolog.LevelWriter }

func (w printableWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	_, err := w.out.WriteLevel(level, printable.JSON(line))
	return len(line), err
}

func (w printableWriter) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// debugWriter takes lines of another logger.
type debugWriter struct{ log zerolog.Logger }

func (w debugWriter) Write(line []byte) (int, error) {
	w.log.Debug().Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
