package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuboard/internal/booking"
	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/shell"
	"gpuboard/internal/source"
	"gpuboard/internal/watch"
	"gpuboard/sitegen/data"
	"gpuboard/sitegen/render"
	"gpuboard/sitegen/text"
)

func (a *app) usageCommand() *cobra.Command {
	var since, until, by, from string
	var asJSON, asCSV bool
	c := &cobra.Command{
		Use: "usage", Short: "show who used how many GPU hours", GroupID: groupUse, Args: cobra.NoArgs,
		SuggestFor: []string{"report", "accounting"},
		Long: "usage shows what people, teams or hosts used in whole days up to now: GPU hours held, mean\n" +
			"utilization while held, hours held but idle, energy and its cost. A site publishes the sums since\n" +
			"today, 7d, 30d and 1y. Other times are added up from the history on the web host, by the account\n" +
			"that generates: since a date, this month, or another number of days, with --until up to a day.\n" +
			"Only time for which there are samples is counted; coverage says how much of it there was.\n" + exitStatus,
		Example: "  gpuboard usage --since 7d\n  gpuboard usage --since 30d --by team --csv > usage.csv\n" +
			"  gpuboard usage --since 2026-10-01 --until 2026-10-31",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			switch {
			case asJSON && asCSV:
				return failure.Usage("", "--json and --csv: one of them")
			case !slices.Contains([]string{"person", "team", "host"}, by):
				return failure.Usage("gpuboard usage --by person", "--by: %q is none of person, team, host", by)
			}
			u, err := a.usage(c, cfg, since, until, by, from)
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				_, err = a.stdout.Write(u.JSON(by))
			case asCSV:
				_, err = a.stdout.Write(u.CSV(by))
			default:
				err = a.usageTable(cfg, u, by)
			}
			if err != nil {
				return fmt.Errorf("writing the usage: %w", err)
			}
			if by == "team" && len(u.Teams) == 0 {
				fmt.Fprintln(a.stderr,
					"gpuboard: there are no teams: a line of aliases.csv names one, such as @vision: ada, mira")
			}
			return nil
		}),
	}
	a.flags(c, append(sourceKeys(), "state", "no_history", "history.hourly", "idle_percent",
		"energy.price_per_kwh", "energy.currency", "energy.co2_grams_per_kwh")...)
	sourceFlag(c, &from)
	c.Flags().StringVar(&since, "since", "30d", "`TIME`: today, 7d, 30d, 1y, month or a date")
	c.Flags().StringVar(&until, "until", "", "the last `DAY` that counts (default: today)")
	c.Flags().StringVar(&by, "by", "person", "`WHAT` has a line: person, team or host")
	c.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	c.Flags().BoolVar(&asCSV, "csv", false, "print CSV for spreadsheets")
	completes(c, "by", "person", "team", "host")
	completes(c, "since", "today", "7d", "30d", "1y", "month")
	return c
}

// usage reads what a site published where that is enough, and else adds up the history of this machine.
func (a *app) usage(c *cobra.Command, cfg *config.Config, since, until, by, from string) (*data.Usage, error) {
	names := render.WindowNames()
	if slices.Contains(names[:], since) && until == "" {
		s, err := source.Open(a.source(cfg), from)
		if err != nil {
			return nil, err
		}
		u, err := s.Usage(c.Context(), since, by == "host")
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
	} else if from != "" {
		return nil, failure.Usage("gpuboard usage --since 30d --from "+shell.Quote(from),
			"a site publishes the sums since %s, and not others", strings.Join(names[:], ", "))
	}
	first, end, err := a.period(cfg, since, until)
	if err != nil {
		return nil, err
	}
	u, err := watch.Usage(c.Context(), cfg, first, end)
	if errors.Is(err, fs.ErrPermission) {
		return nil, failure.New(
			failure.ExitError,
			err,
			"as the account that generates, such as: sudo -u gpuboard gpuboard "+shell.Join(a.args...),
		)
	}
	return u, err
}

// period is from the first midnight that --since means to now, or to the end of the day of --until.
func (a *app) period(cfg *config.Config, since, until string) (first, end time.Time, err error) {
	now, zone := a.now().In(cfg.Zone()), cfg.Zone()
	y, m, d := now.Date()
	midnight := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, zone) }
	days := map[string]time.Time{"today": midnight(y, m, d), "yesterday": midnight(y, m, d-1)}
	length, notLength := booking.ParseDuration(since)
	switch {
	case !days[since].IsZero():
		first = days[since]
	case since == "month":
		first = midnight(y, m, 1)
	case since == "1y":
		first = midnight(y, m, d-364)
	case notLength == nil && length >= 24*time.Hour:
		first = midnight(y, m, d+1-int(length.Hours()/24))
	default:
		if first, _, err = booking.ParseMoment(since, now, zone); err != nil {
			return first, end, failure.Usage("for instance --since 7d, --since month or --since 2026-11-01",
				"--since: %w", err)
		}
	}
	end = now
	if last := days[until]; !last.IsZero() {
		end = last.AddDate(0, 0, 1)
	} else if until != "" {
		if day, _, dayErr := booking.ParseMoment(until, first, zone); dayErr == nil && day.Before(first) {
			return first, end, failure.Usage("", "--until: %s is before the first day, %s", until,
				first.Format("2006-01-02"))
		}
		if end, _, err = booking.ParseUntil(until, first, first, zone); err != nil {
			return first, end, failure.Usage("for instance --until 2026-10-31", "--until: %w", err)
		}
		if !end.Equal(midnight(end.In(zone).Date())) {
			return first, end, failure.Usage(
				"for instance --until 2026-10-31",
				"--until: whole days are added up, and %s is none", until,
			)
		}
	}
	if end.After(now) || end.IsZero() {
		end = now
	}
	if !first.Before(end) {
		hint := ""
		if before := first.AddDate(0, 0, -7); before.Before(now) {
			hint = "a day that is over is written as its date, such as --since " + before.Format("2006-01-02")
		}
		return first, end, failure.Usage(hint, "--since: %s is not over", since)
	}
	return first, end, nil
}

// usageTable prints the usage for people.
func (a *app) usageTable(cfg *config.Config, u *data.Usage, by string) error {
	day := func(t time.Time) string { return t.In(cfg.Zone()).Format("2006-01-02 15:04") }
	table := text.Table{Width: a.width(math.MaxInt), Gap: "  ", More: "…", Columns: []text.Column{
		{Title: strings.ToUpper(by), Least: 12}, {Title: "GPU HOURS", Right: true}, {Title: "UTIL.", Right: true},
		{Title: "IDLE HOURS", Right: true}, {Title: "KWH", Right: true},
		{Title: strings.TrimSpace("COST " + failure.Printable(u.Energy.Currency)), Right: true},
	}}
	number := func(v *float64, unit string, digits int) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'f', digits, 64) + unit
	}
	var rows [][]string
	for _, one := range u.By(by) {
		name := one.Name
		if name == "" {
			name = "(unknown)"
		}
		cost, _ := u.Energy.Of(one.EnergyKWh)
		rows = append(rows,
			[]string{failure.Printable(name), number(&one.GPUHours, "", 1), number(one.Utilization, " %", 0),
				number(&one.IdleHours, "", 1), number(&one.EnergyKWh, "", 1), number(cost, "", 2)})
	}
	table.Fit(rows)
	out := fmt.Sprintf("%s to %s, data coverage %.0f %%\n%s\n", day(u.From), day(u.To), 100*u.Coverage, table.Titles())
	for _, row := range rows {
		out += table.Line("", row...) + "\n"
	}
	_, err := fmt.Fprint(a.stdout, out)
	return err
}
