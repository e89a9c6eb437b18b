//! The REST API: one file for each resource, the bodies in `shape`.

pub use configuration::ConfigurationEntry;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

mod agent_tokens;
mod alert_channels;
mod artifacts;
mod attention;
pub(crate) mod audit;
mod backfill;
mod backups;
pub(crate) mod blackouts;
pub(crate) mod browser_session;
mod bulk;
mod calendar;
pub(crate) mod calendars;
mod configuration;
mod dag_columns;
mod dag_run_changes;
mod dag_runs;
mod dag_truth;
pub(crate) mod dags;
mod databases;
mod dead_letters;
pub(crate) mod entry;
mod events;
mod execution_batch;
mod executions;
pub(crate) mod explain;
pub(crate) mod find;
mod grants;
pub(crate) mod hook_delivery;
pub(crate) mod hooks;
mod job_batch;
mod job_choice;
mod job_graph;
mod job_patch;
pub(crate) mod jobs;
mod keys;
mod log_lines;
mod logs;
mod messages;
pub(crate) mod nodes;
mod objects;
pub(crate) mod oidc_login;
mod operations;
mod outlook;
pub(crate) mod pause;
pub(crate) mod pools;
mod preferences;
mod queue_dead_letters;
mod queue_schedules;
pub(crate) mod queue_stats;
pub(crate) mod queues;
pub(crate) mod resource;
mod roles;
mod run_choice;
mod schedule;
pub(crate) mod secrets;
pub(crate) mod session;
mod settings;
pub mod shape;
pub(crate) mod shards;
mod simulate;
mod sql;
mod stats;
pub(crate) mod status_pages;
mod tenants;
pub(crate) mod upcoming;
mod users;
mod verbs;
pub(crate) mod versions;
pub(crate) mod warnings;
mod workers;

