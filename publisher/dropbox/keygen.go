package dropbox

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"gpuboard/internal/atomicfile"
)

// GenerateKey generates an Ed25519 key pair without a passphrase. It writes the
// private key to a new file with mode 0600 and the public key to path.pub, and
// returns the line for authorized_keys, without a newline. An existing private key
// is left alone; the error wraps [fs.ErrExist].
func GenerateKey(path string) (public string, err error) {
	pub, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "gpuboard")
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("writing a key: %s: %w", path, fs.ErrExist)
	}
	line := ssh.MarshalAuthorizedKey(key)
	_, err = atomicfile.Write(path+".pub", line, 0o644)
	if err == nil { // last, because an existing private key is left alone
		_, err = atomicfile.Write(path, pem.EncodeToMemory(block), 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("writing a key: %w", err)
	}
	return strings.TrimSpace(string(line)), nil
}
