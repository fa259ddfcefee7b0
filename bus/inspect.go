package bus

// ServerVersion is the release of the server that the bus is connected to, empty
// while it is not.
func (b *Bus) ServerVersion() string { return b.conn.ConnectedServerVersion() }
