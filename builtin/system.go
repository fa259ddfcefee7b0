package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones are the same whether or not the host has a database of them

	"github.com/toolbus/toolbus/tool"
)

type timeArgs struct {
	Timezone string `json:"timezone"`
}

type timeResult struct {
	Time     string `json:"time"`
	UTC      string `json:"utc"`
	Unix     int64  `json:"unix"`
	Timezone string `json:"timezone"`
	Offset   string `json:"offset"`
	Weekday  string `json:"weekday"`
	ISOWeek  string `json:"iso_week"`
}

var errTimezone = &problem{tool.FailInvalidArguments, "timezone", "not the name of a time zone"}

// systemTime reads the clock of the process.
func systemTime(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "system.time",
		Description: "Gives the current date and time, with weekday, ISO week and UTC offset, in UTC or in an IANA time zone. " +
			"Use it whenever an answer depends on what day or time it is now; do not use it to wait.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"timezone": {
					"type": "string", "default": "UTC", "minLength": 1, "maxLength": 64,
					"description": "An IANA time zone name such as Europe/Berlin or America/New_York."
				}
			}
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"time": {"type": "string", "description": "RFC 3339 in the requested zone."},
				"utc": {"type": "string", "description": "RFC 3339 in UTC."},
				"unix": {"type": "integer", "description": "Seconds since 1970-01-01 UTC."},
				"timezone": {"type": "string"},
				"offset": {"type": "string", "description": "Offset from UTC, such as +02:00."},
				"weekday": {"type": "string"},
				"iso_week": {"type": "string", "description": "ISO 8601 week, such as 2026-W49."}
			},
			"required": ["time", "utc", "unix", "timezone", "offset", "weekday", "iso_week"]
		}`),
		SideEffect: tool.EffectNone, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 5, MaximumOutputBytes: 4096, AllowParallel: true,
	})
	return &simple[timeArgs]{spec: spec, defaults: timeArgs{Timezone: "UTC"}, run: func(_ context.Context, a timeArgs, _ *tool.Execution) (tool.Result, error) {
		zone, err := time.LoadLocation(a.Timezone)
		// "Local" would tell where the host stands.
		if err != nil || strings.EqualFold(a.Timezone, "local") || a.Timezone == "" {
			return settle(errTimezone)
		}
		now := o.Now().In(zone)
		year, week := now.ISOWeek()
		r := timeResult{
			Time: now.Format(time.RFC3339), UTC: now.UTC().Format(time.RFC3339), Unix: now.Unix(),
			Timezone: a.Timezone, Offset: now.Format("-07:00"), Weekday: now.Weekday().String(),
			ISOWeek: fmt.Sprintf("%d-W%02d", year, week),
		}
		return succeed(fmt.Sprintf("%s, %s (%s, week %s)", r.Weekday, r.Time, r.Timezone, r.ISOWeek), r)
	}}
}
