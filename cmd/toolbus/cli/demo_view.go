package cli

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/tool"
)

// demoView prints the story. Safe for concurrent use.
type demoView struct {
	p *ui.Printer
	// command spells a command of the program.
	command func(string) string
	start   time.Time

	mu sync.Mutex
	// seen are the events that were shown, by invocation and name, and as the
	// last of the invocation.
	seen map[string]bool
	news chan struct{}
}

const (
	// eventWait bounds how long the story waits for an event to be shown; it goes
	// on without.
	eventWait = 3 * time.Second
	// lastEvent stands for whichever event ends a call.
	lastEvent = "last"
)

func (v *demoView) title(gatekeepers, executors int) {
	v.p.Printf("\n%s\n", v.p.Paint(ui.Bold, "toolbus: what becomes of a tool call"))
	v.p.Printf("%s\n\n", v.p.Paint(ui.Dim, fmt.Sprintf("A real system of %d processes on this machine, and real calls through it.", gatekeepers+executors+1)))
}

func (v *demoView) heading(text string) { v.p.Printf("\n%s\n", v.p.Paint(ui.Bold, text)) }

func (v *demoView) say(format string, args ...any) {
	v.p.Printf("  %s %s\n", v.p.Paint(ui.Cyan, "▸"), fmt.Sprintf(format, args...))
}

// types shows what a person types.
func (v *demoView) types(text string) { v.p.Printf("      %s\n", v.p.Paint(ui.Cyan, "$ "+text)) }

// breathe gives somebody who watches the time to read.
func (v *demoView) breathe(ctx context.Context) {
	if !v.p.Terminal() {
		return
	}
	timer := time.NewTimer(1500 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// event shows an event as it happens.
func (v *demoView) event(e client.Event) {
	at := v.p.Paint(ui.Dim, fmt.Sprintf("%7.3f s", time.Since(v.start).Seconds()))
	if e.Call == nil {
		v.p.Printf("  %s  %s  %v %v\n", at, v.p.Paint(ui.Dim, ui.Pad(e.Name, 20)), e.Other.Data["kind"], e.Other.Data["result"])
		return
	}
	v.p.Printf("  %s  %s\n", at, callEvent(v.p, e.Call, 8))
	id := e.Call.InvocationID.String()
	v.mu.Lock()
	v.seen[id+e.Call.Event] = true
	if e.Call.OutcomeStatus != nil {
		v.seen[id+lastEvent] = true
	}
	v.mu.Unlock()
	select {
	case v.news <- struct{}{}:
	default:
	}
}

// await waits until an event of a call was shown.
func (v *demoView) await(ctx context.Context, invocation tool.ID, event string) {
	timer := time.NewTimer(eventWait)
	defer timer.Stop()
	for {
		v.mu.Lock()
		shown := v.seen[invocation.String()+event]
		v.mu.Unlock()
		if shown {
			return
		}
		select {
		case <-v.news:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// end prints what became of the calls, and what to try next.
func (v *demoView) end(calls []demoCall) {
	v.heading("What became of them")
	rows := make([][]ui.Cell, 0, len(calls))
	for _, c := range calls {
		effects := "–"
		if c.Tool == "demo.external_write" {
			effects = strconv.Itoa(c.Effects)
		}
		rows = append(rows, []ui.Cell{
			ui.Styled(ui.Bold, c.Call), ui.Text(c.Tool), ui.Styled(c.style, c.Status), ui.Styled(ui.Dim, c.Reason),
			ui.Text(strconv.Itoa(c.Attempts)), ui.Text(effects), ui.Text(c.Why),
		})
	}
	v.p.Table("  ", []string{"call", "tool", "status", "reason", "attempts", "effects", "why"}, rows)
	v.p.Printf("\n  The payment is %s: it may have arrived, so it is neither repeated nor called failed.\n",
		v.p.Paint(outcomeStyle(tool.OutcomeUncertain), string(tool.OutcomeUncertain)))
	v.p.Printf("\n%s\n", v.p.Paint(ui.Bold, "Next"))
	for _, next := range [][2]string{
		{v.command("dev"), "run it for yourself, with data that stays"},
		{v.command(`call math.evaluate '{"expression":"6*7"}'`), "a call of your own, in another terminal"},
		{v.command("tail"), "every event as it happens"},
		{v.command("demo --gatekeepers 2 --executors 3"), "the same with more processes"},
		{"examples/customtool", "a tool of your own in Go"},
	} {
		v.p.Printf("  %s\n      %s\n", v.p.Paint(ui.Cyan, next[0]), v.p.Paint(ui.Dim, next[1]))
	}
}

// farewell is said when everything has stopped.
func (v *demoView) farewell(took time.Duration, kept string) {
	left := "nothing is left running, and nothing on the disk."
	if kept != "" {
		left = "nothing is left running; the data and the logs are in " + kept + "."
	}
	v.p.Printf("\n%s\n", v.p.Paint(ui.Dim, "All of it took "+ui.Duration(took)+"; "+left))
}
