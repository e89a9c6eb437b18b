-- Leases ready messages of a queue, under its lock: workspaces take turns, beginning with the one that was served last if it
-- got fewer messages than its weight, otherwise after it.
-- $1 the queue, $2 how many at most, $3 for how long, $4 the node, $5 the most leased ones of the queue, $6 of a workspace,
-- $7 the most per second, $8 and $9 workspaces and their weights, $10 the time limit if it begins with the lease.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock() AS now),
served AS MATERIALIZED (
    SELECT
        coalesce(c.workspace, '') AS workspace, coalesce(c.served, 0) AS served,
        -- Rest of the weight of the workspace that was served last.
        CASE WHEN c.served > 0 THEN greatest(t.weight - c.served, 0) ELSE 0 END AS carry,
        -- The first workspace in line: no name is between a name and the same name with this character.
        (coalesce(c.workspace, '') || CASE WHEN c.served > 0 AND t.weight > c.served THEN '' ELSE chr(1) END) COLLATE "C" AS start,
        -- The tokens of the rate limit, at most those of one second.
        CASE
            WHEN $7::double precision IS NULL THEN NULL
            ELSE least(
                coalesce(c.tokens, 'infinity'::double precision)
                    + (n.now - coalesce(c.refilled_at, n.now)) / 1e6 * $7::double precision,
                greatest($7::double precision, 1.0)
            )
        END AS tokens
    FROM clock n
    LEFT JOIN queue_cursors c ON c.queue_id = $1
    CROSS JOIN LATERAL (
        SELECT greatest(coalesce((
            SELECT w.weight FROM unnest($8::text[], $9::integer[]) AS w (workspace, weight) WHERE w.workspace = c.workspace LIMIT 1
        ), 1), 1) AS weight
    ) AS t
),
room AS MATERIALIZED (
    SELECT greatest(0, least(
        $2::bigint,
        CASE WHEN $5::bigint IS NOT NULL THEN $5::bigint - (
            SELECT count(*) FROM (SELECT 1 FROM messages WHERE queue_id = $1 AND state = 2 LIMIT $5::bigint) AS l
        ) END,
        floor((SELECT tokens FROM served))::bigint
    )) AS n
    FROM jobs
    WHERE id = $1 AND state = 'ENABLED'
),
-- Workspaces that have as many leased messages as they may are passed over and not counted.
later AS (
    SELECT w.workspace, w.free, (w.free > 0)::integer::bigint AS place
    FROM (
        SELECT m.workspace, CASE WHEN $6::bigint IS NULL THEN $2::bigint ELSE $6::bigint - (
            SELECT count(*) FROM (
                SELECT 1 FROM messages l WHERE l.queue_id = $1 AND l.workspace = m.workspace AND l.state = 2 LIMIT $6::bigint
            ) AS l
        ) END AS free
        FROM (
            SELECT workspace FROM messages
            WHERE queue_id = $1 AND state = 0 AND workspace >= (SELECT start FROM served) AND (SELECT n FROM room) > 0
            ORDER BY workspace LIMIT 1
        ) AS m
    ) AS w
    UNION ALL
    SELECT w.workspace, w.free, l.place + (w.free > 0)::integer
    FROM later l
    CROSS JOIN LATERAL (
        SELECT m.workspace, CASE WHEN $6::bigint IS NULL THEN $2::bigint ELSE $6::bigint - (
            SELECT count(*) FROM (
                SELECT 1 FROM messages l WHERE l.queue_id = $1 AND l.workspace = m.workspace AND l.state = 2 LIMIT $6::bigint
            ) AS l
        ) END AS free
        FROM (
            SELECT m.workspace FROM messages m
            WHERE m.queue_id = $1 AND m.state = 0 AND m.workspace > l.workspace
            ORDER BY m.workspace LIMIT 1
        ) AS m
    ) AS w
    WHERE l.place < (SELECT n FROM room)
),
passed AS MATERIALIZED (SELECT coalesce(max(place), 0) AS n FROM later),
-- From the first one up to the one that was served last.
earlier AS (
    SELECT w.workspace, w.free, (SELECT n FROM passed) + (w.free > 0)::integer AS place
    FROM (
        SELECT m.workspace, CASE WHEN $6::bigint IS NULL THEN $2::bigint ELSE $6::bigint - (
            SELECT count(*) FROM (
                SELECT 1 FROM messages l WHERE l.queue_id = $1 AND l.workspace = m.workspace AND l.state = 2 LIMIT $6::bigint
            ) AS l
        ) END AS free
        FROM (
            SELECT workspace FROM messages
            WHERE queue_id = $1 AND state = 0 AND workspace < (SELECT start FROM served)
                AND (SELECT n FROM passed) < (SELECT n FROM room)
            ORDER BY workspace LIMIT 1
        ) AS m
    ) AS w
    UNION ALL
    SELECT w.workspace, w.free, e.place + (w.free > 0)::integer
    FROM earlier e
    CROSS JOIN LATERAL (
        SELECT m.workspace, CASE WHEN $6::bigint IS NULL THEN $2::bigint ELSE $6::bigint - (
            SELECT count(*) FROM (
                SELECT 1 FROM messages l WHERE l.queue_id = $1 AND l.workspace = m.workspace AND l.state = 2 LIMIT $6::bigint
            ) AS l
        ) END AS free
        FROM (
            SELECT m.workspace FROM messages m
            WHERE m.queue_id = $1 AND m.state = 0 AND m.workspace > e.workspace
                AND m.workspace < (SELECT start FROM served)
            ORDER BY m.workspace LIMIT 1
        ) AS m
    ) AS w
    WHERE e.place < (SELECT n FROM room)
),
visited AS MATERIALIZED (
    SELECT v.workspace, v.place, v.free, greatest(coalesce(w.weight, 1), 1) AS weight
    FROM (SELECT * FROM later UNION ALL SELECT * FROM earlier) AS v
    LEFT JOIN unnest($8::text[], $9::integer[]) AS w (workspace, weight) ON w.workspace = v.workspace
    WHERE v.free > 0
),
-- Twice the even share of each, so that a lease is filled although some workspaces have little.
share AS MATERIALIZED (
    SELECT greatest(1, least(r.n, 2 * ((r.n + c.n - 1) / greatest(c.n, 1)))) AS n, r.n AS room
    FROM room r CROSS JOIN (SELECT count(*) AS n FROM visited) AS c
),
chosen AS MATERIALIZED (
    SELECT m.run_id, m.workspace, r.round, row_number() OVER (ORDER BY r.round, v.place, m.nth) AS nth
    FROM visited v
    CROSS JOIN share s
    CROSS JOIN served t
    CROSS JOIN LATERAL (
        SELECT f.run_id, f.workspace, row_number() OVER (ORDER BY f.urgency, f.at, f.order_at, f.run_id) AS nth
        FROM (
            SELECT m.run_id, m.workspace, m.urgency, m.at, m.order_at FROM messages m
            WHERE m.queue_id = $1 AND m.workspace = v.workspace AND m.state = 0
                AND (m.expires_at IS NULL OR m.expires_at > (SELECT now FROM clock))
            ORDER BY m.urgency, m.at
            LIMIT least(s.n * v.weight, s.room, v.free)
        ) AS f
    ) AS m
    -- A turn that goes on has begun with the messages that the workspace got before.
    CROSS JOIN LATERAL (
        SELECT (m.nth - 1 + CASE WHEN t.carry > 0 AND v.workspace = t.workspace THEN v.weight - t.carry ELSE 0 END)
            / v.weight AS round
    ) AS r
    ORDER BY nth
    LIMIT (SELECT n FROM room)
),
leased AS (
    UPDATE messages m
    SET
        state = 2, at = (SELECT now FROM clock) + least($3::bigint, $10::bigint), leased_at = (SELECT now FROM clock), node_id = $4,
        deadline = (SELECT now FROM clock) + $10::bigint,
        fence = nextval('start_tokens'), expires_at = NULL -- the time to live was for the first lease
    FROM chosen c
    -- By the primary key: no index of states is of use here.
    WHERE m.run_id BETWEEN c.run_id AND c.run_id AND m.state + 0 = 0
    RETURNING m.run_id, m.fence, m.workspace, m.urgency, m.at, c.round, c.nth
),
last AS MATERIALIZED (SELECT l.workspace, l.round FROM leased l ORDER BY l.nth DESC LIMIT 1),
moved AS (
    INSERT INTO queue_cursors (queue_id, workspace, served, tokens, refilled_at)
    SELECT
        $1, coalesce(l.workspace, c.workspace),
        CASE
            WHEN l.workspace IS NULL THEN c.served
            ELSE (SELECT count(*) FROM leased o WHERE o.workspace = l.workspace AND o.round = l.round)
                + CASE WHEN c.carry > 0 AND l.workspace = c.workspace AND l.round = 0 THEN c.served ELSE 0 END
        END,
        coalesce(c.tokens - (SELECT count(*) FROM leased), 'infinity'::double precision), (SELECT now FROM clock)
    FROM served c
    LEFT JOIN last l ON true
    WHERE $7::double precision IS NOT NULL OR EXISTS (SELECT 1 FROM leased)
    ON CONFLICT (queue_id) DO UPDATE
    SET workspace = excluded.workspace, served = excluded.served, tokens = excluded.tokens, refilled_at = excluded.refilled_at
)
SELECT
    l.run_id, l.fence, l.workspace, r.parameters, (9 - l.urgency)::smallint AS priority, r.attempts + r.lost + 1 AS attempt,
    r.scheduled_for, l.at, r.created_at
FROM leased l
JOIN runs r ON r.id BETWEEN l.run_id AND l.run_id
ORDER BY l.nth
