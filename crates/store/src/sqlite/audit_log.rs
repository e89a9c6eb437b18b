//! Rows of the audit log that the kernel writes in its own transactions.

use domain::audit::{AuditedRun, Event, Kind, RequestedRun};
use domain::id::{NodeId, TenantId, UserId};
use domain::run::NewRun;
use rusqlite::OptionalExtension;
use uuid::Uuid;

use super::records;
use super::writer::Tx;
use crate::Result;
use crate::audit_log::audit_row;

/// One row for runs that ended or were requested together. Written by hand: every end of a run and
/// every request for one pays for it.
const INSERT_RUNS: &str = "
    INSERT INTO audit (tenant_id, at, actor, kind, node_id, outcome, details, runs)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', ?7)";

/// Records an event in the transaction that it is about.
pub(super) fn insert(tx: &Tx<'_>, event: &Event) -> Result<()> {
    records::execute(tx, &audit_row(event))
}

/// Runs that ended together: one row for each tenant.
#[derive(Default)]
pub(super) struct EndedTogether(Vec<(TenantId, Vec<u8>)>);

impl EndedTogether {
    pub fn push(&mut self, tenant: TenantId, run: AuditedRun) {
        let at = match self.0.iter().position(|(known, _)| *known == tenant) {
            Some(at) => at,
            None => {
                self.0.push((tenant, Vec::new()));
                self.0.len() - 1
            }
        };
        run.push(&mut self.0[at].1);
    }

    /// Writes the rows. The node is the actor.
    pub fn write(self, tx: &Tx<'_>, node: NodeId) -> Result<()> {
        for (tenant, runs) in self.0 {
            let kind = Kind::RunsEnded.name();
            let values = (tenant.0, tx.now_us(), "", kind, node.0, "", runs);
            tx.connection.prepare_cached(INSERT_RUNS)?.execute(values)?;
        }
        Ok(())
    }
}

/// Audits which runs users requested: one row for each tenant and user, in the transaction that
/// records the runs. Child runs are not requested by themselves.
pub(super) fn insert_requested<'a>(
    tx: &Tx<'_>,
    runs: impl Iterator<Item = &'a NewRun>,
) -> Result<()> {
    let mut together: Vec<((TenantId, UserId), Vec<u8>)> = Vec::new();
    for run in runs.filter(|run| !run.origin.is_child()) {
        let Some(user) = run.requested_by else { continue };
        let whose = (run.tenant, user);
        let at = match together.iter().position(|(known, _)| *known == whose) {
            Some(at) => at,
            None => {
                together.push((whose, Vec::new()));
                together.len() - 1
            }
        };
        let asked = RequestedRun { run: run.id, job: run.job, origin: run.origin };
        asked.push(&mut together[at].1);
    }
    for ((tenant, user), runs) in together {
        let mut query =
            tx.connection.prepare_cached("SELECT name FROM identities WHERE id = ?1")?;
        let name: Option<String> = query.query_row((user.0,), |row| row.get(0)).optional()?;
        let (name, kind) = (name.unwrap_or_else(|| user.to_string()), Kind::RunsRequested.name());
        let values = (tenant.0, tx.now_us(), name, kind, None::<Uuid>, "REQUESTED", runs);
        tx.connection.prepare_cached(INSERT_RUNS)?.execute(values)?;
    }
    Ok(())
}
