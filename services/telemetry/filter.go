package telemetry

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// maximumFilters bounds how often a parameter may be given.
const maximumFilters = 32

// filter says which events a client wants and may see. An empty list means
// any; the viewer's tenants bind in any case.
type filter struct {
	viewer  viewer
	tenants []string
	runs    []tool.ID
	// names are event names, or prefixes of them that end in a dot.
	names []string
}

// parseFilter reads the parameters tenant, run and event, each of which may be
// given several times; an event may end in ".*".
func parseFilter(query url.Values, v viewer) (filter, *problem) {
	f := filter{viewer: v}
	for name, values := range query {
		if len(values) > maximumFilters {
			return filter{}, badFilter("a parameter is given too often")
		}
		for _, value := range values {
			if p := f.add(name, value); p != nil {
				return filter{}, p
			}
		}
	}
	return f, nil
}

func badFilter(message string) *problem {
	return &problem{http.StatusBadRequest, "invalid_parameter", message}
}

func (f *filter) add(name, value string) *problem {
	switch name {
	case "tenant":
		if !subjects.ValidToken(value) {
			return badFilter("tenant must be a tenant")
		}
		if !f.viewer.sees(value) {
			return &problem{http.StatusForbidden, "tenant_forbidden", "the token does not cover this tenant"}
		}
		f.tenants = append(f.tenants, value)
	case "run":
		run, err := tool.ParseID(value)
		if err != nil {
			return badFilter("run must be a lower-case UUID")
		}
		f.runs = append(f.runs, run)
	case "event":
		prefix, isPattern := strings.CutSuffix(value, ".*")
		if !subjects.ValidEventName(prefix) {
			return badFilter("event must be an event name, or the beginning of one and .*")
		}
		if isPattern {
			prefix += "."
		}
		f.names = append(f.names, prefix)
	default:
		return badFilter("parameters are tenant, run and event")
	}
	return nil
}

// covers reports whether events of the tenant can match at all.
func (f *filter) covers(tenant string) bool {
	return f.viewer.sees(tenant) && (len(f.tenants) == 0 || slices.Contains(f.tenants, tenant))
}

func (f *filter) matches(e *event) bool {
	return f.covers(e.tenant) &&
		(len(f.runs) == 0 || slices.Contains(f.runs, e.run)) &&
		(len(f.names) == 0 || slices.ContainsFunc(f.names, e.named))
}
