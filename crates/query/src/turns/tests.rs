//! The order of turns, without statements.

use super::*;

const A: Claimant = Claimant::Tenant(Uuid::from_u128(1));
const B: Claimant = Claimant::Tenant(Uuid::from_u128(2));

/// Waiting statements, and those that got a turn, in the order of their arrival.
#[derive(Default)]
struct Play {
    state: State,
    waiters: Vec<Arc<Waiter>>,
}

impl Play {
    fn come(&mut self, who: Claimant, max: usize) -> usize {
        let waiter = Arc::new(Waiter::default());
        self.waiters.push(Arc::clone(&waiter));
        self.state.enqueue(who, waiter);
        self.state.hand_out(max);
        self.waiters.len() - 1
    }

    fn end(&mut self, who: Claimant, ms: u64, max: usize) {
        self.state.taken -= 1;
        if let Claimant::Tenant(id) = who {
            self.state.used(id, Duration::from_millis(ms));
        }
        self.state.hand_out(max);
    }

    fn has(&self, number: usize) -> bool {
        self.waiters[number].is_granted()
    }
}

#[test]
fn a_tenant_that_had_less_time_comes_first() {
    let mut play = Play::default();
    let flood: Vec<usize> = (0..100).map(|_| play.come(A, 1)).collect();
    assert!(play.has(flood[0]) && !play.has(flood[1]));
    let other = play.come(B, 1);
    play.end(A, 20, 1);
    assert!(play.has(other), "one of a hundred statements of A had its slice");
    play.end(B, 5, 1);
    // B has used less than A, but none of its statements waits.
    assert!(play.has(flood[1]));
    let again = play.come(B, 1);
    play.end(A, 20, 1);
    assert!(play.has(again) && !play.has(flood[2]));
}

#[test]
fn time_that_was_not_used_is_not_saved_up() {
    let mut play = Play::default();
    play.come(A, 1);
    for _ in 0..10 {
        play.come(A, 1);
        play.end(A, 1_000, 1);
    }
    // B arrives late: it is first once, and then both alternate.
    let late = [play.come(B, 1), play.come(B, 1)];
    play.come(A, 1);
    play.end(A, 20, 1);
    assert!(play.has(late[0]) && !play.has(late[1]));
    play.end(B, 2_000, 1);
    assert!(!play.has(late[1]), "B does not get ten seconds at once");
}

#[test]
fn administrators_have_a_turn_of_their_own() {
    let mut play = Play::default();
    let flood: Vec<usize> = (0..10).map(|_| play.come(A, 2)).collect();
    let admins = [play.come(Claimant::Administrator, 2), play.come(Claimant::Administrator, 2)];
    assert!(play.has(admins[0]) && !play.has(admins[1]));
    play.end(A, 20, 2);
    assert!(play.has(admins[1]) && !play.has(flood[2]));
}

#[test]
fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let turns = Turns::new(1);
    let since = turns.take(A, || false).unwrap();
    assert!(turns.take(B, || true).is_none());
    turns.release(A, since);
    assert!(!turns.is_wanted());
    let state = turns.state();
    assert_eq!((state.taken, state.tenants.len()), (0, 0));
}
