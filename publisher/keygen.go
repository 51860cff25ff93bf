package publisher

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// GenerateKey makes an ed25519 key pair without a passphrase, as ssh-keygen
// does: the private half in the new file path, mode 0600, the public one in
// path.pub. It returns the public line, and replaces no key that exists.
func GenerateKey(path string) (public string, err error) {
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	comment := filepath.Base(path)
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	sshPub, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	public = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(sshPub))) + " " + comment
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("writing a key: %w", err)
	}
	if _, err = f.Write(pem.EncodeToMemory(block)); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.WriteFile(path+".pub", []byte(public+"\n"), 0o644)
	}
	if err != nil {
		os.Remove(path) // half a key is worse than none
		return "", fmt.Errorf("writing a key: %w", err)
	}
	return public, nil
}
