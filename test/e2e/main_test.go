package e2e

import (
	"os"
	"testing"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/test/systemtest"
)

func TestMain(m *testing.M) {
	os.Exit(systemtest.Main(m, systemtest.Kits{
		"writers": func(o *app.Options) { o.Tools = systemtest.WriteTools(o.DemoSink) },
	}))
}
