-- The history of gpuboard. Times are UTC: *_at in milliseconds since 1970, hour
-- and day in hours and days since 1970.

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
