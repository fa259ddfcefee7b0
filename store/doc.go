// Package store is the PostgreSQL adapter: every SQL statement of toolbus, and
// the only package that imports a driver.
//
// The four writes of a call — admit, claim, mark, finish — do not open
// transactions of their own. Each hands one operation to a [lane], which
// gathers what is waiting while the previous flush is under way and writes all
// of it in one pipelined transaction: idle, an operation commits at once;
// loaded, hundreds share an fsync. Operations are idempotent under ids of their
// own, so a flush whose COMMIT went unanswered is run again, never read back.
//
// Locks are taken in one order everywhere: runs, invocations, leases, counters,
// approvals, outbox; within a table by key. Every statement joins on
// (tenant_id, id), because row-level security does not keep the tenants of one
// flush apart.
package store
