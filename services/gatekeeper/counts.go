package gatekeeper

import "sync"

// tenantCounts bounds how much of this process one tenant may hold while others
// are served too; alone, it may have all of it.
type tenantCounts struct {
	mu    sync.Mutex
	limit int
	held  map[string]int
}

func (c *tenantCounts) take(tenant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if alone := len(c.held) == 0 || len(c.held) == 1 && c.held[tenant] > 0; !alone && c.held[tenant] >= c.limit {
		return false
	}
	c.held[tenant]++
	return true
}

func (c *tenantCounts) give(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[tenant]--; c.held[tenant] <= 0 {
		delete(c.held, tenant)
	}
}
