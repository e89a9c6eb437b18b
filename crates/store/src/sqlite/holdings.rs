//! Claims of all nodes. The writer keeps them in memory, so ending a claim does not read the file.
//!
//! On disk, a claim is one row for a batch of runs, written when they are claimed and deleted when
//! the last of them has ended. Nothing is written to it when one of them ends: the run has ended,
//! vanished or got another claim generation, and its row shows that. A claim that a few long runs
//! keep alive lists mostly runs that have ended; when there are too many of those, it is rewritten.

use std::collections::{BTreeMap, HashMap};

use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::Grant;
use domain::slot::SlotKind;
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::lane::slot_of;
use crate::{Result, StoreError};

/// Ended entries that are still listed are tolerated up to this many, and up to three for each that
/// has not ended.
const SLACK: usize = 4_096;

/// Bytes of an entry of a claim on disk.
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
    pub slot: SlotKind,
    pub order_at: i64,
    pub attempts: u32,
    pub lost: u32,
    /// Whether its cancellation was requested.
    pub cancelled: bool,
}

/// Everything that is held.
#[derive(Default)]
pub(super) struct Holdings {
    /// By their first fence. All fences of a claim are less than the first one of the next.
    claims: BTreeMap<i64, Claim>,
    tenants: Tenants,
    /// Claims of which nothing is left.
    spent: Vec<i64>,
    /// Entries that are listed, and those among them that have not ended.
    listed: usize,
    open: usize,
}

/// Runs that were claimed together.
#[derive(Default)]
struct Claim {
    /// By fence. None for a run that has ended.
    grants: Vec<(i64, Option<Held>)>,
    open: usize,
    is_on_disk: bool,
}

impl Claim {
    fn find(&mut self, fence: i64) -> Option<&mut Option<Held>> {
        let first = self.grants.first()?.0;
        // Mostly there is no gap between fences.
        let guess = usize::try_from(fence - first).ok()?;
        let at = match self.grants.get(guess) {
            Some((found, _)) if *found == fence => guess,
            _ => self.grants.binary_search_by_key(&fence, |(fence, _)| *fence).ok()?,
        };
        Some(&mut self.grants[at].1)
    }

    /// Whether a run that is claimed now joins this claim.
    fn takes(&self, node: NodeId) -> bool {
        let last = self.grants.last().and_then(|(_, held)| held.as_ref());
        !self.is_on_disk && last.is_some_and(|last| last.node == node)
    }

    /// Claimed runs that have not ended, oldest claim first.
    fn held(&self) -> impl Iterator<Item = &Held> {
        self.grants.iter().filter_map(|(_, held)| held.as_ref())
    }
}

/// An entry of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub fence: i64,
    pub seq: i64,
    pub turn: u32,
}

/// A tenant's runs of one kind of slot.
type Share = (TenantId, SlotKind);

/// How many runs of each tenant are held, by their kind of slot. Neighbours are mostly of the same
/// tenant and kind, and counted together.
#[derive(Default)]
struct Tenants {
    counts: HashMap<Share, i64>,
    last: Option<(Share, i64)>,
}

impl Tenants {
    fn add(&mut self, held: &Held, change: i64) {
        let share = (held.tenant, held.slot);
        if let Some((last, sum)) = &mut self.last
            && *last == share
        {
            *sum += change;
            return;
        }
        let Some((last, sum)) = self.last.replace((share, change)) else { return };
        let count = self.counts.entry(last).or_default();
        *count += sum;
        if *count == 0 {
            self.counts.remove(&last);
        }
    }

    fn count(&self, share: Share) -> i64 {
        let last = self.last.filter(|(last, _)| *last == share);
        self.counts.get(&share).copied().unwrap_or(0) + last.map_or(0, |(_, sum)| sum)
    }
}

