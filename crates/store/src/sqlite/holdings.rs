//! Who holds what. The writer knows it by heart, so ending a grant need not ask the file.
//!
//! On disk, a claim is one row for a whole batch of grants, written when they are handed out and
//! deleted when the last of them is over. Nothing is written when one of them ends: its run has
//! ended, vanished or taken another turn, and that says it. A claim that a few long runs keep
//! alive lists mostly grants that are over; when there are too many of those, it is written anew.

use std::collections::{BTreeMap, HashMap};

use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::Grant;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::{Result, StoreError};

/// Grants that are over and still listed are tolerated up to this many, and up to three for each
/// that is not.
const SLACK: usize = 4_096;

/// Bytes of a grant on disk.
const ENTRY: usize = 20;

/// A run that a node holds, and what its end needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub node: NodeId,
    pub run: RunId,
    pub fence: i64,
    pub turn: u32,
    pub seq: i64,
    pub job: JobId,
    pub tenant: TenantId,
    pub order_at: i64,
    pub attempts: u32,
    pub lost: u32,
    /// Whether somebody asked for its end.
    pub cancelled: bool,
}

/// Everything that is held.
#[derive(Default)]
pub(super) struct Holdings {
    runs: HashMap<RunId, (i64, Held)>,
    tenants: HashMap<TenantId, i64>,
    claims: BTreeMap<i64, Claim>,
    /// Grants that no claim on disk lists yet.
    fresh: Vec<(i64, Held)>,
    /// Claims of which nothing is left.
    spent: Vec<i64>,
    listed: usize,
}

struct Claim {
    listed: usize,
    open: usize,
}

/// A grant as a claim lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub fence: i64,
    pub seq: i64,
    pub turn: u32,
}

impl Holdings {
    /// What the claims on disk say.
    pub fn read(connection: &Connection) -> Result<Self> {
        let mut holdings = Holdings::default();
        let mut claims = connection.prepare(sql!("claim_list"))?;
        let mut run = connection.prepare(sql!("run_of_grant"))?;
        let mut rows = claims.query([])?;
        while let Some(row) = rows.next()? {
            let (first, node, grants) = claim(row)?;
            holdings.list(first, grants.len());
            for Entry { fence, seq, turn } in grants {
                let held = run.query_row((seq, turn), |row| {
                    Ok(Held {
                        node,
                        run: RunId(row.get(0)?),
                        fence,
                        turn,
                        seq,
                        job: JobId(row.get(1)?),
                        tenant: TenantId(row.get(2)?),
                        order_at: row.get(3)?,
                        attempts: row.get(4)?,
                        lost: row.get(5)?,
                        cancelled: row.get(6)?,
                    })
                });
                if let Some(held) = held.optional()? {
                    holdings.open(first, held);
                }
            }
        }
        holdings.spent = holdings
            .claims
            .iter()
            .filter(|(_, claim)| claim.open == 0)
            .map(|(id, _)| *id)
            .collect();
        Ok(holdings)
    }

    /// A node is handed a run.
    pub fn take(&mut self, held: Held) {
        // The number of a claim is its first fence.
        let claim = match self.fresh.last() {
            Some((claim, last)) if last.node == held.node => *claim,
            _ => held.fence,
        };
        self.fresh.push((claim, held));
        self.list(claim, 1);
        self.open(claim, held);
    }

    fn list(&mut self, claim: i64, grants: usize) {
        self.claims.entry(claim).or_insert(Claim { listed: 0, open: 0 }).listed += grants;
        self.listed += grants;
    }

    fn open(&mut self, claim: i64, held: Held) {
        self.claims.entry(claim).and_modify(|claim| claim.open += 1);
        *self.tenants.entry(held.tenant).or_default() += 1;
        self.runs.insert(held.run, (claim, held));
    }

    /// The run of a grant that is valid.
    pub fn of_grant(&self, node: NodeId, grant: Grant) -> Option<Held> {
        let held = self.of_run(grant.run)?;
        (held.node == node && held.fence == grant.fence && held.turn == grant.turn).then_some(held)
    }

    /// Who holds a run.
    pub fn of_run(&self, run: RunId) -> Option<Held> {
        self.runs.get(&run).map(|(_, held)| *held)
    }

    /// What a node holds, oldest grant first.
    pub fn of_node(&self, node: NodeId) -> Vec<Held> {
        let held = self.runs.values().map(|(_, held)| *held);
        let mut held: Vec<Held> = held.filter(|held| held.node == node).collect();
        held.sort_unstable_by_key(|held| held.fence);
        held
    }

    /// How many runs of a tenant are held.
    pub fn of_tenant(&self, tenant: TenantId) -> i64 {
        self.tenants.get(&tenant).copied().unwrap_or(0)
    }

    /// Somebody asks for the end of a run that is held.
    pub fn cancel(&mut self, run: RunId) {
        if let Some((_, held)) = self.runs.get_mut(&run) {
            held.cancelled = true;
        }
    }

    /// The grant of a run is over.
    pub fn close(&mut self, run: RunId) {
        let Some((id, held)) = self.runs.remove(&run) else { return };
        if let Some(tenant) = self.tenants.get_mut(&held.tenant) {
            *tenant -= 1;
            if *tenant == 0 {
                self.tenants.remove(&held.tenant);
            }
        }
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.open -= 1;
        if claim.open == 0 {
            self.spent.push(id);
        }
    }

