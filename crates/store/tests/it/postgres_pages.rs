//! A page costs the same however long history is, whatever the planner knows about the values.

use tokio_postgres::SimpleQueryMessage;

use crate::bench::Bench;
use crate::postgres_bench::PostgresBench;

/// A hundred thousand completed runs of one tenant and ten jobs, every seventh of them late, and
/// four dead letters.
const HISTORY: &str = "
    INSERT INTO history (
        id, job_id, tenant_id, scheduled_for, due_at, finished_at, job_version, coalesced, attempts, lost,
        origin, outcome, dead_letter, shard, started_at, created_at
    )
    SELECT
        (lpad(to_hex(i), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'))::uuid,
        lpad((i % 10)::text, 32, '0')::uuid, lpad('1', 32, '0')::uuid, i, i, i, 1, 0, 1, 0,
        1, CASE WHEN i % 25000 = 7 THEN 2 ELSE 1 END, i % 25000 = 7, '',
        CASE WHEN i % 7 = 0 THEN i + 70000000 ELSE i END, i
    FROM generate_series(0, 99999) AS i;
    ANALYZE history;
    SET plan_cache_mode = force_generic_plan;";

/// More blocks than any page needs, and far fewer than history has.
const BLOCKS_MAX: u64 = 250;

/// How many blocks a statement looks at.
async fn blocks(client: &tokio_postgres::Client, sql: &str, types: &str, values: &str) -> u64 {
    let statement = format!(
        "DEALLOCATE ALL; PREPARE page ({types}) AS {sql};
         EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE page ({values})"
    );
    let answer = client.simple_query(&statement).await.unwrap();
    let lines: Vec<String> = answer
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect();
    let buffers = lines.iter().find(|line| line.contains("Buffers: shared"));
    let buffers = buffers.unwrap_or_else(|| panic!("no buffers: {lines:#?}"));
    let number =
        |part: &str| part.split_once('=').and_then(|(_, number)| number.parse::<u64>().ok());
    let looked = |part: &&str| part.starts_with("hit=") || part.starts_with("read=");
    buffers.split_whitespace().filter(looked).filter_map(number).sum()
}

#[tokio::test]
async fn a_page_looks_at_few_blocks() {
    let bench = PostgresBench::open().await;
    drop(bench.handle().await);
    let client = bench.connect().await;
    client.batch_execute("SET search_path = punctual").await.unwrap();
    client.batch_execute(HISTORY).await.unwrap();
    let (tenant, nil, last) = (format!("{:0>32}", 1), "0".repeat(32), "f".repeat(32));
    let middle = format!("{:012x}{}", 50_000, "0".repeat(20));
    let lists = [
        ("of tenant", include_str!("../../sql/postgres/list_of_tenant.sql"), tenant.as_str()),
        ("of job", include_str!("../../sql/postgres/list_of_job.sql"), &format!("{:0>32}", 3)),
        // A scan that does not stop at the end of this job's entries reads all the others.
        ("of nobody", include_str!("../../sql/postgres/list_of_job.sql"), &last),
    ];
    let types = "uuid, uuid, uuid, bigint, smallint[], smallint, bigint, smallint[]";
    for (name, sql, of) in lists {
        for before in [&last, &middle, &nil] {
            let values = format!(
                "'{of}', '{nil}', '{before}', 11, '{{0,1,2}}', NULL, 11, '{{1,2,3,4,5,6}}'"
            );
            let looked = blocks(&client, sql, types, &values).await;
            assert!(looked <= BLOCKS_MAX, "{name} before {before}: {looked} blocks");
        }
    }
    let dead = include_str!("../../sql/postgres/list_dead.sql");
    let values = format!("'{tenant}', '{last}', 11");
    let looked = blocks(&client, dead, "uuid, uuid, bigint", &values).await;
    assert!(looked <= BLOCKS_MAX, "dead letters: {looked} blocks");
    let ended = include_str!("../../sql/postgres/ended_after.sql");
    let values = format!("50000, '{nil}', 99999, 11");
    let looked = blocks(&client, ended, "bigint, uuid, bigint, bigint", &values).await;
    assert!(looked <= BLOCKS_MAX, "ended: {looked} blocks");
    // The ten latest starts, with and without late ones among them.
    let types = "uuid, bigint, uuid, bigint, smallint[], boolean, uuid, uuid";
    let job = format!("{:0>32}", 3);
    let late = include_str!("../../sql/postgres/start_late.sql");
    let by_id = include_str!("../../sql/postgres/start_by_id.sql");
    let latest = include_str!("../../sql/postgres/start_latest.sql");
    let from = format!("{:012x}{}", 99_000, "0".repeat(20));
    for (name, sql, ids) in [
        ("late", late, String::new()),
        ("by id", by_id, format!(", '{nil}', '{last}'")),
        ("latest", latest, format!(", '{from}', '{last}'")),
    ] {
        for before in [i64::MAX, 70_050_000, 90_000] {
            let types = types.split(", ").take(if ids.is_empty() { 6 } else { 8 });
            let types = types.collect::<Vec<_>>().join(", ");
            let values = format!("'{job}', {before}, '{last}', 11, '{{1,2,3,4,5,6}}', false{ids}");
            let looked = blocks(&client, sql, &types, &values).await;
            assert!(looked <= BLOCKS_MAX, "starts {name} before {before}: {looked} blocks");
        }
    }
    // The measure measures.
    let every = "SELECT count(*) FROM history WHERE id > $1";
    let all = blocks(&client, every, "uuid", &format!("'{nil}'")).await;
    assert!(all > 4 * BLOCKS_MAX, "{all} blocks");
    bench.close().await;
}

/// A hundred thousand jobs whose time has not come, and two thousand that are due, of all buckets.
const JOBS: &str = "
    INSERT INTO jobs (
        id, tenant_id, name, version, state, after_dependencies, own_retention, definition, next_run, created_at,
        updated_at, owner_id
    )
    SELECT
        lpad(to_hex(i), 32, '0')::uuid, lpad('1', 32, '0')::uuid, 'job ' || i, 1, 'ENABLED', false, false,
        '{}', CASE WHEN i <= 2000 THEN i ELSE clock() + 3600000000 + i END, 0, 0, lpad('1', 32, '0')::uuid
    FROM generate_series(1, 102000) AS i;
    ANALYZE jobs;
    SET plan_cache_mode = force_generic_plan;";

#[tokio::test]
async fn due_jobs_of_some_buckets_are_found_among_those_that_are_due() {
    let bench = PostgresBench::open().await;
    drop(bench.handle().await);
    let client = bench.connect().await;
    client.batch_execute("SET search_path = punctual").await.unwrap();
    client.batch_execute(JOBS).await.unwrap();
    let due = include_str!("../../sql/postgres/job_due.sql");
    let look = async |limit: u32, buckets: &str| {
        blocks(&client, due, "bigint, bigint, bytea", &format!("60000000, {limit}, {buckets}"))
            .await
    };
    let (some, none) = (format!("'\\x{}'", "11".repeat(32)), format!("'\\x{}'", "00".repeat(32)));
    let all_due = look(10_000, "NULL").await;
    for (name, limit, buckets) in
        [("a quarter", 10_000, &some), ("a batch of a quarter", 100, &some), ("none", 100, &none)]
    {
        let looked = look(limit, buckets).await;
        assert!(looked <= all_due, "{name}: {looked} blocks, all that are due: {all_due}");
    }
    assert!(look(100, &some).await < look(10_000, &some).await / 2, "it stops when it has enough");
    // The measure measures.
    let every = blocks(&client, "SELECT count(*) FROM jobs WHERE version > $1", "int", "0").await;
    assert!(every > 4 * all_due, "{every} blocks, {all_due} for those that are due");
    bench.close().await;
}
