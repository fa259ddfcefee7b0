package cli

import (
	"regexp"
	"runtime"
	"strings"
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version.
func (c *versionCommand) Run(p *process) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if c.JSON {
		return p.json(map[string]string{"version": p.build.Version, "go": runtime.Version(), "platform": platform})
	}
	p.out.Printf("toolbus %s (%s, %s)\n", p.build.Version, runtime.Version(), platform)
	return nil
}

var (
	semantic   = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	notInLabel = regexp.MustCompile(`[^0-9A-Za-z-]+`)
)

// semanticVersion makes a semantic version of whatever the build was named:
// services are listed under one.
func semanticVersion(version string) string {
	if v := strings.TrimPrefix(version, "v"); semantic.MatchString(v) {
		return v
	}
	label := strings.Trim(notInLabel.ReplaceAllString(version, "-"), "-")
	if label == "" {
		return "0.0.0"
	}
	return "0.0.0-" + label
}
