package cli

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// How the words of toolbus look to people.

func outcomeStyle(s tool.OutcomeStatus) ui.Style {
	switch s {
	case tool.OutcomeSucceeded:
		return ui.Green
	case tool.OutcomeFailed, tool.OutcomeDenied:
		return ui.Red
	case tool.OutcomeUnavailable:
		return ui.Yellow
	case tool.OutcomeUncertain:
		return ui.Yellow
	}
	return ui.Dim
}

// standing is the outcome of a call that has ended, and the status of one that
// has not.
func standing(i *subjects.InvocationInfo) ui.Cell {
	if i.OutcomeStatus != "" {
		return ui.Styled(outcomeStyle(i.OutcomeStatus), string(i.OutcomeStatus))
	}
	if i.SuspendedKind != "" {
		return ui.Styled(ui.Cyan, "suspended")
	}
	return ui.Styled(ui.Cyan, string(i.Status))
}

func eventStyle(name string) ui.Style {
	switch name {
	case subjects.EventCompleted:
		return ui.Green
	case subjects.EventFailed, subjects.EventDenied, subjects.EventRunFailed:
		return ui.Red
	case subjects.EventUncertain, subjects.EventApprovalRequest, subjects.EventApprovalExpired, subjects.EventLateResult:
		return ui.Yellow
	}
	return ui.Cyan
}

// printOutcome shows an outcome to a person.
func (p *process) printOutcome(o *subjects.Outcome, took time.Duration) {
	mark, style := "✗", outcomeStyle(o.Status)
	if o.Status == tool.OutcomeSucceeded {
		mark = "✓"
	}
	p.out.Printf("%s  %s  %s\n", p.out.Paint(style, mark+" "+string(o.Status)), p.out.Paint(ui.Bold, o.ToolName), p.out.Paint(ui.Dim, ui.Duration(took)))
	if w := o.Item.Outcome; w != nil {
		p.out.Printf("%s  %s\n", p.out.Paint(ui.Dim, w.ReasonCode), w.Message)
		switch {
		case w.Remediation == "modify_arguments":
			p.out.Printf("%s\n", p.out.Paint(ui.Dim, "Propose it again with other arguments."))
		case w.Retryable:
			p.out.Printf("%s\n", p.out.Paint(ui.Dim, "The same call may be proposed again."))
		}
	}
	for _, part := range o.Item.Content {
		if part.Type == tool.PartArtifact {
			p.out.Printf("artifact %s  %s, %d bytes\n", part.ID, ui.Escape(part.MediaType), part.Bytes)
			continue
		}
		p.out.Printf("%s\n", strings.TrimRight(ui.EscapeLines(part.Text), "\n"))
	}
	if s := string(o.Item.Structured); s != "" && s != "null" {
		p.out.Printf("%s\n", p.out.Paint(ui.Dim, ui.Escape(s)))
	}
	if o.Truncated && o.Artifact != nil {
		p.out.Printf("%s\n", p.out.Paint(ui.Dim, "whole output: artifact "+o.Artifact.ID.String()))
	}
	p.out.Printf("%s\n", p.out.Paint(ui.Dim, "invocation "+o.InvocationID.String()))
}

// callEvent shows an event of a call on one line, without the time.
func callEvent(p *ui.Printer, e *subjects.CallEvent, width int) string {
	var b strings.Builder
	b.WriteString(p.Paint(eventStyle(e.Event), ui.Pad(e.Event, 20)) + "  " + ui.Pad(e.CallID, width) + "  " + e.ToolName)
	for _, note := range callNotes(e) {
		b.WriteString("  " + p.Paint(ui.Dim, note))
	}
	return b.String()
}

func callNotes(e *subjects.CallEvent) []string {
	var notes []string
	if e.ReasonCode != nil && *e.ReasonCode != "" {
		notes = append(notes, *e.ReasonCode)
	}
	if e.EffectSent && e.Event != subjects.EventCompleted {
		notes = append(notes, "effect sent")
	}
	if e.DurationMS != nil && e.OutcomeStatus != nil {
		notes = append(notes, ui.Duration(time.Duration(*e.DurationMS)*time.Millisecond))
	}
	return notes
}

// otherEvent shows an event of no call on one line, without the time.
func otherEvent(p *ui.Printer, e *subjects.Event) string {
	data, err := json.Marshal(e.Data)
	if err != nil {
		data = nil // what came as JSON goes as JSON
	}
	return p.Paint(eventStyle(e.Event), ui.Pad(e.Event, 20)) + "  " + p.Paint(ui.Dim, ui.Escape(string(data)))
}
