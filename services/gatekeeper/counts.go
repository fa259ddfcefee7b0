package gatekeeper

import "sync"

// tenantCounts bounds how much of this process one tenant may hold.
type tenantCounts struct {
	mu    sync.Mutex
	limit int
	held  map[string]int
}

func (c *tenantCounts) take(tenant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[tenant] >= c.limit {
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
