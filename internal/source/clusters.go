package source

import (
	"cmp"
	"context"
	"strings"

	"gpuboard/internal/board"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/internal/spelling"
	"gpuboard/sitegen/data"
)

// A Cluster is a board of another cluster, as it is called here: north, or north/west for one that north shows.
type Cluster struct {
	board.Site
	Away   string  // why its news do not count, or not all of them, "" if they do
	Source *Source // where its own files are
}

// Others returns the boards of other clusters that a site shows; nil where it shows none, or they cannot be read.
func (s *Source) Others(ctx context.Context) []board.Site {
	list, _ := readFile(ctx, s, data.SitesPath, data.ReadSites)
	return list
}

// Summary reads what a board says of itself.
func (s *Source) Summary(ctx context.Context) (*board.Summary, error) {
	return readFile(ctx, s, data.SummaryPath, data.ReadSummary)
}

// Clusters reads what the boards of other clusters say of themselves. Behind each are those that it shows itself, each
// board once; they are read only if one of them may have what is wanted.
func Clusters(ctx context.Context, o Options, wanted func(*board.Sums) bool) ([]Cluster, error) {
	seen := map[string]bool{}
	if here, err := Open(o, ""); err == nil {
		if own, err := here.Summary(ctx); err == nil {
			seen[own.ID] = true
		}
	}
	within, cancel := context.WithTimeout(ctx, 3*o.Config.Duration("site_timeout")) // however many a board names
	defer cancel()
	return clusters(within, o, "", o.Config.Sites(), wanted, seen)
}

func clusters(
	ctx context.Context, o Options, prefix string, sites []config.Site, wanted func(*board.Sums) bool,
	seen map[string]bool,
) (list []Cluster, err error) {
	reader, err := NewSites(o, sites)
	if err != nil {
		return nil, err
	}
	reader.once = true
	for i, one := range reader.Read(ctx, o.Now(), nil) {
		c := Cluster{Site: one, Source: reader.sites[i].source}
		c.Name = prefix + one.Name
		c.Source.Cluster = c.Name + "/"
		c.Away = c.Judge(o.Now(), o.Config.Board().ClockTolerance, 0)
		if c.State != board.Up {
			list = append(list, c)
			continue
		}

		id := cmp.Or(c.Summary.ID, c.Name)
		if seen[id] || len(seen) > board.MaxBoards {
			continue
		}
		seen[id] = true
		var behind []config.Site
		deeper := c.Summary.Others.Depth > 0 && strings.Count(c.Source.Cluster, "/") < board.MaxDepth
		if deeper && wanted(&c.Summary.Others.Sums) {
			others, err := readFile(ctx, c.Source, data.SitesPath, data.ReadSites)
			if err != nil {
				c.Away = "of the clusters that it shows nothing is known: " + err.Error()
			}
			for _, other := range others {
				if other.URL != "" {
					behind = append(behind, config.Site{Name: other.Name, Place: other.URL})
				}
			}
		}
		more, err := clusters(ctx, o, c.Source.Cluster, behind, wanted, seen)
		if err != nil {
			return nil, err
		}
		list = append(append(list, c), more...)
	}
	return list, nil
}

// OpenCluster is [Open] for hosts of which some may be of another cluster, as NAME/gpu01; NAME/ is all of it. It
// returns what they are called there. The cluster is one of sites, or one that the site here shows, and so on.
func OpenCluster(ctx context.Context, o Options, from string, hosts []string) (s *Source, there []string, err error) {
	cluster := ""
	for i, host := range hosts {
		of, rest := CutCluster(host)
		if i > 0 && of != cluster {
			return nil, nil, failure.Usage("type a command for each", "%s and %s are of different clusters", hosts[0],
				host)
		}
		if cluster = of; of == "" || rest != "" {
			there = append(there, rest)
		}
	}
	sites := o.Config.Sites()
	for name := range strings.SplitSeq(strings.TrimSuffix(cluster, "/"), "/") {
		if cluster == "" {
			break
		}
		if from, err = placeOf(ctx, o, from, sites, name); err != nil {
			return nil, nil, err
		}
		sites = nil
	}
	if s, err = Open(o, from); err == nil {
		s.Cluster = cluster
	}
	return s, there, err
}

// CutCluster splits north/gpu01:0 behind its last cluster: north/. What only looks like a path is of none.
func CutCluster(host string) (cluster, there string) {
	for there = host; ; {
		name, rest, more := strings.Cut(there, "/")
		if _, err := snapshot.ParseHost(name); !more || err != nil {
			return cluster, there
		}
		cluster, there = cluster+name+"/", rest
	}
}

// Elsewhere reports whether a host is of another cluster.
func Elsewhere(host string) bool {
	cluster, _ := CutCluster(host)
	return cluster != ""
}

// placeOf is where the site of a cluster is: one of sites, or one that the site at from shows.
func placeOf(ctx context.Context, o Options, from string, sites []config.Site, name string) (string, error) {
	var known []string
	for _, c := range sites {
		if known = append(known, c.Name); c.Name == name {
			return c.Place, nil
		}
	}
	if s, err := Open(o, from); err == nil {
		for _, c := range s.Others(ctx) {
			if c.URL == "" {
				continue // it is shown, and cannot be found
			}
			if known = append(known, c.Name); c.Name == name {
				return c.URL, nil
			}
		}
	}
	return "", failure.Usage("sites: in gpuboard.yml names clusters", "there is no cluster %s%s", name,
		spelling.DidYouMean(name, known))
}