    /// Writes down what was handed out, and clears away what is over.
    pub fn write(&mut self, connection: &Connection) -> Result<()> {
        for grants in self.fresh.chunk_by(|(a, _), (b, _)| a == b) {
            let Some((claim, first)) = grants.first() else { continue };
            let grants = encode(grants.iter().map(|(_, held)| held));
            connection.prepare_cached(sql!("claim_insert"))?.execute((
                claim,
                first.node.0,
                grants,
            ))?;
        }
        self.fresh.clear();
        for id in std::mem::take(&mut self.spent) {
            connection.prepare_cached(sql!("claim_delete"))?.execute((id,))?;
            if let Some(claim) = self.claims.remove(&id) {
                self.listed -= claim.listed;
            }
        }
        if self.listed > self.runs.len() * 4 + SLACK {
            self.compact(connection)?;
        }
        Ok(())
    }

    /// Writes thin claims anew, with what is left of them.
    fn compact(&mut self, connection: &Connection) -> Result<()> {
        let mut left: BTreeMap<i64, Vec<Held>> = BTreeMap::new();
        for (id, held) in self.runs.values() {
            left.entry(*id).or_default().push(*held);
        }
        for (id, mut grants) in left {
            let Some(claim) = self.claims.get_mut(&id) else { continue };
            if grants.len() * 4 > claim.listed {
                continue;
            }
            grants.sort_unstable_by_key(|held| held.fence);
            connection
                .prepare_cached(sql!("claim_update"))?
                .execute((id, encode(grants.iter())))?;
            self.listed -= claim.listed - grants.len();
            claim.listed = grants.len();
        }
        Ok(())
    }
}

fn encode<'a>(grants: impl ExactSizeIterator<Item = &'a Held>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(grants.len() * ENTRY);
    for held in grants {
        bytes.extend_from_slice(&held.fence.to_be_bytes());
        bytes.extend_from_slice(&held.seq.to_be_bytes());
        bytes.extend_from_slice(&held.turn.to_be_bytes());
    }
    bytes
}

/// first, node_id, grants
pub(super) fn claim(row: &rusqlite::Row<'_>) -> Result<(i64, NodeId, Vec<Entry>)> {
    let (first, node): (i64, Uuid) = (row.get(0)?, row.get(1)?);
    let bytes = row.get_ref(2)?.as_blob().unwrap_or_default();
    let entries: Option<Vec<Entry>> = bytes.chunks(ENTRY).map(entry).collect();
    let entries =
        entries.ok_or_else(|| StoreError::Unreadable(format!("claim {first} is cut off")))?;
    Ok((first, NodeId(node), entries))
}

fn entry(bytes: &[u8]) -> Option<Entry> {
    let (fence, rest) = bytes.split_first_chunk()?;
    let (seq, rest) = rest.split_first_chunk()?;
    Some(Entry {
        fence: i64::from_be_bytes(*fence),
        seq: i64::from_be_bytes(*seq),
        turn: u32::from_be_bytes(*rest.first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn held(number: i64) -> Held {
        let tenant = TenantId(id(1));
        Held {
            node: NodeId(id(7)),
            run: RunId(id(number as u128)),
            fence: number,
            turn: 0,
            seq: number,
            job: JobId(id(2)),
            tenant,
            order_at: 0,
            attempts: 0,
            lost: 0,
            cancelled: false,
        }
    }

    fn tables() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let tables = "CREATE TABLE claims (first INTEGER PRIMARY KEY, node_id BLOB, grants BLOB)";
        connection.execute_batch(tables).unwrap();
        connection
    }

    /// The fences that each claim on disk lists.
    fn listed(connection: &Connection) -> Vec<(i64, Vec<i64>)> {
        let mut query = connection.prepare(sql!("claim_list")).unwrap();
        let claims = query.query_and_then([], claim).unwrap();
        let claims = claims.map(|claim| claim.unwrap());
        claims
            .map(|(first, _, grants)| (first, grants.iter().map(|grant| grant.fence).collect()))
            .collect()
    }

    #[test]
    fn a_claim_is_written_once_and_goes_with_its_last_grant() {
        let (connection, mut holdings) = (tables(), Holdings::default());
        let tenant = held(1).tenant;
        (11..=13).for_each(|number| holdings.take(held(number)));
        holdings.write(&connection).unwrap();
        holdings.take(Held { node: NodeId(id(8)), ..held(20) });
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(11, vec![11, 12, 13]), (20, vec![20])]);
        assert_eq!(holdings.of_tenant(tenant), 4);
        let grant = |fence| Grant { run: held(12).run, fence, turn: 0 };
        assert_eq!(holdings.of_grant(NodeId(id(7)), grant(12)), Some(held(12)));
        assert_eq!(holdings.of_grant(NodeId(id(7)), grant(13)), None);
        assert_eq!(holdings.of_grant(NodeId(id(8)), grant(12)), None);
        for number in [11, 13, 13] {
            holdings.close(held(number).run);
            holdings.write(&connection).unwrap();
        }
        assert_eq!(listed(&connection).len(), 2);
        assert_eq!(holdings.of_node(NodeId(id(7))), [held(12)]);
        holdings.close(held(12).run);
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(20, vec![20])]);
        assert_eq!((holdings.of_tenant(tenant), holdings.listed), (1, 1));
    }

    #[test]
    fn a_claim_that_one_long_run_keeps_alive_is_written_anew() {
        let (connection, mut holdings) = (tables(), Holdings::default());
        (1..=5_000).for_each(|number| holdings.take(held(number)));
        holdings.write(&connection).unwrap();
        (1..=4_998).for_each(|number| holdings.close(held(number).run));
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(1, vec![4_999, 5_000])]);
        [4_999, 5_000].into_iter().for_each(|number| holdings.close(held(number).run));
        holdings.write(&connection).unwrap();
        assert_eq!((listed(&connection).len(), holdings.listed), (0, 0));
    }
}
