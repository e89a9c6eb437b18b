//! The order of due runs: tenants take turns by the weight of their tier; runs of one tenant are
//! ordered by priority with ageing, then by time.
//!
//! A store needs the parameters of this policy, so they are passed to it.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

/// How much waiting time equals one point of priority. The order of two runs of a tenant never
/// changes while they wait, and no run waits forever behind urgent ones.
pub const AGEING: SignedDuration = SignedDuration::from_secs(60);

/// The class of service of a tenant: its weight when tenants compete for slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Tier {
    /// A quarter of the standard share.
    Free,
    /// The share of a tenant without a tier.
    #[default]
    Standard,
    /// Four times the standard share.
    Premium,
}

impl Tier {
    /// Every tier, from the smallest weight to the largest.
    pub const ALL: [Tier; 3] = [Tier::Free, Tier::Standard, Tier::Premium];

    /// The number of turns per round.
    pub const fn weight(self) -> u32 {
        match self {
            Tier::Free => 1,
            Tier::Standard => 4,
            Tier::Premium => 16,
        }
    }

    /// The name at every interface.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Free => "FREE",
            Tier::Standard => "STANDARD",
            Tier::Premium => "PREMIUM",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The length of a round: every weight divides it.
pub const ROUND: i64 = Tier::Premium.weight() as i64;

/// The position of the `nth` run of a tenant, counting its executing ones; the smallest goes first.
/// In each round a tenant has as many turns as its weight.
pub const fn turn(nth: i64, weight: u32) -> i64 {
    nth * ROUND / weight as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tenants of the first turns if each has more runs than turns.
    fn order(weights: &[(char, u32)], at_work: &[i64], turns: usize) -> String {
        let mut line: Vec<(i64, usize)> = Vec::new();
        for (i, (_, weight)) in weights.iter().enumerate() {
            line.extend((1..=turns as i64).map(|n| (turn(at_work[i] + n, *weight), i)));
        }
        line.sort_unstable();
        line.iter().take(turns).map(|(_, i)| weights[*i].0).collect()
    }

    #[test]
    fn tenants_take_turns_by_their_weight() {
        let tiers = [('f', Tier::Free), ('s', Tier::Standard), ('p', Tier::Premium)];
        let weights = tiers.map(|(name, tier)| (name, tier.weight()));
        let count = |order: &str, name| order.chars().filter(|it| *it == name).count();
        let one_round = order(&weights, &[0, 0, 0], 21);
        let counts = ['f', 's', 'p'].map(|name| count(&one_round, name));
        assert_eq!(counts, [1, 4, 16], "{one_round}");
        assert_eq!(order(&[('a', 4), ('b', 4)], &[0, 0], 6), "ababab");
        assert_eq!(order(&[('a', 4), ('b', 4)], &[3, 0], 6), "bbbaba");
    }

    #[test]
    fn every_weight_divides_a_round() {
        for tier in Tier::ALL {
            assert_eq!(ROUND % i64::from(tier.weight()), 0);
        }
    }
}
