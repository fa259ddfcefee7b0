package deploy_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/toolbus/toolbus/config"
)

// compose is the part of compose.yaml that the tests look at.
type compose struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Healthcheck any               `yaml:"healthcheck"`
		CapDrop     []string          `yaml:"cap_drop"`
		ReadOnly    bool              `yaml:"read_only"`
		DependsOn   map[string]any    `yaml:"depends_on"`
	} `yaml:"services"`
}

const password = "a-password-for-a-test"

// readCompose reads compose.yaml with the passwords of .env filled in.
func readCompose(t *testing.T) compose {
	t.Helper()
	raw, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := os.Expand(string(raw), func(name string) string {
		name, _, _ = strings.Cut(name, ":")
		if !slices.Contains([]string{"POSTGRES_PASSWORD", "TOOLBUS_DB_PASSWORD", "TOOLBUS_NATS_PASSWORD"}, name) && strings.ContainsAny(name, "_") {
			t.Errorf("compose.yaml uses ${%s}, which its first lines do not tell to write", name)
		}
		return password
	})
	var c compose
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Streams are the way work travels: an acknowledged message is on the disks.
func TestNATSForcesEveryWrite(t *testing.T) {
	var routes, names []string
	for name, service := range readCompose(t).Services {
		if !strings.HasPrefix(name, "nats-") {
			continue
		}
		for key, value := range service.Environment {
			t.Setenv(key, value)
		}
		options, err := server.ProcessConfigFile("nats.conf")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !options.SyncAlways {
			t.Errorf("%s does not force every write", name)
		}
		if !options.JetStream || options.StoreDir == "" || options.MaxPayload < 768<<10 {
			t.Errorf("%s: jetstream %v in %q, payload %d", name, options.JetStream, options.StoreDir, options.MaxPayload)
		}
		if options.ServerName != name {
			t.Errorf("%s calls itself %q", name, options.ServerName)
		}
		if service.Healthcheck == nil {
			t.Errorf("%s has no health check", name)
		}
		names = append(names, name)
		routes = routes[:0]
		for _, route := range options.Routes {
			if got, _ := route.User.Password(); got != options.Cluster.Password || got != password {
				t.Errorf("%s: the route to %s does not carry the cluster's password", name, route.Host)
			}
			routes = append(routes, route.Hostname())
		}
		slices.Sort(routes)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"nats-1", "nats-2", "nats-3"}, names); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(names, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// Every service has a container, hardened alike, whose variables are keys that
// make a valid configuration.
func TestServicesAreConfigured(t *testing.T) {
	t.Parallel()
	services := readCompose(t).Services
	for _, name := range []string{"migrate", "gatekeeper", "executor", "recovery", "telemetry"} {
		service, ok := services[name]
		if !ok {
			t.Errorf("there is no container for %s", name)
			continue
		}
		if diff := cmp.Diff([]string{name}, service.Command); diff != "" {
			t.Errorf("%s runs (-want +got):\n%s", name, diff)
		}
		if !slices.Equal(service.CapDrop, []string{"ALL"}) || !service.ReadOnly {
			t.Errorf("%s is not hardened", name)
		}
		if _, waits := service.DependsOn["migrate"]; name != "migrate" && !waits {
			t.Errorf("%s does not wait for the schema", name)
		}
		var env []string
		for _, key := range slices.Sorted(maps.Keys(service.Environment)) {
			env = append(env, key+"="+service.Environment[key])
		}
		if unknown := config.UnknownVariables(env); len(unknown) > 0 {
			t.Errorf("%s: no such keys: %v", name, unknown)
		}
		c, err := config.Load("", env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.NATS.Replicas != 3 || c.Database.URL == "" || c.NATS.URL == "" {
			t.Errorf("%s: replicas %d, database %q, bus %q", name, c.NATS.Replicas, c.Database.URL, c.NATS.URL)
		}
		if owner := c.Database.OwnerURL != ""; owner != (name == "migrate") {
			t.Errorf("%s: knows the owner's password: %v", name, owner)
		}
	}
}
