// Command peers measures other systems that run work durably on PostgreSQL, for
// comparison with toolbus on the same server: it is a module of its own so that
// toolbus does not depend on them. It prints one JSON line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// result is the line that is printed.
type result struct {
	CallsPerSecond float64 `json:"calls_per_s"`
}

// payload has the size of typical tool arguments, about 300 bytes.
type payload struct {
	Text   string `json:"text"`
	Number int64  `json:"number"`
}

func newPayload(number int64) payload { return payload{Text: strings.Repeat("x", 270), Number: number} }

func main() {
	url := flag.String("url", "", "connection string of an empty database")
	seconds := flag.Float64("seconds", 3, "how long to measure")
	clients := flag.Int("clients", 32, "callers of dbos")
	flag.Parse()
	rate, err := measure(context.Background(), flag.Arg(0), *url, time.Duration(*seconds*float64(time.Second)), *clients)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result{CallsPerSecond: rate})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, peer, url string, window time.Duration, clients int) (float64, error) {
	switch peer {
	case "river":
		return measureRiver(ctx, url, window)
	case "dbos":
		return measureDBOS(ctx, url, window, clients)
	}
	return 0, errors.New("name a peer: river or dbos")
}

// quiet is the logger of the peers.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
