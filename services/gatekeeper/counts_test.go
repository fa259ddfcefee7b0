package gatekeeper

import "testing"

func TestTenantCounts(t *testing.T) {
	t.Parallel()
	c := tenantCounts{limit: 2, held: map[string]int{}}
	for i := range 5 {
		if !c.take("a") {
			t.Fatalf("a lone tenant was refused at %d", i)
		}
	}
	if !c.take("b") {
		t.Fatal("b was refused though it holds nothing")
	}
	if c.take("a") {
		t.Fatal("a got more than its share beside b")
	}
	c.give("b")
	if !c.take("a") {
		t.Fatal("a was refused though it is alone again")
	}
}
