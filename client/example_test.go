package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

// startBus starts a bus whose gatekeeper says the arguments of every call back,
// and asks for an approval before demo.send.
func startBus() (options client.Options, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "toolbus-example-")
	must(err)
	user := bus.User{Name: "acme", Password: tool.NewSecret("example")}
	server, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: dir, Users: []bus.User{user}})
	must(err)
	b, err := bus.Connect(ctx, bus.Options{Server: server, Name: "gatekeeper", User: user.Name, Password: user.Password})
	must(err)
	_, err = b.Provision(ctx, topology.Build(bustest.Small()))
	must(err)
	g := newGatekeeper(b)
	g.onProposal = exampleProposal(g)
	wait, err := g.start(ctx)
	must(err)
	options = client.Options{URL: server.URL(), User: user.Name, Password: user.Password, Tenant: "acme", Actor: "example"}
	return options, func() {
		cancel()
		wait()
		b.Close()
		server.Shutdown()
		must(os.RemoveAll(dir))
	}
}

func exampleProposal(g *gatekeeper) func(string, *subjects.Proposal) {
	return func(tenant string, p *subjects.Proposal) {
		for _, c := range p.Calls {
			if c.Name == "demo.send" {
				waits := pending(p, c, tool.NewID().String())
				g.publish(tenant, p.RunID, encode(waits))
			}
			g.publish(tenant, p.RunID, g.record(p, succeeded(p, c)))
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func open(ctx context.Context, options client.Options) (*client.Client, *client.Session) {
	c, err := client.Dial(ctx, options)
	must(err)
	s, err := c.OpenSession(ctx, client.SessionOptions{
		Principal: tool.Principal{ID: "ada", Interactive: true},
		Agent:     subjects.AgentProfile{ID: "assistant", Tools: []string{"demo.*"}},
	})
	must(err)
	return c, s
}

// Connect, open a session, make one call.
func Example() {
	options, stop := startBus()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	c, err := client.Dial(ctx, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	s, err := c.OpenSession(ctx, client.SessionOptions{
		Principal: tool.Principal{ID: "ada", Interactive: true},
		Agent:     subjects.AgentProfile{ID: "assistant", Tools: []string{"demo.*"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range s.Tools() {
		fmt.Println(t.Name, "also known as", t.Alias)
	}

	outcome, err := s.Call(ctx, "demo.echo", map[string]any{"text": "hi"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(outcome.Status, outcome.Item.Content[0].Text)
	// Output:
	// demo.echo also known as demo_echo
	// succeeded {"text":"hi"}
}

// A step is proposed whole; its outcomes come in the order of its calls.
func ExampleRun_Propose() {
	options, stop := startBus()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, s := open(ctx, options)
	defer c.Close()

	run := s.NewRun()
	defer run.Close()
	step, err := run.Propose(ctx, client.Step{
		OriginTrust: tool.User,
		Calls: []subjects.Call{
			{CallID: "call_1", Name: "demo.echo", Arguments: json.RawMessage(`{"text":"one"}`)},
			{CallID: "call_2", Name: "demo.send", Arguments: json.RawMessage(`{"text":"two"}`)},
		},
		OnPending: func(p subjects.Pending) { fmt.Println(p.CallID, "waits for", p.Pending.Kind) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcomes, err := step.Wait(ctx)
	var refused *client.RefusalError
	if errors.As(err, &refused) {
		fmt.Println(refused.CallIDs, refused.Code)
	}
	for _, o := range outcomes {
		fmt.Println(o.CallID, o.Status, o.Item.Content[0].Text)
	}
	// Output:
	// call_2 waits for approval
	// call_1 succeeded {"text":"one"}
	// call_2 succeeded {"text":"two"}
}

// Answers can be taken as they come.
func ExampleOpenStep_Outcomes() {
	options, stop := startBus()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, s := open(ctx, options)
	defer c.Close()

	run := s.NewRun()
	defer run.Close()
	step, err := run.Propose(ctx, client.Step{Calls: []subjects.Call{{CallID: "call_1", Name: "demo.send"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for answer, err := range step.Outcomes(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
		case answer.Pending != nil:
			fmt.Println("waiting")
		case answer.Refusal != nil:
			fmt.Println("refused", answer.Refusal.Refusal.Code)
		default:
			fmt.Println(answer.Outcome.Status)
		}
	}
	// Output:
	// waiting
	// succeeded
}

// A command returns once it is settled.
func ExampleClient_Cancel() {
	options, stop := startBus()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, s := open(ctx, options)
	defer c.Close()

	settled, err := c.Cancel(ctx, s.NewRun().ID(), "the user went away")
	var refused *client.CommandRefusedError
	switch {
	case errors.As(err, &refused):
		fmt.Println("refused:", refused.Code)
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(settled.Kind, settled.Result)
	}
	// Output:
	// cancel applied
}
