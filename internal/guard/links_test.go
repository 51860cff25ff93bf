package guard

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	markdownLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	markdownCode    = regexp.MustCompile("(?ms)^```.*?^```|^    .*?$|`[^`\n]*`")
	markdownHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchors    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinksResolve: every relative link of a Markdown file leads to a file of
// the repository, and its anchor to a heading of that file.
func TestLinksResolve(t *testing.T) {
	links := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "dist" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case path == "internal/demo/files": // their links lead to pages of the demonstration's site
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "testdata"):
			return nil
		}
		for _, m := range markdownLink.FindAllStringSubmatch(markdownCode.ReplaceAllString(readFile(t, path), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
				continue
			}
			if anchor != "" && !anchors(readFile(t, target))[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 30 {
		t.Errorf("only %d links were found", links)
	}
}

// anchors are the names that the usual renderers give to the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range markdownHeading.FindAllStringSubmatch(page, -1) {
		name := strings.ToLower(strings.TrimSpace(m[1]))
		all[strings.ReplaceAll(notInAnchors.ReplaceAllString(name, ""), " ", "-")] = true
	}
	return all
}
