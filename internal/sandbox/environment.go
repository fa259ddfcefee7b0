package sandbox

import (
	"slices"
	"strings"
)

// tierZero lists the variables of every child process, in order.
var tierZero = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "USER"}

// Path is the search path of every child process.
const Path = "/usr/local/bin:/usr/bin:/bin"

// Environment gives the complete environment of a child process: the tier-0
// variables, as NAME=value, with the given private directories. Nothing of this
// process's own environment is in it. A caller may append declared variables whose
// names [Reserved] does not reserve.
func Environment(home, tmp string) []string {
	value := map[string]string{
		"PATH": Path, "HOME": home, "TMPDIR": tmp, "LANG": "C.UTF-8", "TZ": "UTC", "USER": "toolbus",
	}
	env := make([]string, len(tierZero))
	for i, name := range tierZero {
		env[i] = name + "=" + value[name]
	}
	return env
}

// Reserved reports whether a declared variable, such as one that carries a
// credential, must not bear this name: the tier-0 variables, and what a dynamic
// linker reads (LD_*, DYLD_*). Names are compared without case, so that a look-alike
// is not accepted either.
func Reserved(name string) bool {
	upper := strings.ToUpper(name)
	return slices.Contains(tierZero, upper) || strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_")
}
