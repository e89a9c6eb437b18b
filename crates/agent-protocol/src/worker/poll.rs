//! Requesting assignments by free slots.

use std::sync::Arc;

use domain::slot::{PerSlot, SlotKind};

use super::link::Open;
use super::{BEYOND, Board, End, Worker, std_duration};
use crate::shape::{POLL_MAX, Poll, Work};

impl Worker {
    /// The number of free slots of each kind.
    fn free(&self, board: &Board) -> PerSlot<u32> {
        if board.stopping {
            return PerSlot::default();
        }
        let mut free = self.options.capacity;
        for running in board.running.values() {
            free[running.slot] = free[running.slot].saturating_sub(1);
        }
        free
    }

    /// Waits until a kind of slot is free that was not before.
    async fn until_freed(&self, before: PerSlot<u32>) {
        loop {
            self.freed.notified().await;
            let now = self.free(&self.board());
            if SlotKind::ALL.iter().any(|slot| before[*slot] == 0 && now[*slot] > 0) {
                return;
            }
        }
    }

    pub(super) async fn poll(self: &Arc<Self>, open: &Open) -> End {
        let mut number = 0;
        loop {
            let (free, has) = {
                let board = self.board();
                let has = board.running.keys().chain(board.ended.keys()).copied().collect();
                (self.free(&board), has)
            };
            if free.total() == 0 {
                self.freed.notified().await;
                continue;
            }
            number += 1;
            let poll = Poll { session: open.session, number, free, has };
            let patience = std_duration(POLL_MAX) + BEYOND;
            let answer = tokio::select! {
                answer = open.client.call::<_, Work>("poll", &poll, patience) => answer,
                // The reply to a poll has no assignments for slots that were occupied when it was
                // sent.
                () = self.until_freed(free) => continue,
            };
            match answer {
                Ok(work) => {
                    for item in work.items {
                        self.begin(open.node, item);
                    }
                }
                Err(error) => return error.into(),
            }
        }
    }
}
