-- Things with a name: databases of SQL jobs, channels for alerts.
CREATE TABLE objects (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL COLLATE "C",
    -- What it says, as JSON.
    body text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);

CREATE UNIQUE INDEX objects_name ON objects (tenant_id, kind, name);
CREATE INDEX objects_kind ON objects (kind, id);

-- When a delivery was first and last tried.
ALTER TABLE deliveries ADD COLUMN begun_at bigint NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN tried_at bigint NOT NULL DEFAULT 0;
UPDATE deliveries SET begun_at = coalesce(delivered_at, next_try_at, 0), tried_at = coalesce(delivered_at, next_try_at, 0);

CREATE INDEX deliveries_begun ON deliveries (channel, begun_at, alert_id);
