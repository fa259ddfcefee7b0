package app

import (
	"context"
	"sync"
	"time"
)

// stopPatience is how long the database may be without an answer before a node
// that is told to stop no longer waits for it.
const stopPatience = 5 * time.Second

// letGo closes the store when ctx has ended and the database gives no answer:
// what was handed over to a lane waits for its verdict for as long as the store
// is open, and the service that handed it over waits with it. done ends the
// watch.
func (n *Node) letGo(ctx context.Context) (done func()) {
	finished := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-finished:
			return
		}
		tick := time.NewTicker(stopPatience / 10)
		defer tick.Stop()
		for n.Store.Away() < stopPatience {
			select {
			case <-tick.C:
			case <-finished:
				return
			}
		}
		n.log.WarnContext(ctx, "stopping without the database, which gives no answer")
		n.Store.Close()
	})
	return func() {
		close(finished)
		watch.Wait()
	}
}
