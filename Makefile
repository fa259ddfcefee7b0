# toolbus. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
TIMEOUT ?= 20m
# How long `make fuzz` spends on each target, and how long `make soak` goes on.
FUZZTIME ?= 10s
SOAKTIME ?= 5m

export GOFLAGS := -buildvcs=false $(GOFLAGS)
# Results of another checkout carry its paths, which the exclusions do not match.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.cache/golangci-lint

# One PostgreSQL for all packages of a run, gone when the run is.
CLUSTER := scripts/with-test-cluster
# The gates that this release claims.
GATES   := 1,2,3,4,6,8,9,10,18,19,21,22,23
LINT    := $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what is missing: PostgreSQL, and the sandbox on Linux
	scripts/setup

.PHONY: demo
demo: setup ## show a crash in the middle of a call and what becomes of it
	$(GO) run ./cmd/toolbus demo

.PHONY: run
run: setup ## run every service in one process, with engines of its own
	$(GO) run ./cmd/toolbus dev

.PHONY: test
test: ## every test, with the race detector, in random order
	scripts/setup test
	$(CLUSTER) $(GO) test -race -shuffle=on -timeout=$(TIMEOUT) ./...

.PHONY: gates
gates: setup ## what must be proved before a release, a line each
	$(CLUSTER) $(GO) test -json -timeout=$(TIMEOUT) ./gates/... | $(GO) run ./internal/gatereport -gates $(GATES)

.PHONY: soak
soak: setup ## the chaos gate for as long as SOAKTIME says
	TOOLBUS_TEST_SOAK=$(SOAKTIME) $(CLUSTER) $(GO) test -v -count=1 -timeout=0 -run '^TestGate17' ./gates

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	scripts/fuzz $(FUZZTIME)

.PHONY: bench
bench: setup ## measure throughput and latency
	$(GO) run ./bench

.PHONY: lint
lint: ## vet, linters and formatting; the first run builds the linter
	$(GO) vet ./...
	$(LINT) run ./...

.PHONY: fmt
fmt: ## format the code
	$(LINT) fmt ./...
