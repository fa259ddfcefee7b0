package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolbus/toolbus/pipeline"
)

// The errors of this package, for errors.Is.
var (
	// ErrNotFound says that the tenant has no such row.
	ErrNotFound = pipeline.ErrNotFound
	// ErrConflict says that a transition matched no row: the row is in another
	// state than the caller believed.
	ErrConflict = errors.New("state changed meanwhile")
	// ErrStopped says that the store was closed before the operation was written.
	ErrStopped = errors.New("store is closed")
	// ErrUnstorable says that PostgreSQL refuses the values of one operation; it
	// stands alone, its neighbours were written.
	ErrUnstorable = pipeline.ErrUnstorable
	// ErrSchema says that the database schema is older or newer than this build.
	ErrSchema = errors.New("schema does not match this build")
)

type failureClass int

const (
	failFinal failureClass = iota // a defect: not retried
	failRetry                     // the same flush again
	failData                      // one operation is guilty: split
)

// classify is the one place that reads SQLSTATE.
func classify(err error) failureClass {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return failRetry // connection lost, timeout, refused: the server said nothing
	}
	switch pg.Code {
	case "40001", "40P01", "55P03", "57P01", "57P02", "57P03", "57014", "25P03", "53300", "53200", "53100":
		return failRetry
	}
	switch pg.Code[:2] {
	case "22", "23", "54":
		return failData
	case "08", "53", "57", "58":
		return failRetry
	}
	return failFinal
}

// lostConnection reports whether the server could not be asked at all.
func lostConnection(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "57P01" || pg.Code == "57P02" || pg.Code == "57P03" || pg.Code == "53300"
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

// translate gives the domain error for a driver error.
func translate(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", what, err)
	}
	if classify(err) == failData {
		return fmt.Errorf("%s: %w: %w", what, ErrUnstorable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
