# syntax=docker/dockerfile:1
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=devel
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /toolbus ./cmd/toolbus

# Debian rather than an empty image: the executor's sandbox is bubblewrap, and
# stdio servers are programs of the operator.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/toolbus toolbus
COPY --from=build /toolbus /usr/local/bin/toolbus
USER 10001
WORKDIR /var/lib/toolbus
EXPOSE 8080
# Children of tools and servers are reaped by an init; the program need not be one.
ENTRYPOINT ["tini", "--", "toolbus"]
CMD ["version"]
