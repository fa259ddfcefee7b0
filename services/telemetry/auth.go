package telemetry

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/subjects"
)

// everyTenant stands for all tenants in a token.
const everyTenant = "*"

// viewer is who sent a request.
type viewer struct {
	name    string
	role    Role
	tenants []string
}

// sees reports whether events of the tenant may be shown.
func (v *viewer) sees(tenant string) bool {
	return slices.Contains(v.tenants, tenant) || slices.Contains(v.tenants, everyTenant)
}

// may reports whether the viewer has at least the role.
func (v *viewer) may(least Role) bool {
	return slices.Index(roles(), v.role) >= slices.Index(roles(), least)
}

func roles() []Role { return []Role{Viewer, Approver, Admin} }

// credential is a token as it is kept: its digest.
type credential struct {
	digest [sha256.Size]byte
	viewer viewer
}

// keyring knows the tokens.
type keyring []credential

func newKeyring(tokens []Token) (keyring, error) {
	keys := make(keyring, 0, len(tokens))
	for _, t := range tokens {
		switch {
		case t.Value.Empty():
			return nil, fmt.Errorf("telemetry: token %q is empty", t.Name)
		case !slices.Contains(roles(), t.Role):
			return nil, fmt.Errorf("telemetry: token %q has no role", t.Name)
		case len(t.Tenants) == 0:
			return nil, fmt.Errorf("telemetry: token %q names no tenant", t.Name)
		}
		for _, tenant := range t.Tenants {
			if tenant != everyTenant && !subjects.ValidToken(tenant) {
				return nil, fmt.Errorf("telemetry: token %q names what is no tenant", t.Name)
			}
		}
		c := credential{
			digest: sha256.Sum256([]byte(t.Value.Reveal())),
			viewer: viewer{name: t.Name, role: t.Role, tenants: slices.Clone(t.Tenants)},
		}
		if slices.ContainsFunc(keys, func(other credential) bool { return other.digest == c.digest }) {
			return nil, errors.New("telemetry: two tokens are equal")
		}
		keys = append(keys, c)
	}
	return keys, nil
}

// find gives the viewer of a token. It compares digests, all of them and in
// constant time, so that neither a prefix nor a position can be timed.
func (k keyring) find(token string) (viewer, bool) {
	digest := sha256.Sum256([]byte(token))
	found := -1
	for i := range k {
		if subtle.ConstantTimeCompare(digest[:], k[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return viewer{}, false
	}
	return k[found].viewer, true
}

// authenticate gives the viewer of a request, or the problem to answer with.
func (k keyring) authenticate(r *http.Request) (viewer, *problem) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return viewer{}, &problem{http.StatusUnauthorized, "unauthenticated", "a bearer token is required"}
	}
	v, ok := k.find(strings.TrimSpace(token))
	if !ok {
		return viewer{}, &problem{http.StatusUnauthorized, "unauthenticated", "the bearer token is not known"}
	}
	return v, nil
}

// guarded serves to viewers of at least the role.
func (k keyring) guarded(least Role, serve func(http.ResponseWriter, *http.Request, viewer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, p := k.authenticate(r)
		switch {
		case p != nil:
			p.write(w)
		case !v.may(least):
			(&problem{http.StatusForbidden, "forbidden", "the token's role does not allow this"}).write(w)
		default:
			serve(w, r, v)
		}
	})
}
