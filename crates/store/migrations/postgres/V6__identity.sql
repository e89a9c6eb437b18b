-- Who made a job. What was made before there were owners belongs to the user admin.
ALTER TABLE jobs ADD COLUMN owner_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000002';
ALTER TABLE jobs ALTER COLUMN owner_id DROP DEFAULT;

-- Tenants (1), users (2), roles (3) and keys (4).
CREATE TABLE identities (
    id uuid PRIMARY KEY,
    kind smallint NOT NULL,
    -- A tenant belongs to the cluster, which is a zero id.
    tenant_id uuid NOT NULL,
    name text NOT NULL COLLATE "C",
    -- The user of a key.
    owner_id uuid,
    expires_at bigint,
    body text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE UNIQUE INDEX identities_name ON identities (tenant_id, kind, name);
CREATE INDEX identities_owner ON identities (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX identities_expires ON identities (expires_at) WHERE expires_at IS NOT NULL;

-- What users and roles were given: a privilege, or all that a role has.
CREATE TABLE awards (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    to_id uuid NOT NULL,
    role_id uuid,
    privilege text,
    CHECK ((role_id IS NULL) <> (privilege IS NULL))
);

CREATE INDEX awards_tenant ON awards (tenant_id, id);
CREATE INDEX awards_to ON awards (to_id);
CREATE INDEX awards_role ON awards (role_id) WHERE role_id IS NOT NULL;

-- What the store itself must know of a tenant.
CREATE TABLE quotas (
    tenant_id uuid PRIMARY KEY,
    max_jobs bigint,
    max_concurrent bigint
);

-- Grows with every change of identity: who remembers something looks here whether it still holds.
-- Whoever changes identity holds the row until commit, so that changes come one after the other.
CREATE TABLE identity_generation (
    one smallint PRIMARY KEY CHECK (one = 1),
    generation bigint NOT NULL
);

INSERT INTO identity_generation (one, generation) VALUES (1, 0);
