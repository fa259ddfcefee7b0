package app

import (
	"errors"

	"github.com/toolbus/toolbus/internal/supervise"
	"github.com/toolbus/toolbus/pipeline"
)

func (n *Node) newTelemetry() (supervise.Service, error) { return nil, errors.New("not built") }

func (n *Node) observer() pipeline.Observer { return nil }
