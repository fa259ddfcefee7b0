package config

// What the manual is made with, and the entry of the fuzz test.
var (
	TypeName = typeName
	Describe = describe
	Parse    = parse
)
