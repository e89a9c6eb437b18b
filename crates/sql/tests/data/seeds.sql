@ S0 line 235
CREATE JOB sweep_tables
  CLASS = LOCAL_SAFE
  PARTITION BY ALL_SHARDS
  SCHEDULE = '0 2 * * *'  -- Daily at 2 AM
  AS 'SWEEP ANALYZE';             -- Native sweep/GC command (VACUUM alias available)

@ S0 line 259
CREATE JOB cluster_health_check
  CLASS = LEADER_ONLY
  SCHEDULE = '*/5 * * * *'  -- Every 5 minutes
  AS 'SELECT check_cluster_health()';

@ S0 line 281
CREATE JOB monthly_compliance_report
  CLASS = QUORUM_REQUIRED
  SCHEDULE = '0 0 1 * *'  -- First day of month at midnight
  AS 'CALL generate_compliance_report()';

@ S0 line 511
CREATE JOB analyze_all_tables
  CLASS = LOCAL_SAFE
  PARTITION BY ALL_SHARDS
  SCHEDULE = '0 3 * * *'
  AS 'ANALYZE TABLES';

@ S0 line 528
CREATE JOB rebuild_shard_001_indexes
  CLASS = LOCAL_SAFE
  PARTITION BY SHARD 'shard_001'
  SCHEDULE = '0 4 * * 0'  -- Weekly on Sunday
  AS 'REINDEX DATABASE';

@ S0 line 544
CREATE JOB process_customer_orders
  CLASS = LOCAL_SAFE
  PARTITION BY SHARD_KEY(customer_id)
  SCHEDULE = '*/10 * * * *'
  AS 'CALL process_pending_orders(:customer_id)';

@ S0 line 565
CREATE JOB extract_daily_data
  SCHEDULE = '0 1 * * *'
  AS 'CALL extract_daily_sales()';

CREATE JOB transform_daily_data
  DEPENDS ON extract_daily_data
  SCHEDULE = '0 2 * * *'
  AS 'CALL transform_sales_data()';

CREATE JOB load_daily_data
  DEPENDS ON transform_daily_data
  SCHEDULE = '0 3 * * *'
  AS 'CALL load_sales_to_warehouse()';

@ S0 line 620
-- Create a daily backup job
CREATE JOB daily_cluster_backup
  CLASS = LEADER_ONLY
  SCHEDULE = '0 2 * * *'
  DESCRIPTION = 'Daily cluster backup'
  AS 'BACKUP CLUSTER TO backup_target_s3';

@ S0 line 631
SELECT
    job_uuid,
    job_name,
    job_class,
    schedule_type,
    cron_expression,
    next_run_time,
    state
FROM sys.jobs
ORDER BY next_run_time ASC;

@ S0 line 646
SELECT
    job_run_uuid,
    job_name,
    scheduled_time,
    started_at,
    completed_at,
    state,
    result_message,
    rows_affected
FROM sys.job_runs
WHERE job_uuid = 'job_uuid_here'
ORDER BY started_at DESC
LIMIT 10;

@ S0 line 664
ALTER JOB daily_cluster_backup SET STATE = PAUSED;

@ S0 line 670
ALTER JOB daily_cluster_backup SET STATE = ENABLED;

@ S0 line 676
DROP JOB daily_cluster_backup;

@ S0 line 809
CREATE JOB daily_sweep
  CLASS = LOCAL_SAFE
  PARTITION BY ALL_SHARDS
  SCHEDULE = '0 2 * * *'
  DESCRIPTION = 'Daily sweep/GC + analyze on all shards'
  AS 'SWEEP ANALYZE';             -- Native sweep/GC command (VACUUM alias available)

@ S0 line 820
CREATE JOB hourly_sales_report
  CLASS = LEADER_ONLY
  SCHEDULE = '0 * * * *'  -- Every hour at :00
  DESCRIPTION = 'Generate hourly sales report'
  AS 'CALL generate_hourly_sales_report()';

@ S0 line 830
-- Step 1: Extract
CREATE JOB etl_extract
  CLASS = LEADER_ONLY
  SCHEDULE = '0 1 * * *'
  AS 'CALL extract_source_data()';

-- Step 2: Transform (depends on extract)
CREATE JOB etl_transform
  CLASS = LEADER_ONLY
  DEPENDS ON etl_extract
  SCHEDULE = '0 2 * * *'
  AS 'CALL transform_extracted_data()';

-- Step 3: Load (depends on transform)
CREATE JOB etl_load
  CLASS = LEADER_ONLY
  DEPENDS ON etl_transform
  SCHEDULE = '0 3 * * *'
  AS 'CALL load_transformed_data()';

@ S0 line 854
CREATE JOB process_customer_reports
  CLASS = LOCAL_SAFE
  PARTITION BY SHARD_KEY(customer_id)
  SCHEDULE = '0 0 * * *'
  AS 'CALL process_customer_monthly_report(:customer_id)';

@ S1 line 293
EXECUTE JOB job_name;

@ S1 line 299
CANCEL JOB RUN job_run_uuid;

@ S1 line 305
SELECT job_name, state, next_run_time FROM sys.jobs ORDER BY next_run_time;
SELECT * FROM sys.job_runs WHERE job_uuid = '...';
