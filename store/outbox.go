package store

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

//go:embed sql/outbox_insert.sql
var outboxInsertSQL string

// ledger gathers what a flush owes the world, by tenant, and writes one outbox
// row for each.
type ledger struct {
	byTenant map[string]*pipeline.Announcement
}

func newLedger() *ledger { return &ledger{byTenant: map[string]*pipeline.Announcement{}} }

func (l *ledger) add(tenant string, notices ...pipeline.Notice) {
	if len(notices) == 0 {
		return
	}
	a := l.byTenant[tenant]
	if a == nil {
		a = &pipeline.Announcement{Outbox: tool.NewID(), Tenant: tenant}
		l.byTenant[tenant] = a
	}
	a.Notices = append(a.Notices, notices...)
}

// queue adds the outbox rows to a batch, tenants in order.
func (l *ledger) queue(b *pgx.Batch) {
	for _, tenant := range l.tenants() {
		a := l.byTenant[tenant]
		refs, kinds, seqs := make([][16]byte, len(a.Notices)), make([]int16, len(a.Notices)), make([]int32, len(a.Notices))
		for i, n := range a.Notices {
			refs[i], kinds[i], seqs[i] = n.Ref, int16(n.Kind), int32(n.Seq) //nolint:gosec // event numbers and n are small
		}
		b.Queue(outboxInsertSQL, tenant, uuid(a.Outbox), refs, kinds, seqs)
	}
}

func (l *ledger) tenants() []string {
	out := make([]string, 0, len(l.byTenant))
	for t := range l.byTenant {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

func (l *ledger) announcements() []pipeline.Announcement {
	out := make([]pipeline.Announcement, 0, len(l.byTenant))
	for _, t := range l.tenants() {
		out = append(out, *l.byTenant[t])
	}
	return out
}

// tenantSet is the value of the setting that the row-level policies read.
func tenantSet(tenants map[string]bool) string {
	out := make([]string, 0, len(tenants))
	for t := range tenants {
		out = append(out, t)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

const setTenants = "SELECT set_config('toolbus.tenants', $1, true)"
