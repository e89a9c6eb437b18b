-- Things with a name: databases of SQL jobs, channels for alerts.
CREATE TABLE objects (
    id BLOB PRIMARY KEY,
    tenant_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    -- What it says, as JSON.
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX objects_name ON objects (tenant_id, kind, name);
CREATE INDEX objects_kind ON objects (kind, id);

-- When a delivery was first and last tried.
ALTER TABLE deliveries ADD COLUMN begun_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN tried_at INTEGER NOT NULL DEFAULT 0;
UPDATE deliveries SET begun_at = coalesce(delivered_at, next_try_at, 0), tried_at = coalesce(delivered_at, next_try_at, 0);

CREATE INDEX deliveries_begun ON deliveries (channel, begun_at, alert_id);