impl Holdings {
    /// Reads the claims on disk.
    pub fn read(connection: &Connection) -> Result<Self> {
        let mut holdings = Holdings::default();
        let mut claims = connection.prepare(sql!("claim_list"))?;
        let mut run = connection.prepare(sql!("run_of_grant"))?;
        let mut rows = claims.query([])?;
        while let Some(row) = rows.next()? {
            let (first, node, grants) = claim(row)?;
            let mut claim = Claim { is_on_disk: true, ..Claim::default() };
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
                        slot: slot_of(row.get(7)?),
                    })
                });
                let held = held.optional()?;
                if let Some(held) = held {
                    claim.open += 1;
                    holdings.tenants.add(&held, 1);
                }
                claim.grants.push((fence, held));
            }
            holdings.listed += claim.grants.len();
            holdings.open += claim.open;
            if claim.open == 0 {
                holdings.spent.push(first);
            }
            holdings.claims.insert(first, claim);
        }
        Ok(holdings)
    }

    /// A node claims a run.
    pub fn take(&mut self, held: Held) {
        self.tenants.add(&held, 1);
        self.listed += 1;
        self.open += 1;
        if let Some(mut last) = self.claims.last_entry()
            && last.get().takes(held.node)
        {
            let claim = last.get_mut();
            claim.open += 1;
            claim.grants.push((held.fence, Some(held)));
            return;
        }
        // The number of a claim is its first fence.
        let grants = vec![(held.fence, Some(held))];
        self.claims.insert(held.fence, Claim { grants, open: 1, is_on_disk: false });
    }

    /// The run of a valid claim.
    pub fn of_grant(&mut self, node: NodeId, grant: Grant) -> Option<Held> {
        let (_, claim) = self.claims.range_mut(..=grant.fence).next_back()?;
        let held = (*claim.find(grant.fence)?)?;
        (held.node == node && held.run == grant.run && held.turn == grant.turn).then_some(held)
    }

    /// The holder of a run. Scans all claims.
    pub fn of_run(&self, run: RunId) -> Option<Held> {
        self.held().find(|held| held.run == run).copied()
    }

    /// Runs that a node holds, oldest claim first.
    pub fn of_node(&self, node: NodeId) -> Vec<Held> {
        self.held().filter(|held| held.node == node).copied().collect()
    }

    /// How many runs of a tenant are held that take one kind of slot.
    pub fn of_tenant(&self, tenant: TenantId, slot: SlotKind) -> i64 {
        self.tenants.count((tenant, slot))
    }

    fn held(&self) -> impl Iterator<Item = &Held> {
        self.claims.values().filter(|claim| claim.open > 0).flat_map(Claim::held)
    }

    /// The cancellation of a held run is requested.
    pub fn cancel(&mut self, held: &Held) {
        let claim = self.claims.range_mut(..=held.fence).next_back();
        if let Some(held) = claim.and_then(|(_, claim)| claim.find(held.fence)?.as_mut()) {
            held.cancelled = true;
        }
    }

    /// A held run takes another kind of slot.
    pub fn change_slot(&mut self, held: &Held, slot: SlotKind) {
        let claim = self.claims.range_mut(..=held.fence).next_back();
        if let Some(held) = claim.and_then(|(_, claim)| claim.find(held.fence)?.as_mut()) {
            self.tenants.add(held, -1);
            held.slot = slot;
            self.tenants.add(held, 1);
        }
    }

    /// A claimed run has ended.
    pub fn close(&mut self, held: &Held) {
        let Some((id, claim)) = self.claims.range_mut(..=held.fence).next_back() else { return };
        if claim.find(held.fence).and_then(Option::take).is_none() {
            return;
        }
        claim.open -= 1;
        if claim.open == 0 {
            self.spent.push(*id);
        }
        self.open -= 1;
        self.tenants.add(held, -1);
    }

    /// Writes new claims, and deletes those that are over.
    pub fn write(&mut self, connection: &Connection) -> Result<()> {
        let fresh = self.claims.iter_mut().rev().take_while(|(_, claim)| !claim.is_on_disk);
        for (id, claim) in fresh {
            claim.is_on_disk = true;
            // The memory lists what the file lists.
            self.listed -= claim.grants.len() - claim.open;
            claim.grants.retain(|(_, held)| held.is_some());
            let Some(node) = claim.held().next().map(|held| held.node) else { continue };
            let grants = encode(claim.held());
            connection.prepare_cached(sql!("claim_insert"))?.execute((id, node.0, grants))?;
        }
        for id in std::mem::take(&mut self.spent) {
            connection.prepare_cached(sql!("claim_delete"))?.execute((id,))?;
            if let Some(claim) = self.claims.remove(&id) {
                self.listed -= claim.grants.len();
            }
        }
        if self.listed > self.open * 4 + SLACK {
            self.compact(connection)?;
        }
        Ok(())
    }

    /// Rewrites sparse claims, with the runs that are left of them.
    fn compact(&mut self, connection: &Connection) -> Result<()> {
        let thin = |claim: &Claim| claim.open * 4 <= claim.grants.len();
        for (id, claim) in self.claims.iter_mut().filter(|(_, claim)| thin(claim)) {
            self.listed -= claim.grants.len() - claim.open;
            claim.grants.retain(|(_, held)| held.is_some());
            claim.grants.shrink_to_fit();
            let grants = encode(claim.held());
            connection.prepare_cached(sql!("claim_update"))?.execute((id, grants))?;
        }
        Ok(())
    }
}

