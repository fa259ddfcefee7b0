package pipeline

import (
	"context"
	"sync"

	"github.com/toolbus/toolbus/tool"
)

// maximumCached bounds the sessions and catalogs held in memory. They are
// immutable, so a session that fell out is read again.
const maximumCached = 4096

// SessionLoader loads sessions.
type SessionLoader interface {
	Session(ctx context.Context, tenant string, id tool.ID, catalog func(sha string) *Catalog) (*Session, error)
}

// SessionCache holds sessions and the catalogs they share: none of it changes
// once written, so nothing is ever invalidated. Safe for concurrent use.
type SessionCache struct {
	loader SessionLoader

	mu       sync.Mutex
	byID     map[sessionKey]*Session
	catalogs map[string]*Catalog
}

type sessionKey struct {
	tenant string
	id     tool.ID
}

// NewSessionCache makes an empty cache.
func NewSessionCache(loader SessionLoader) *SessionCache {
	return &SessionCache{loader: loader, byID: map[sessionKey]*Session{}, catalogs: map[string]*Catalog{}}
}

// Get gives a session, from memory if it can. The error is the loader's.
func (s *SessionCache) Get(ctx context.Context, tenant string, id tool.ID) (*Session, error) {
	key := sessionKey{tenant, id}
	s.mu.Lock()
	found := s.byID[key]
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	loaded, err := s.loader.Session(ctx, tenant, id, func(sha string) *Catalog {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.catalogs[tenant+"/"+sha]
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // the store words it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maximumCached {
		clear(s.byID)
	}
	if len(s.catalogs) >= maximumCached {
		clear(s.catalogs)
	}
	s.byID[key] = loaded
	s.catalogs[tenant+"/"+loaded.Catalog.Pin.SpecsSHA256()] = loaded.Catalog
	return loaded, nil
}
