//! Versions of artifacts. A row is the commit of a push: its content is in object storage before.

use std::future::Future;

use domain::artifact::{ArchiveFacts, ArtifactDigest, ArtifactVersion};
use domain::audit::{Event, Kind};
use domain::id::TenantId;
use jiff::SignedDuration;

use crate::audit_log::audit_row;
use crate::records::{Records, Row, Statement, Transaction, page, params};
use crate::{Page, Result, Store, StoreError};

/// A push is tried so often if others of the same name come between.
const PUSH_TRIES: u32 = 20;

/// A store that keeps the versions of artifacts.
pub trait Artifacts: Store {
    /// Records a version with the next number, in the name of the author. If the newest version has
    /// the same content, that is the answer. Number and times of the given one are the store's.
    fn push_artifact(
        &self,
        new: &ArtifactVersion,
        by: &str,
    ) -> impl Future<Output = Result<PushedArtifact>> + Send;

    /// A version of an artifact, also if it was deleted.
    fn artifact(
        &self,
        tenant: TenantId,
        name: &str,
        version: u32,
    ) -> impl Future<Output = Result<Option<ArtifactVersion>>> + Send;

    /// The newest version of an artifact that is not deleted.
    fn newest_artifact(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> impl Future<Output = Result<Option<ArtifactVersion>>> + Send;

    /// Versions of a tenant, of all artifacts or of one, that are not deleted: by name, the newest
    /// first, after the given one.
    fn list_artifacts(
        &self,
        tenant: TenantId,
        name: Option<&str>,
        after: Option<&(String, u32)>,
        limit: u32,
    ) -> impl Future<Output = Result<Page<ArtifactVersion, (String, u32)>>> + Send;

    /// The tenants that have artifacts.
    fn artifact_tenants(&self) -> impl Future<Output = Result<Vec<TenantId>>> + Send;

    /// Deletes a version. Whether it was there.
    fn delete_artifact(
        &self,
        tenant: TenantId,
        name: &str,
        version: u32,
        by: &str,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Which contents a version has that is not deleted, or was deleted within this time.
    fn needed_artifacts(
        &self,
        digests: &[ArtifactDigest],
        grace: SignedDuration,
    ) -> impl Future<Output = Result<Vec<ArtifactDigest>>> + Send;
}

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushedArtifact {
    /// The new version.
    New(ArtifactVersion),
    /// The newest version, which has the same content.
    Same(ArtifactVersion),
}

/// The columns of a version in the order in which [`version`] reads them.
const COLUMNS: &str = "tenant_id, name, version, digest, bytes, unpacked_bytes, entries, labels, \
                       created_at, created_by, deleted_at";

impl<S: Records> Artifacts for S {
    async fn push_artifact(&self, new: &ArtifactVersion, by: &str) -> Result<PushedArtifact> {
        for _ in 0..PUSH_TRIES {
            let sql = format!(
                "SELECT {COLUMNS} FROM artifacts WHERE tenant_id = $1 AND name = $2
                 ORDER BY version DESC LIMIT 1"
            );
            let rows = self.query(Statement::new(sql, params![new.tenant.0, &new.name])).await?;
            let newest = rows.first().map(version).transpose()?;
            if let Some(newest) = &newest
                && newest.deleted_at.is_none()
                && newest.archive == new.archive
            {
                return Ok(PushedArtifact::Same(newest.clone()));
            }
            let number = newest.map_or(0, |newest| newest.version) + 1;
            let ArchiveFacts { digest, bytes, unpacked_bytes, entries } = new.archive;
            let labels = serde_json::to_string(&new.labels).unwrap_or_default();
            let insert = Statement::new(
                format!(
                    "INSERT INTO artifacts ({COLUMNS})
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, {{now}}, $9, NULL)
                     ON CONFLICT DO NOTHING RETURNING {COLUMNS}"
                ),
                params![
                    new.tenant.0,
                    &new.name,
                    number,
                    digest.to_string(),
                    bytes,
                    unpacked_bytes,
                    entries,
                    labels,
                    by
                ],
            );
            let pushed = ArtifactVersion { version: number, ..new.clone() };
            let audit = audit_row(&audit(&pushed, "PUSHED", by));
            let transaction = Transaction::from(vec![insert.expect_row(), audit]);
            if let Some(answers) = self.commit(transaction).await? {
                let row = answers[0].rows.first().ok_or_else(StoreError::no_row)?;
                return Ok(PushedArtifact::New(version(row)?));
            }
        }
        let problem = "other versions of the artifact were pushed at the same time";
        Err(StoreError::Unavailable(problem.into()))
    }

    async fn artifact(
        &self,
        tenant: TenantId,
        name: &str,
        number: u32,
    ) -> Result<Option<ArtifactVersion>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM artifacts WHERE tenant_id = $1 AND name = $2 AND version = $3"
        );
        let rows = self.query(Statement::new(sql, params![tenant.0, name, number])).await?;
        rows.first().map(version).transpose()
    }

    async fn newest_artifact(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<ArtifactVersion>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM artifacts
             WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL
             ORDER BY version DESC LIMIT 1"
        );
        let rows = self.query(Statement::new(sql, params![tenant.0, name])).await?;
        rows.first().map(version).transpose()
    }

    async fn list_artifacts(
        &self,
        tenant: TenantId,
        name: Option<&str>,
        after: Option<&(String, u32)>,
        limit: u32,
    ) -> Result<Page<ArtifactVersion, (String, u32)>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM artifacts
             WHERE tenant_id = $1 AND deleted_at IS NULL AND ($2 IS NULL OR name = $2)
                 AND (name > $3 OR (name = $3 AND version < $4))
             ORDER BY name, version DESC LIMIT $5"
        );
        let (after, below) = after.map_or(("", 0), |(name, version)| (name.as_str(), *version));
        let params = params![tenant.0, name, after, below, i64::from(limit) + 1];
        let rows = self.query(Statement::new(sql, params)).await?;
        let versions = rows.iter().map(version).collect::<Result<_>>()?;
        Ok(page(versions, limit, |it: &ArtifactVersion| (it.name.clone(), it.version)))
    }

    async fn artifact_tenants(&self) -> Result<Vec<TenantId>> {
        let sql = "SELECT DISTINCT tenant_id FROM artifacts ORDER BY tenant_id";
        let rows = self.query(Statement::new(sql, params![])).await?;
        rows.iter().map(|row| Ok(TenantId(row.get(0)?))).collect()
    }

    async fn delete_artifact(
        &self,
        tenant: TenantId,
        name: &str,
        number: u32,
        by: &str,
    ) -> Result<bool> {
        let Some(seen) = self.artifact(tenant, name, number).await? else { return Ok(false) };
        let delete = Statement::new(
            "UPDATE artifacts SET deleted_at = {now}
             WHERE tenant_id = $1 AND name = $2 AND version = $3 AND deleted_at IS NULL
             RETURNING version",
            params![tenant.0, name, number],
        );
        let audit = audit_row(&audit(&seen, "DELETED", by));
        let transaction = Transaction::from(vec![delete.expect_row(), audit]);
        Ok(self.commit(transaction).await?.is_some())
    }

    async fn needed_artifacts(
        &self,
        digests: &[ArtifactDigest],
        grace: SignedDuration,
    ) -> Result<Vec<ArtifactDigest>> {
        let needed = |digest: &ArtifactDigest| {
            Statement::new(
                "SELECT version FROM artifacts
                 WHERE digest = $1 AND (deleted_at IS NULL OR deleted_at > {now} - $2) LIMIT 1",
                params![digest.to_string(), grace],
            )
        };
        let found = self.query_each(digests.iter().map(needed).collect()).await?;
        let found = digests.iter().zip(found).filter(|(_, rows)| !rows.is_empty());
        Ok(found.map(|(digest, _)| *digest).collect())
    }
}

fn version(row: &Row) -> Result<ArtifactVersion> {
    let unreadable = |what: &str| StoreError::Unreadable(format!("{what} of an artifact"));
    let digest: String = row.get(3)?;
    let labels: String = row.get(7)?;
    Ok(ArtifactVersion {
        tenant: TenantId(row.get(0)?),
        name: row.get(1)?,
        version: row.get(2)?,
        archive: ArchiveFacts {
            digest: digest.parse().map_err(|_| unreadable("digest"))?,
            bytes: row.get(4)?,
            unpacked_bytes: row.get(5)?,
            entries: row.get(6)?,
        },
        labels: serde_json::from_str(&labels).map_err(|_| unreadable("labels"))?,
        created_at: row.get(8)?,
        created_by: row.get(9)?,
        deleted_at: row.get(10)?,
    })
}

fn audit(version: &ArtifactVersion, outcome: &str, by: &str) -> Event {
    Event {
        tenant: version.tenant,
        actor: by.to_owned(),
        kind: Kind::ArtifactChanged,
        job: None,
        run: None,
        outcome: outcome.to_owned(),
        details: serde_json::json!({
            "name": version.name,
            "version": version.version,
            "digest": version.archive.digest,
        })
        .to_string(),
    }
}
