package localpg

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"slices"
	"strings"
)

// InstallCommand is the command that installs PostgreSQL on this system.
func InstallCommand() string {
	release, _ := os.ReadFile("/etc/os-release") // absent: the general advice is given
	return installCommand(runtime.GOOS, release)
}

func installCommand(goos string, osRelease []byte) string {
	if goos == "darwin" {
		return "brew install postgresql@17"
	}
	switch families := osFamilies(osRelease); {
	case slices.Contains(families, "debian"), slices.Contains(families, "ubuntu"):
		return "sudo apt-get update && sudo apt-get install -y postgresql"
	case slices.Contains(families, "fedora"), slices.Contains(families, "rhel"), slices.Contains(families, "centos"):
		return "sudo dnf install -y postgresql-server"
	case slices.Contains(families, "alpine"):
		return "sudo apk add postgresql"
	case slices.Contains(families, "arch"):
		return "sudo pacman -S --noconfirm postgresql"
	case slices.Contains(families, "suse"), slices.Contains(families, "opensuse"):
		return "sudo zypper install -y postgresql-server"
	default:
		return "your package manager (package postgresql, with the server)"
	}
}

// osFamilies reads the distribution and those it descends from out of an
// os-release file.
func osFamilies(osRelease []byte) []string {
	var families []string
	scanner := bufio.NewScanner(bytes.NewReader(osRelease))
	for scanner.Scan() {
		key, value, _ := strings.Cut(scanner.Text(), "=")
		if key == "ID" || key == "ID_LIKE" {
			families = append(families, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	return families
}