/// Every route that needs a key.
pub(crate) fn routes() -> OpenApiRouter<App> {
    let router = resource::add_routes::<databases::Databases>(OpenApiRouter::new());
    let router = resource::add_routes::<alert_channels::AlertChannels>(router);
    let router = resource::add_routes::<calendars::Calendars>(router);
    let router = resource::add_routes::<hooks::Hooks>(router);
    let router = resource::add_routes::<pools::Pools>(router);
    let router = resource::add_routes::<status_pages::StatusPages>(router);
    let router = resource::add_routes::<shards::Shards>(router);
    let router = entry::add_routes::<tenants::TenantView>(router);
    let router = entry::add_routes::<users::UserView>(router);
    entry::add_routes::<roles::RoleView>(router)
        .routes(routes!(jobs::create, jobs::list))
        .routes(routes!(bulk::create_many))
        .routes(routes!(job_batch::batch))
        .routes(routes!(outlook::validate))
        .routes(routes!(jobs::get, jobs::replace, jobs::patch, jobs::delete))
        .routes(routes!(verbs::pause))
        .routes(routes!(verbs::resume))
        .routes(routes!(verbs::trigger))
        .routes(routes!(versions::list))
        .routes(routes!(versions::get))
        .routes(routes!(versions::diff))
        .routes(routes!(versions::restore))
        .routes(routes!(job_graph::graph))
        .routes(routes!(outlook::next_runs))
        .routes(routes!(calendar::calendar))
        .routes(routes!(calendar::day))
        .routes(routes!(explain::explain))
        .routes(routes!(explain::explain_run))
        .routes(routes!(explain::explain_message))
        .routes(routes!(backfill::backfill))
        .routes(routes!(executions::list_of_job))
        .routes(routes!(executions::list))
        .routes(routes!(execution_batch::batch))
        .routes(routes!(executions::dead_letters))
        .routes(routes!(dead_letters::groups))
        .routes(routes!(dead_letters::redrive))
        .routes(routes!(dead_letters::acknowledge))
        .routes(routes!(executions::get))
        .routes(routes!(logs::logs))
        .routes(routes!(log_lines::index))
        .routes(routes!(log_lines::search))
        .routes(routes!(executions::attempts))
        .routes(routes!(executions::acknowledgements))
        .routes(routes!(executions::cancel))
        .routes(routes!(executions::retry))
        .routes(routes!(events::events))
        .routes(routes!(stats::stats))
        .routes(routes!(stats::series))
        .routes(routes!(stats::job_stats))
        .routes(routes!(attention::attention))
        .routes(routes!(upcoming::upcoming))
        .routes(routes!(upcoming::heat))
        .routes(routes!(schedule::preview))
        .routes(routes!(simulate::simulate))
        .routes(routes!(databases::test))
        .routes(routes!(alert_channels::test))
        .routes(routes!(alert_channels::deliveries))
        .routes(routes!(queues::create, queues::list))
        .routes(routes!(queues::get, queues::replace, queues::patch, queues::delete))
        .routes(routes!(queue_stats::stats))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::drain))
        .routes(routes!(queue_schedules::put, queue_schedules::delete))
        .routes(routes!(queues::workspaces))
        .routes(routes!(messages::send, messages::list))
        .routes(routes!(messages::lease))
        .routes(routes!(messages::ack))
        .routes(routes!(messages::nack))
        .routes(routes!(messages::fail))
        .routes(routes!(messages::extend))
        .routes(routes!(messages::get, messages::cancel))
        .routes(routes!(workers::poll))
        .routes(routes!(workers::set_state))
        .routes(routes!(workers::list))
        .routes(routes!(queue_dead_letters::list))
        .routes(routes!(queue_dead_letters::redrive))
        .routes(routes!(queue_dead_letters::purge))
        .routes(routes!(blackouts::create, blackouts::list))
        .routes(routes!(blackouts::get, blackouts::replace, blackouts::delete))
        .routes(routes!(pause::get, pause::put, pause::delete))
        .routes(routes!(hooks::create))
        .routes(routes!(hooks::rotate))
        .routes(routes!(dags::create, dags::list))
        .routes(routes!(dags::validate))
        .routes(routes!(dags::get, dags::replace, dags::patch, dags::delete))
        .routes(routes!(dags::pause))
        .routes(routes!(dags::resume))
        .routes(routes!(dags::trigger))
        .routes(routes!(dags::backfill))
        .routes(routes!(dag_runs::list_of_dag))
        .routes(routes!(dag_columns::grid))
        .routes(routes!(dag_runs::list))
        .routes(routes!(dag_truth::verify))
        .routes(routes!(dag_runs::get))
        .routes(routes!(dag_columns::columns))
        .routes(routes!(dag_runs::task))
        .routes(routes!(dag_run_changes::cancel))
        .routes(routes!(dag_run_changes::resume))
        .routes(routes!(dag_run_changes::rerun))
        .routes(routes!(dag_run_changes::mark))
        .routes(routes!(dag_run_changes::decide))
        .routes(routes!(dag_truth::explain))
        .routes(routes!(dag_truth::explain_task))
        .routes(routes!(dag_truth::replay))
        .routes(routes!(dag_truth::diff))
        .routes(routes!(executions::parts))
        .routes(routes!(executions::decide))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::remove))
        .routes(routes!(nodes::drain))
        .routes(routes!(nodes::resume))
        .routes(routes!(agent_tokens::list, agent_tokens::create))
        .routes(routes!(agent_tokens::revoke))
        .routes(routes!(configuration::show))
        .routes(routes!(session::whoami))
        .routes(routes!(session::change_password))
        .routes(routes!(preferences::get, preferences::put))
        .routes(routes!(grants::list, grants::create))
        .routes(routes!(grants::get, grants::delete))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::get, keys::patch, keys::delete))
        .routes(routes!(audit::list))
        .routes(routes!(audit::verify))
        .routes(routes!(secrets::list))
        .routes(routes!(secrets::get, secrets::put, secrets::delete))
        .routes(routes!(secrets::rotate))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::push))
        .routes(routes!(artifacts::get, artifacts::delete))
        .routes(routes!(artifacts::download))
        .routes(routes!(artifacts::upload, artifacts::put_upload))
        .routes(routes!(sql::run))
        .routes(routes!(backups::create))
        .routes(routes!(backups::download))
        .routes(routes!(settings::list))
        .routes(routes!(settings::put, settings::delete))
}
