package cli

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"robotsproxy/config"
	"robotsproxy/internal/printable"
)

// openLog opens the log that opts describe, on stderr if they name no file. Callers must
// close the writer after the last line.
func openLog(opts config.Log, stderr io.Writer) (zerolog.Logger, *logWriter, error) {
	level, err := zerolog.ParseLevel(string(opts.Level))
	if err != nil {
		return zerolog.Logger{}, nil, fmt.Errorf("opening the log: %w", err)
	}
	zerolog.SetGlobalLevel(level) // not the logger's own: a reload changes it
	var notice bytes.Buffer
	var notices zerolog.Logger
	writer, err := openLogWriter(opts.File, stderr, func(lost int) []byte {
		notice.Reset()
		notices.Warn().Int("lines", lost).Msg("lines of the log were lost here: they could not be written, or not fast enough")
		return notice.Bytes()
	})
	if err != nil {
		return zerolog.Logger{}, nil, err
	}
	terminal := isTerminal(writer.out)
	logger := func(out zerolog.LevelWriter) zerolog.Logger {
		formatted := io.Writer(printableWriter{out})
		if opts.Format == "console" || opts.Format == "auto" && terminal {
			formatted = zerolog.ConsoleWriter{
				Out: formatted, TimeFormat: "15:04:05", NoColor: !terminal || os.Getenv("NO_COLOR") != "",
				FormatPrepare: showMessage,
			}
		}
		return zerolog.New(formatted).With().Timestamp().Logger()
	}
	l := logger(writer)
	notices = logger(zerolog.MultiLevelWriter(&notice))
	// net/http's client reports misbehaving origins only through the standard logger.
	log.SetFlags(0)
	log.SetOutput(debugWriter{l})
	return l, writer, nil
}

// showMessage makes the message of a line safe for a terminal. In every other field, the
// console format itself quotes control characters.
func showMessage(line map[string]any) error {
	if message, ok := line[zerolog.MessageFieldName].(string); ok {
		line[zerolog.MessageFieldName] = printable.Line(message)
	}
	return nil
}

// printableWriter escapes the unsafe characters that JSON and the console format let
// through.
type printableWriter struct{ out zerolog.LevelWriter }

func (w printableWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	_, err := w.out.WriteLevel(level, printable.JSON(line))
	return len(line), err
}

func (w printableWriter) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// debugWriter logs the lines of another logger at level debug.
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
