package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checkRelations checks the rules that look at more than one key.
func (c Config) checkRelations() []error {
	var errs []error
	report := func(key, rule string) { errs = append(errs, &KeyError{Key: key, Rule: rule}) }

	if c.Output.InlineMaximumBytes > c.Output.MaximumBytes {
		report("output.inline_maximum_bytes", "not be above output.maximum_bytes")
	}
	for name, ref := range c.Credentials {
		if !isReference(ref) {
			report("credentials."+name, "be a reference: env:NAME or file:/absolute/path")
		}
	}
	c.checkProfiles(report)
	for i, token := range c.HTTP.Tokens {
		key := fmt.Sprintf("http.tokens[%d]", i)
		c.checkCredential(key, token.CredentialRef, report)
		for _, tenant := range token.Tenants {
			if tenant != "*" && !textRules["token"].holds(tenant) {
				report(key+".tenants", "be tenants or *")
			}
		}
	}
	taken := map[string]bool{}
	for i, server := range c.Servers {
		key := fmt.Sprintf("servers[%d]", i)
		server.check(key, report)
		c.checkCredential(key, server.CredentialRef, report)
		for _, tenant := range server.Tenants {
			if id := tenant + "/" + server.ServerID; taken[id] {
				report(key+".server_id", "be unique in each tenant")
			} else {
				taken[id] = true
			}
		}
	}
	// Mappings are walked in no order; a person reads the errors in one.
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func (c Config) checkProfiles(report func(key, rule string)) {
	known := func(profile string) bool {
		return profile == "" || profile == Default().Policy.DefaultProfile || c.Policy.Profiles[profile] != ""
	}
	if !known(c.Policy.DefaultProfile) {
		report("policy.default_profile", "be default or a key of policy.profiles")
	}
	for name, file := range c.Policy.Profiles {
		if file == "" {
			report("policy.profiles."+name, "name a file")
		}
	}
	for name, tenant := range c.Tenants {
		if !known(tenant.Profile) {
			report("tenants."+name+".profile", "be default or a key of policy.profiles")
		}
	}
}

var variableName = regexp.MustCompile(`^env:[A-Za-z_][A-Za-z0-9_]*$`)

func isReference(ref string) bool {
	path, isFile := strings.CutPrefix(ref, "file:")
	return variableName.MatchString(ref) || isFile && filepath.IsAbs(path)
}

// checkCredential accepts a direct reference or a name in credentials. The
// value is not repeated in the error: someone may have put a secret there.
func (c Config) checkCredential(key, ref string, report func(key, rule string)) {
	if _, named := c.Credentials[ref]; ref != "" && !named && !isReference(ref) {
		report(key+".credential_ref", "be a key of credentials, env:NAME or file:/absolute/path")
	}
}

// check looks at the transport only; the rules about authentication belong to
// whoever validates a server of any origin.
func (s Server) check(key string, report func(key, rule string)) {
	switch s.Transport {
	case "stdio":
		if len(s.Command) == 0 || !filepath.IsAbs(s.Command[0]) {
			report(key+".command", "begin with an absolute path for transport stdio")
		}
		if s.URL != "" {
			report(key+".url", "be absent for transport stdio")
		}
	case "http":
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
			report(key+".url", "be an http or https address without user information for transport http")
		}
		if len(s.Command) > 0 {
			report(key+".command", "be absent for transport http")
		}
	}
}
