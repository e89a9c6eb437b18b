//! Property tests by `proptest`, on a fixed seed and on a fresh one.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use crate::seed::Test;

/// How many of the fixed seed's cases a fresh seed makes: one in so many.
const FRESH_PART: u32 = 3;

/// How a property is checked.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The test that asks.
    pub test: Test,
    /// The seed of the cases that are the same in every run.
    pub seed: u64,
    /// How many of them there are.
    pub cases: u32,
}

/// Draws values and checks each; a value that fails is made as small as possible first.
///
/// # Panics
///
/// If a value fails.
pub fn check<S: Strategy>(
    plan: Plan,
    values: &S,
    mut holds: impl FnMut(S::Value) -> Result<(), TestCaseError>,
) {
    for seed in plan.test.seeds(&[plan.seed], 1) {
        let cases = if seed.is_fresh { plan.cases.div_ceil(FRESH_PART) } else { plan.cases };
        let config = Config {
            cases,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed.value),
            ..Config::default()
        };
        // proptest shrinks through a shared reference.
        let holds = std::cell::RefCell::new(&mut holds);
        let checked = TestRunner::new(config).run(values, |value| (holds.borrow_mut())(value));
        match checked {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => panic!("{why}\nsmallest value: {value:#?}"),
            Err(TestError::Abort(why)) => panic!("no values to check: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_shows_the_smallest_value() {
        let test = crate::this_test!("failure_shows_the_smallest_value");
        let plan = Plan { test, seed: 1, cases: 100 };
        let failed = std::panic::catch_unwind(|| {
            check(plan, &(0_u32..1_000), |n| match n < 10 {
                true => Ok(()),
                false => Err(TestCaseError::fail("too large")),
            });
        });
        let said = failed.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*said, "too large\nsmallest value: 10");
    }

    #[test]
    fn fixed_seed_draws_the_same_values_again() {
        let draw = || {
            let config = Config { rng_seed: RngSeed::Fixed(3), ..Config::default() };
            let mut drawn = Vec::new();
            let seen = std::cell::RefCell::new(&mut drawn);
            let run = TestRunner::new(Config { failure_persistence: None, ..config }).run(
                &(0_u64..=u64::MAX),
                |n| {
                    seen.borrow_mut().push(n);
                    Ok(())
                },
            );
            run.unwrap();
            drawn
        };
        assert_eq!(draw(), draw());
    }
}
