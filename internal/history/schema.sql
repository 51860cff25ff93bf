-- The history of gpuboard. Times are UTC: *_at in milliseconds since 1970, hour
-- and day in hours and days since 1970. Look, do not write:
--   sqlite3 -readonly history.db 'select * from usage_by_user limit 10'

create table meta (
  key   text primary key,
  value integer not null
) without rowid;

-- One row per host that ever sent samples. marks says which samples are known
-- (boot, ranges of sequence numbers); flushed is the last row of the journal
-- whose samples of this host are in chunk and day.
create table host (
  id      integer primary key,
  name    text not null unique,
  flushed integer not null default 0,
  last_at integer not null default 0,
  marks   blob
);

-- What the numbers inside the blobs stand for: kind is 'gpu' (UUID or index:N) or 'user'.
create table name (
  host_id integer not null,
  kind    text not null,
  id      integer not null,
  text    text not null,
  primary key (host_id, kind, id)
) without rowid;

-- What came in, one row a tick for all hosts; deleted when it is in chunk.
create table journal (
  id      integer primary key autoincrement,
  at      integer not null,
  entries blob not null
);

-- All samples of one host in one hour, column by column, compressed.
-- id = hour * 1048576 + host_id
create table chunk (
  id      integer primary key,
  samples integer not null,
  data    blob not null
);

-- The roll-ups of one host on one UTC day, compressed: five in 288 buckets of
-- five minutes (null when too old), hours in 24.
-- id = day * 1048576 + host_id
create table day (
  id    integer primary key,
  five  blob,
  hours blob not null
);

-- The same per day, for people and for long sums. Seconds are seconds that
-- samples vouch for: a day has 86400, and what is missing is not known. A MIG device has
-- a row beside that of its GPU: sums leave out gpu like 'MIG-%'.
create table gpu_day (
  day       integer not null,
  host_id   integer not null,
  gpu       text not null,
  samples   integer not null,
  known_s   integer not null,
  util_pct_s   integer not null, -- utilization x seconds
  util_known_s integer not null,
  util_max     integer not null,
  mem_mib_s    integer not null, -- memory used x seconds
  mem_known_s  integer not null,
  temp_max     integer not null,
  energy_j     integer not null,
  power_known_s integer not null,
  proc_known_s integer not null, -- seconds in which the processes were known
  held_s    integer not null,    -- of these: somebody held memory
  idle_s    integer not null,    -- of these: and the GPU did nothing
  primary key (day, host_id, gpu)
) without rowid;

create table user_day (
  day       integer not null,
  host_id   integer not null,
  user      text not null,
  held_ds   integer not null, -- tenths of GPU-seconds, by share of memory
  util_pct_s integer not null,
  idle_ds   integer not null,
  mem_mib_s integer not null,
  energy_j  integer not null,
  primary key (day, host_id, user)
) without rowid;

create view usage_by_gpu as
  select date(d.day * 86400, 'unixepoch') as utc_day, h.name as host, d.gpu as gpu,
    round(d.known_s / 864.0, 1) as coverage_percent,
    round(1.0 * d.util_pct_s / nullif(d.util_known_s, 0), 1) as mean_utilization_percent,
    round(1.0 * d.mem_mib_s / nullif(d.mem_known_s, 0)) as mean_memory_mib,
    round(d.energy_j / 3600000.0, 3) as energy_kwh,
    round(d.held_s / 3600.0, 2) as held_hours,
    round(d.idle_s / 3600.0, 2) as idle_held_hours
  from gpu_day d join host h on h.id = d.host_id;

create view usage_by_user as
  select date(d.day * 86400, 'unixepoch') as utc_day, d.user as user, h.name as host,
    round(d.held_ds / 36000.0, 3) as gpu_hours,
    round(10.0 * d.util_pct_s / nullif(d.held_ds, 0), 1) as mean_utilization_percent,
    round(d.idle_ds / 36000.0, 3) as idle_held_hours,
    round(d.energy_j / 3600000.0, 3) as energy_kwh
  from user_day d join host h on h.id = d.host_id;

create view chunks as
  select c.id & 1048575 as host_id, h.name as host,
    datetime((c.id >> 20) * 3600, 'unixepoch') as utc_hour, c.samples as samples, length(c.data) as bytes
  from chunk c join host h on h.id = c.id & 1048575;