fn encode<'a>(grants: impl Iterator<Item = &'a Held>) -> Vec<u8> {
    let mut bytes = Vec::new();
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
            slot: SlotKind::Process,
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
        let of_tenant =
            |holdings: &Holdings| SlotKind::ALL.map(|slot| holdings.of_tenant(tenant, slot));
        (11..=13).for_each(|number| holdings.take(held(number)));
        holdings.write(&connection).unwrap();
        holdings.take(Held { node: NodeId(id(8)), slot: SlotKind::Http, ..held(20) });
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(11, vec![11, 12, 13]), (20, vec![20])]);
        assert_eq!(of_tenant(&holdings), [3, 1]);
        let grant = |fence| Grant { run: held(12).run, fence, turn: 0 };
        assert_eq!(holdings.of_grant(NodeId(id(7)), grant(12)), Some(held(12)));
        assert_eq!(holdings.of_grant(NodeId(id(7)), grant(13)), None);
        assert_eq!(holdings.of_grant(NodeId(id(8)), grant(12)), None);
        for number in [11, 13, 13] {
            holdings.close(&held(number));
            holdings.write(&connection).unwrap();
        }
        assert_eq!(listed(&connection).len(), 2);
        assert_eq!(holdings.of_node(NodeId(id(7))), [held(12)]);
        holdings.close(&held(12));
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(20, vec![20])]);
        assert_eq!((of_tenant(&holdings), holdings.listed), ([0, 1], 1));
    }

    #[test]
    fn what_is_held_is_found_by_grant_run_node_and_tenant() {
        let (connection, mut holdings) = (tables(), Holdings::default());
        let (node, other) = (NodeId(id(7)), NodeId(id(8)));
        let (tenant, stranger) = (TenantId(id(1)), TenantId(id(9)));
        let counts_of = |holdings: &Holdings| {
            [tenant, stranger].map(|tenant| holdings.of_tenant(tenant, SlotKind::Process))
        };
        // Numbers in between are those of runs; nodes and tenants take turns.
        let all = [
            held(11),
            held(14),
            Held { tenant: stranger, ..held(15) },
            Held { node: other, ..held(16) },
            held(30),
        ];
        all.iter().for_each(|held| holdings.take(*held));
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(11, vec![11, 14, 15]), (16, vec![16]), (30, vec![30])]);
        let grant = |held: &Held| Grant { run: held.run, fence: held.fence, turn: 0 };
        for held in &all {
            assert_eq!(holdings.of_grant(held.node, grant(held)), Some(*held));
            assert_eq!(holdings.of_run(held.run), Some(*held));
            let older = Grant { turn: 1, ..grant(held) };
            assert_eq!(holdings.of_grant(held.node, older), None);
        }
        for fence in [0, 12, 13, 17, 31] {
            assert_eq!(holdings.of_grant(node, Grant { fence, ..grant(&all[0]) }), None, "{fence}");
        }
        assert_eq!(holdings.of_node(node), [all[0], all[1], all[2], all[4]]);
        assert_eq!(counts_of(&holdings), [4, 1]);
        holdings.cancel(&all[1]);
        assert!(holdings.of_run(all[1].run).is_some_and(|held| held.cancelled));
        for (closed, counts) in [(2, [4, 0]), (0, [3, 0]), (0, [3, 0]), (3, [2, 0]), (1, [1, 0])] {
            holdings.close(&all[closed]);
            assert_eq!(holdings.of_run(all[closed].run), None);
            assert_eq!(counts_of(&holdings), counts);
        }
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(30, vec![30])]);
        assert_eq!((holdings.of_node(node), holdings.of_node(other)), (vec![all[4]], vec![]));
        assert_eq!((holdings.listed, holdings.open), (1, 1));
    }

    #[test]
    fn a_claim_that_one_long_run_keeps_alive_is_written_anew() {
        let (connection, mut holdings) = (tables(), Holdings::default());
        (1..=5_000).for_each(|number| holdings.take(held(number)));
        holdings.write(&connection).unwrap();
        (1..=4_998).for_each(|number| holdings.close(&held(number)));
        holdings.write(&connection).unwrap();
        assert_eq!(listed(&connection), [(1, vec![4_999, 5_000])]);
        let grant = Grant { run: held(5_000).run, fence: 5_000, turn: 0 };
        assert_eq!(holdings.of_grant(held(1).node, grant), Some(held(5_000)));
        [4_999, 5_000].into_iter().for_each(|number| holdings.close(&held(number)));
        holdings.write(&connection).unwrap();
        assert_eq!((listed(&connection).len(), holdings.listed), (0, 0));
    }
}
