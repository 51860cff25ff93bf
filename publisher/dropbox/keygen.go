package dropbox

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
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
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("writing a key: %w", err)
	}
	_, err = f.Write(pem.EncodeToMemory(block))
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	line := ssh.MarshalAuthorizedKey(key)
	if err == nil {
		err = os.WriteFile(path+".pub", line, 0o644)
	}
	if err != nil {
		os.Remove(path) // the next attempt refuses an existing key
		return "", fmt.Errorf("writing a key: %w", err)
	}
	return strings.TrimSpace(string(line)), nil
}
