package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// ErrLog says that level or format of the log is not one there is.
var ErrLog = errors.New("log level must be debug, info, warn or error, format text or json")

// NewLogger makes the log of the process. Lines written with a context that
// holds a span carry its trace_id and span_id. Errors: [ErrLog].
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, ErrLog
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(traceHandler{slog.NewTextHandler(w, options)}), nil
	case "json":
		return slog.New(traceHandler{slog.NewJSONHandler(w, options)}), nil
	}
	return nil, ErrLog
}

// traceHandler adds the ids of the context's span to each line.
type traceHandler struct{ slog.Handler }

// Handle writes the line.
func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r) //nolint:wrapcheck // a handler passes on
}

// WithAttrs keeps the ids on derived loggers.
func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the ids on derived loggers.
func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
