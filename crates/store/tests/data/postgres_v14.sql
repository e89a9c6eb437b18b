CREATE SCHEMA punctual;
CREATE FUNCTION punctual.clock() RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint $$;
CREATE FUNCTION punctual.forget_ended(sent uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    ended uuid[];
BEGIN
    SELECT array_agg(h.id) INTO ended
    FROM unnest(sent) AS u (id), history h
    WHERE h.id BETWEEN u.id AND u.id AND h.outcome > 0;
    IF ended IS NOT NULL THEN
        DELETE FROM runs WHERE id = ANY (ended);
    END IF;
    RETURN ended;
END $$;
CREATE FUNCTION punctual.lives(lock bigint, node uuid) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    RETURN EXISTS (SELECT 1 FROM nodes WHERE id = node AND NOT buried);
END $$;
CREATE TABLE punctual.acknowledgements (
    run_id uuid NOT NULL,
    epoch bigint NOT NULL,
    node_id uuid NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE punctual.alerts (
    id uuid NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    run_id uuid,
    text text NOT NULL,
    settled boolean NOT NULL
);
CREATE TABLE punctual.attempts (
    run_id uuid NOT NULL,
    number integer NOT NULL,
    fence bigint NOT NULL,
    node_id uuid NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    attempt_end smallint NOT NULL,
    message text,
    error text,
    details text
);
CREATE TABLE punctual.audit (
    place bigint NOT NULL,
    tenant_id uuid NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    job_id uuid,
    run_id uuid,
    node_id uuid,
    outcome text NOT NULL,
    details text NOT NULL,
    runs bytea NOT NULL,
    number bigint,
    hash bytea
)
WITH (fillfactor='80');
ALTER TABLE ONLY punctual.audit ALTER COLUMN runs SET STORAGE EXTERNAL;
CREATE TABLE punctual.audit_chains (
    tenant_id uuid NOT NULL,
    anchor_number bigint NOT NULL,
    anchor_hash bytea NOT NULL,
    head_number bigint NOT NULL,
    head_hash bytea NOT NULL
);
ALTER TABLE punctual.audit ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME punctual.audit_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE punctual.awards (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    to_id uuid NOT NULL,
    role_id uuid,
    privilege text,
    CONSTRAINT awards_check CHECK (((role_id IS NULL) <> (privilege IS NULL)))
);
CREATE TABLE punctual.claims (
    id bigint NOT NULL,
    node_id uuid NOT NULL,
    claimed_at bigint NOT NULL,
    run_ids uuid[] NOT NULL,
    turns integer[] NOT NULL,
    whole boolean DEFAULT true NOT NULL,
    due_until bigint DEFAULT '9223372036854775807'::bigint NOT NULL
)
WITH (vacuum_truncate=off, autovacuum_vacuum_threshold='1000', autovacuum_vacuum_scale_factor='0', toast.vacuum_truncate=off, toast.autovacuum_vacuum_threshold='10000', toast.autovacuum_vacuum_scale_factor='0');
ALTER TABLE ONLY punctual.claims ALTER COLUMN run_ids SET STORAGE EXTERNAL;
CREATE TABLE punctual.compatibility (
    one smallint NOT NULL,
    needs integer NOT NULL,
    CONSTRAINT compatibility_one_check CHECK ((one = 1))
);
CREATE TABLE punctual.dead_letter_notices (
    tenant_id uuid NOT NULL,
    told_at bigint NOT NULL
);
CREATE TABLE punctual.deliveries (
    channel text NOT NULL,
    alert_id uuid NOT NULL,
    tries integer NOT NULL,
    next_try_at bigint,
    delivered_at bigint,
    error text,
    begun_at bigint DEFAULT 0 NOT NULL,
    tried_at bigint DEFAULT 0 NOT NULL
);
CREATE TABLE punctual.gate (
    one smallint NOT NULL,
    fence bigint NOT NULL,
    front_tenant uuid,
    front_priority smallint,
    front_due_at bigint,
    front_looks integer DEFAULT 0 NOT NULL,
    vacuum_fence bigint DEFAULT 0 NOT NULL,
    CONSTRAINT gate_one_check CHECK ((one = 1))
)
WITH (fillfactor='10', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_scale_factor='0');
CREATE TABLE punctual.history (
    id uuid NOT NULL,
    job_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    node_id uuid,
    scheduled_for bigint NOT NULL,
    due_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    started_at bigint,
    fence bigint,
    rows_affected bigint,
    scheduled_last bigint,
    count bigint,
    job_version integer NOT NULL,
    coalesced integer NOT NULL,
    attempts integer NOT NULL,
    lost integer NOT NULL,
    number integer,
    attempt_end smallint,
    origin smallint NOT NULL,
    outcome smallint NOT NULL,
    dead_letter boolean NOT NULL,
    shard text NOT NULL,
    parameters text,
    reason text,
    reason_text text,
    message text,
    error text,
    result text,
    details text
);
CREATE TABLE punctual.identities (
    id uuid NOT NULL,
    kind smallint NOT NULL,
    tenant_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    owner_id uuid,
    expires_at bigint,
    body text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE punctual.identity_generation (
    one smallint NOT NULL,
    generation bigint NOT NULL,
    salt bytea,
    CONSTRAINT identity_generation_one_check CHECK ((one = 1))
);
CREATE TABLE punctual.job_tags (
    tenant_id uuid NOT NULL,
    tag text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    job_id uuid NOT NULL
);
CREATE TABLE punctual.jobs (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    state text NOT NULL,
    after_dependencies boolean NOT NULL,
    own_retention boolean NOT NULL,
    definition text NOT NULL,
    next_run bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    changed_fence bigint,
    owner_id uuid NOT NULL
);
CREATE TABLE punctual.last_ends (
    job_id uuid NOT NULL,
    outcome smallint NOT NULL,
    finished_at bigint NOT NULL,
    succeeded_at bigint,
    fence bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE punctual.nodes (
    id uuid NOT NULL,
    name text NOT NULL,
    joined_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    buried boolean NOT NULL,
    address text,
    version text DEFAULT ''::text NOT NULL,
    roles text[] DEFAULT '{}'::text[] NOT NULL,
    renewed_at bigint DEFAULT 0 NOT NULL,
    labels text[] DEFAULT '{}'::text[] NOT NULL,
    capacity integer DEFAULT 0 NOT NULL,
    settings_hash text DEFAULT ''::text NOT NULL,
    draining boolean DEFAULT false NOT NULL,
    cleared boolean DEFAULT false NOT NULL,
    gone_at bigint
)
WITH (fillfactor='50');
CREATE TABLE punctual.objects (
    id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    body text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);
CREATE TABLE punctual.parts (
    parent_id uuid NOT NULL,
    number integer NOT NULL,
    run_id uuid NOT NULL,
    shard text NOT NULL
);
CREATE TABLE punctual.quotas (
    tenant_id uuid NOT NULL,
    max_jobs bigint,
    max_concurrent bigint
);
CREATE TABLE punctual.refinery_schema_history (
    version integer NOT NULL,
    name character varying(255),
    applied_on character varying(255),
    checksum character varying(255)
);
CREATE TABLE punctual.requests (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    begun_at bigint NOT NULL,
    status smallint,
    head text,
    body bytea
);
CREATE TABLE punctual.roles (
    name text NOT NULL,
    epoch bigint NOT NULL,
    node_id uuid,
    since bigint NOT NULL
);
CREATE TABLE punctual.runs (
    id uuid NOT NULL,
    job_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    scheduled_for bigint NOT NULL,
    due_at bigint NOT NULL,
    order_at bigint NOT NULL,
    wait_until bigint,
    job_version integer NOT NULL,
    coalesced integer NOT NULL,
    attempts integer NOT NULL,
    lost integer NOT NULL,
    turn integer NOT NULL,
    priority smallint NOT NULL,
    origin smallint NOT NULL,
    wait smallint NOT NULL,
    ignore_dependencies boolean NOT NULL,
    shard text NOT NULL,
    parameters text,
    cancel_code text,
    cancel_text text,
    place text[]
)
WITH (vacuum_truncate=off, autovacuum_vacuum_threshold='20000', autovacuum_vacuum_scale_factor='0.1', autovacuum_analyze_threshold='100000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE punctual.secrets (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    key_id text NOT NULL COLLATE pg_catalog."C",
    data_key bytea NOT NULL,
    value bytea NOT NULL,
    changed_at bigint NOT NULL,
    changed_by text NOT NULL
);
CREATE TABLE punctual.settings (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL,
    version integer NOT NULL,
    changed_at bigint NOT NULL
);
CREATE TABLE punctual.shard_owners (
    shard_id uuid NOT NULL,
    node_id uuid,
    fence bigint NOT NULL,
    epoch bigint NOT NULL,
    since bigint NOT NULL
);
CREATE TABLE punctual.tallies (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    hour bigint NOT NULL,
    measure smallint NOT NULL,
    class smallint NOT NULL,
    amount bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE punctual.tally_cursor (
    one smallint NOT NULL,
    finished_at bigint NOT NULL,
    id uuid NOT NULL,
    CONSTRAINT tally_cursor_one_check CHECK ((one = 1))
);
CREATE TABLE punctual.upstream (
    job_id uuid NOT NULL,
    depends_on uuid NOT NULL
);
INSERT INTO punctual.alerts VALUES ('eca5602a-e7bb-5bd2-9052-e80677584bca', 1794792850512851, 'RUN_MISSED', '00000000-0000-0000-0000-000000000001', '00000000-0000-000a-0000-000000000003', '01a1e1fc-99e2-7028-8000-000000000005', 'MISSED OVERLAP: another one runs', true);
INSERT INTO punctual.attempts VALUES ('01a1e1fc-99c6-7028-8000-000000000004', 1, 1, '00000000-0000-000a-0000-000000000001', 1794792789470294, 1794792791470294, 2, 'failed', 'EXIT_1', NULL);
INSERT INTO punctual.audit OVERRIDING SYSTEM VALUE VALUES (1, '00000000-0000-0000-0000-000000000001', 1794792850464545, 'punctual', 'JOB_CREATED', '00000000-0000-000a-0000-000000000002', NULL, NULL, 'DONE', '{"name":"upstream","state":"ENABLED","version":1}', '\x', NULL, NULL);
INSERT INTO punctual.audit OVERRIDING SYSTEM VALUE VALUES (2, '00000000-0000-0000-0000-000000000001', 1794792850469669, 'punctual', 'JOB_CREATED', '00000000-0000-000a-0000-000000000003', NULL, NULL, 'DONE', '{"name":"Bericht ✔","state":"ENABLED","version":1}', '\x', NULL, NULL);
INSERT INTO punctual.audit OVERRIDING SYSTEM VALUE VALUES (3, '00000000-0000-0000-0000-000000000001', 1794792850497228, '', 'RUNS_ENDED', NULL, NULL, '00000000-0000-000a-0000-000000000001', '', '', '\x01a1e1fc99c670288000000000000004000000000000000a00000000000000030001000000020006605ac63d3c09', NULL, NULL);
INSERT INTO punctual.audit OVERRIDING SYSTEM VALUE VALUES (4, '00000000-0000-0000-0000-000000000001', 1794792850512851, '', 'RUNS_ENDED', NULL, NULL, '00000000-0000-000a-0000-000000000001', '', '', '\x01a1e1fc99e270288000000000000005000000000000000a00000000000000030006000000000000000000000000', NULL, NULL);
INSERT INTO punctual.claims VALUES (40, '00000000-0000-000a-0000-000000000001', 1794792850532214, '{01a1e1fc-9a03-7028-8000-000000000007}', '{0}', true, 1794792790531032);
INSERT INTO punctual.compatibility VALUES (1, 9);
INSERT INTO punctual.gate VALUES (1, 50, NULL, NULL, NULL, 0, 0);
INSERT INTO punctual.history VALUES ('01a1e1fc-99c6-7028-8000-000000000004', '00000000-0000-000a-0000-000000000003', '00000000-0000-0000-0000-000000000001', '00000000-0000-000a-0000-000000000001', 1794792790470294, 1794792850488905, 1794792851488905, 1794792849488905, 11, NULL, NULL, NULL, 1, 0, 2, 0, 2, 1, 3, 1, false, '', NULL, NULL, NULL, 'completed', NULL, NULL, NULL);
INSERT INTO punctual.history VALUES ('01a1e1fc-99e2-7028-8000-000000000005', '00000000-0000-000a-0000-000000000003', '00000000-0000-0000-0000-000000000001', NULL, 1794792790498938, 1794792790498938, 1794792850512851, NULL, 21, NULL, NULL, NULL, 1, 0, 0, 0, NULL, NULL, 3, 6, false, '', NULL, 'OVERLAP', 'another one runs', NULL, NULL, NULL, NULL);
INSERT INTO punctual.identity_generation VALUES (1, 0, NULL);
INSERT INTO punctual.jobs VALUES ('00000000-0000-000a-0000-000000000002', '00000000-0000-0000-0000-000000000001', 'upstream', 1, 'ENABLED', false, false, '{"description":null,"when":{"kind":"MANUAL"},"action":{"type":"NOOP"},"run_as":null,"retry":{"max_attempts":4,"backoff":"PT1M","multiplier":2.0,"max_backoff":"PT1H","jitter":0.0,"retry_on":null,"no_retry_on":null},"timeout":"PT1H","grace_period":"PT10S","catch_up":"LAST","max_catch_up":100,"start_deadline":null,"overlap":"SKIP","concurrency":1,"jitter":"PT0S","priority":5,"on_completion":"PRESERVE","on_lost":"RETRY","depends_on":[],"dependency_timeout":null,"tags":[],"retention":{"days":null,"failed_days":null,"keep_last":null}}', NULL, 1794792850457690, 1794792850457690, NULL, '00000000-0000-0000-0000-000000000002');
INSERT INTO punctual.jobs VALUES ('00000000-0000-000a-0000-000000000003', '00000000-0000-0000-0000-000000000001', 'Bericht ✔', 1, 'ENABLED', false, false, '{"description":null,"when":{"kind":"MANUAL"},"action":{"type":"NOOP"},"run_as":null,"retry":{"max_attempts":4,"backoff":"PT1M","multiplier":2.0,"max_backoff":"PT1H","jitter":0.0,"retry_on":null,"no_retry_on":null},"timeout":"PT1H","grace_period":"PT10S","catch_up":"LAST","max_catch_up":100,"start_deadline":null,"overlap":"SKIP","concurrency":1,"jitter":"PT0S","priority":5,"on_completion":"PRESERVE","on_lost":"RETRY","depends_on":[{"job":"00000000-0000-000a-0000-000000000002","on":"SUCCESS"}],"dependency_timeout":null,"tags":[],"retention":{"days":null,"failed_days":null,"keep_last":null}}', NULL, 1794792850465627, 1794792850465627, NULL, '00000000-0000-0000-0000-000000000002');
INSERT INTO punctual.nodes VALUES ('00000000-0000-000a-0000-000000000001', 'node', 1794792850456227, 1794792849536766, false, NULL, '', '{SCHEDULER,AGENT}', 1794792850536766, '{}', 0, '', false, false, NULL);
INSERT INTO punctual.refinery_schema_history VALUES (1, 'schema', '2026-11-16T01:34:10.342438436Z', '3448902282498672509');
INSERT INTO punctual.refinery_schema_history VALUES (2, 'attempt_details', '2026-11-16T01:34:10.370576431Z', '12620970184022508035');
INSERT INTO punctual.refinery_schema_history VALUES (3, 'reading', '2026-11-16T01:34:10.371387163Z', '16905950737692312824');
INSERT INTO punctual.refinery_schema_history VALUES (4, 'objects', '2026-11-16T01:34:10.401334175Z', '12911105240035191849');
INSERT INTO punctual.refinery_schema_history VALUES (5, 'whole_claims', '2026-11-16T01:34:10.405415741Z', '3211439680476653648');
INSERT INTO punctual.refinery_schema_history VALUES (6, 'identity', '2026-11-16T01:34:10.406326259Z', '8518899935736413568');
INSERT INTO punctual.refinery_schema_history VALUES (7, 'safe', '2026-11-16T01:34:10.417561477Z', '7617445489849501553');
INSERT INTO punctual.refinery_schema_history VALUES (8, 'salt', '2026-11-16T01:34:10.424116619Z', '10278966946757110925');
INSERT INTO punctual.refinery_schema_history VALUES (9, 'cluster', '2026-11-16T01:34:10.425658759Z', '1877020624730455731');
INSERT INTO punctual.refinery_schema_history VALUES (10, 'compatibility', '2026-11-16T01:34:10.432260015Z', '16487112371190396375');
INSERT INTO punctual.refinery_schema_history VALUES (11, 'shards', '2026-11-16T01:34:10.43439903Z', '6911023521827798565');
INSERT INTO punctual.refinery_schema_history VALUES (12, 'late_starts', '2026-11-16T01:34:10.439713922Z', '14604797943229941102');
INSERT INTO punctual.refinery_schema_history VALUES (13, 'front', '2026-11-16T01:34:10.442692617Z', '8033471973434213985');
INSERT INTO punctual.refinery_schema_history VALUES (14, 'one_statement', '2026-11-16T01:34:10.444741388Z', '9562732822261299570');
INSERT INTO punctual.roles VALUES ('LEADER', 0, NULL, 0);
INSERT INTO punctual.runs VALUES ('01a1e1fc-99f7-7028-8000-000000000006', '00000000-0000-000a-0000-000000000003', '00000000-0000-0000-0000-000000000001', 1794792790519691, 1794792790519691, 1794792850520302, NULL, 1, 0, 0, 0, 1, 5, 3, 2, false, '', NULL, NULL, NULL, NULL);
INSERT INTO punctual.runs VALUES ('01a1e1fc-9a03-7028-8000-000000000007', '00000000-0000-000a-0000-000000000002', '00000000-0000-0000-0000-000000000001', 1794792790531032, 1794792790531032, 1794792850531370, NULL, 1, 0, 0, 0, 0, 5, 3, 0, false, '', NULL, NULL, NULL, NULL);
INSERT INTO punctual.runs VALUES ('01a1e1fc-9a05-7028-8000-000000000008', '00000000-0000-000a-0000-000000000002', '00000000-0000-0000-0000-000000000001', 1794792790533778, 1794792790533778, 1794792850534519, NULL, 1, 0, 0, 0, 0, 5, 3, 0, false, '', NULL, NULL, NULL, NULL);
INSERT INTO punctual.tally_cursor VALUES (1, 0, '00000000-0000-0000-0000-000000000000');
INSERT INTO punctual.upstream VALUES ('00000000-0000-000a-0000-000000000003', '00000000-0000-000a-0000-000000000002');
SELECT pg_catalog.setval('punctual.audit_place_seq', 4, true);
ALTER TABLE ONLY punctual.acknowledgements
    ADD CONSTRAINT acknowledgements_pkey PRIMARY KEY (run_id, epoch, node_id);
ALTER TABLE ONLY punctual.alerts
    ADD CONSTRAINT alerts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (run_id, number);
ALTER TABLE ONLY punctual.audit_chains
    ADD CONSTRAINT audit_chains_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY punctual.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (place);
ALTER TABLE ONLY punctual.awards
    ADD CONSTRAINT awards_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.claims
    ADD CONSTRAINT claims_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.compatibility
    ADD CONSTRAINT compatibility_pkey PRIMARY KEY (one);
ALTER TABLE ONLY punctual.dead_letter_notices
    ADD CONSTRAINT dead_letter_notices_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY punctual.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (channel, alert_id);
ALTER TABLE ONLY punctual.gate
    ADD CONSTRAINT gate_pkey PRIMARY KEY (one);
ALTER TABLE ONLY punctual.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.identities
    ADD CONSTRAINT identities_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.identity_generation
    ADD CONSTRAINT identity_generation_pkey PRIMARY KEY (one);
ALTER TABLE ONLY punctual.job_tags
    ADD CONSTRAINT job_tags_pkey PRIMARY KEY (tenant_id, tag, name);
ALTER TABLE ONLY punctual.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.last_ends
    ADD CONSTRAINT last_ends_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY punctual.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.parts
    ADD CONSTRAINT parts_pkey PRIMARY KEY (parent_id, number);
ALTER TABLE ONLY punctual.parts
    ADD CONSTRAINT parts_run_id_key UNIQUE (run_id);
ALTER TABLE ONLY punctual.quotas
    ADD CONSTRAINT quotas_pkey PRIMARY KEY (tenant_id);
ALTER TABLE ONLY punctual.refinery_schema_history
    ADD CONSTRAINT refinery_schema_history_pkey PRIMARY KEY (version);
ALTER TABLE ONLY punctual.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, key);
ALTER TABLE ONLY punctual.roles
    ADD CONSTRAINT roles_pkey PRIMARY KEY (name);
ALTER TABLE ONLY punctual.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY punctual.secrets
    ADD CONSTRAINT secrets_pkey PRIMARY KEY (tenant_id, job_id, name);
ALTER TABLE ONLY punctual.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (name);
ALTER TABLE ONLY punctual.shard_owners
    ADD CONSTRAINT shard_owners_pkey PRIMARY KEY (shard_id);
ALTER TABLE ONLY punctual.tallies
    ADD CONSTRAINT tallies_pkey PRIMARY KEY (tenant_id, job_id, hour, measure, class);
ALTER TABLE ONLY punctual.tally_cursor
    ADD CONSTRAINT tally_cursor_pkey PRIMARY KEY (one);
ALTER TABLE ONLY punctual.upstream
    ADD CONSTRAINT upstream_pkey PRIMARY KEY (job_id, depends_on);
CREATE INDEX alerts_at ON punctual.alerts USING btree (at);
CREATE INDEX alerts_unsettled ON punctual.alerts USING btree (job_id) WHERE (NOT settled);
CREATE UNIQUE INDEX audit_chain ON punctual.audit USING btree (tenant_id, number) WHERE (number IS NOT NULL);
CREATE INDEX audit_tenant ON punctual.audit USING btree (tenant_id, place);
CREATE INDEX audit_unsealed ON punctual.audit USING btree (place) WHERE (number IS NULL);
CREATE INDEX awards_role ON punctual.awards USING btree (role_id) WHERE (role_id IS NOT NULL);
CREATE INDEX awards_tenant ON punctual.awards USING btree (tenant_id, id);
CREATE INDEX awards_to ON punctual.awards USING btree (to_id);
CREATE INDEX deliveries_begun ON punctual.deliveries USING btree (channel, begun_at, alert_id);
CREATE INDEX history_dead ON punctual.history USING btree (tenant_id, id) WHERE dead_letter;
CREATE INDEX history_finished ON punctual.history USING btree (finished_at, id);
CREATE INDEX history_job ON punctual.history USING btree (job_id, id);
CREATE INDEX history_late ON punctual.history USING btree (uuid_send(job_id), COALESCE(started_at,
CASE
    WHEN ((attempts + lost) > 0) THEN finished_at
    ELSE NULL::bigint
END, '9223372036854775807'::bigint), id) WHERE (((started_at - scheduled_for) > 60000000) IS NOT FALSE);
CREATE INDEX history_tenant ON punctual.history USING btree (tenant_id, outcome, id, origin);
CREATE INDEX identities_expires ON punctual.identities USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE UNIQUE INDEX identities_name ON punctual.identities USING btree (tenant_id, kind, name);
CREATE INDEX identities_owner ON punctual.identities USING btree (owner_id) WHERE (owner_id IS NOT NULL);
CREATE INDEX job_tags_job ON punctual.job_tags USING btree (job_id);
CREATE INDEX jobs_due ON punctual.jobs USING btree (next_run) WHERE ((state = 'ENABLED'::text) AND (next_run IS NOT NULL));
CREATE UNIQUE INDEX jobs_name ON punctual.jobs USING btree (tenant_id, name) WHERE (state <> 'DELETED'::text);
CREATE INDEX jobs_own_retention ON punctual.jobs USING btree (id) WHERE own_retention;
CREATE INDEX jobs_updated ON punctual.jobs USING btree (updated_at, id);
CREATE INDEX objects_kind ON punctual.objects USING btree (kind, id);
CREATE UNIQUE INDEX objects_name ON punctual.objects USING btree (tenant_id, kind, name);
CREATE INDEX requests_begun ON punctual.requests USING btree (begun_at);
CREATE INDEX runs_cancelled ON punctual.runs USING btree (id) WHERE (cancel_code IS NOT NULL);
CREATE INDEX runs_job ON punctual.runs USING btree (job_id, order_at);
CREATE INDEX runs_lane ON punctual.runs USING btree (tenant_id, priority, due_at) WHERE ((wait = 0) AND (place IS NULL));
CREATE INDEX runs_place ON punctual.runs USING btree (place, tenant_id, priority, due_at) WHERE ((wait = 0) AND (place IS NOT NULL));
CREATE INDEX runs_quorum ON punctual.runs USING btree (id) WHERE (wait = 3);
CREATE INDEX runs_wait_until ON punctual.runs USING btree (wait_until) WHERE (wait_until IS NOT NULL);
CREATE INDEX runs_waiting ON punctual.runs USING btree (job_id, wait, order_at) WHERE (wait <> 0);
CREATE INDEX secrets_key ON punctual.secrets USING btree (key_id, tenant_id, job_id, name);
CREATE INDEX shard_owners_node ON punctual.shard_owners USING btree (node_id) WHERE (node_id IS NOT NULL);
CREATE INDEX tallies_hour ON punctual.tallies USING btree (hour);
CREATE INDEX upstream_depends_on ON punctual.upstream USING btree (depends_on);
