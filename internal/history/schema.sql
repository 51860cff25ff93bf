-- The history of gpuboard. Times are UTC: *_at and closed in milliseconds since 1970,
-- hour and day in hours and days since 1970.

create table meta (
  key   text primary key,
  value integer not null
) without rowid;

-- One row per host that ever sent samples. boot is the one that is going on, and
-- closed the time up to which its fives are in hour. open is its samples since then,
-- as JSON, where a sender does not send them again; else null.
create table host (
  id      integer primary key,
  name    text not null unique,
  last_at integer not null default 0,
  boot    integer not null default 0,
  closed  integer not null default 0,
  open    blob
);

-- What the numbers inside the blobs stand for: kind is 'gpu' (UUID or index:N) or 'user'.
create table name (
  host_id integer not null,
  kind    text not null,
  id      integer not null,
  text    text not null,
  primary key (host_id, kind, id)
) without rowid;

-- The fives (buckets of five minutes) of one host in one hour, by boot, compressed.
-- They are kept for three days. id = hour * 1048576 + host_id
create table hour (
  id   integer primary key,
  data blob not null
);

-- The hours of one host on one UTC day, compressed: the sums of the fives. total is
-- the sum of the hours, for which a chart of a year need not read them. id = day * 1048576 + host_id
create table day (
  id    integer primary key,
  total blob not null,
  hours blob not null
);

-- Sums of the fleet between two instants that do not change any more, as JSON, compressed.
create table fleet (
  start integer not null,
  stop  integer not null,
  data  blob not null,
  primary key (start, stop)
);
