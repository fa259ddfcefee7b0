// Package deploy holds what a deployment is made of besides the program: the
// configuration of the NATS servers and the roles of the database, both used by
// compose.yaml, and the tests that read them as the servers would.
package deploy
