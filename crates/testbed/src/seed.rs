//! Seeds of tests that draw their cases at random: the same ones in every run, and fresh ones.
//!
//! A fresh seed is printed with the command that repeats it before it is used, also when the test
//! passes, and once more when the test fails. With `TEST_SEED` set, a test takes that seed alone.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable that holds the one seed to run.
pub const VARIABLE: &str = "TEST_SEED";

/// A test by the names that cargo knows it by. [`this_test!`](crate::this_test) fills it in.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// The package.
    pub package: &'static str,
    /// The crate of the test: a test target, or the library itself.
    pub target: &'static str,
    /// The module, beginning with the crate.
    pub module: &'static str,
    /// The function.
    pub name: &'static str,
}

/// The [`Test`](crate::seed::Test) of this name in this module.
#[macro_export]
macro_rules! this_test {
    ($name:literal) => {
        $crate::seed::Test {
            package: env!("CARGO_PKG_NAME"),
            target: env!("CARGO_CRATE_NAME"),
            module: module_path!(),
            name: $name,
        }
    };
}

/// A seed of a test. Dropped by a panic, it prints the command that repeats it.
#[derive(Debug)]
pub struct Seed {
    /// The seed itself.
    pub value: u64,
    /// Whether it was drawn for this run.
    pub is_fresh: bool,
    command: String,
}

impl Test {
    /// The fixed seeds of a test and so many fresh ones; with `TEST_SEED` set, that one alone.
    pub fn seeds(&self, fixed: &[u64], fresh: usize) -> Vec<Seed> {
        let seed = |value, is_fresh| Seed { value, is_fresh, command: self.command(value) };
        if let Ok(text) = std::env::var(VARIABLE) {
            return vec![seed(parse(&text), false)];
        }
        let mut seeds: Vec<Seed> = fixed.iter().map(|value| seed(*value, false)).collect();
        for _ in 0..fresh {
            let drawn = seed(draw(), true);
            // Not `eprintln!`: the test runner would show it only when the test fails.
            let _ = writeln!(std::io::stderr(), "fresh seed: {}", drawn.command);
            seeds.push(drawn);
        }
        seeds
    }

    /// The command that repeats the test with a seed.
    fn command(&self, seed: u64) -> String {
        let target = match self.target == self.package.replace('-', "_") {
            true => "--lib".to_owned(),
            false => format!("--test {}", self.target),
        };
        let path = match self.module.split_once("::") {
            Some((_, module)) => format!("{module}::{}", self.name),
            None => self.name.to_owned(),
        };
        format!("{VARIABLE}={seed} cargo test -p {} {target} -- --exact {path}", self.package)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} failed; repeat it: {}", self.value, self.command);
        }
    }
}

/// Reads a seed, decimal or with `0x`.
fn parse(text: &str) -> u64 {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(&digits.replace('_', ""), 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|error| panic!("{VARIABLE} is \"{text}\": {error}"))
}

/// A seed that differs from run to run, from process to process and from call to call.
fn draw() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let call = DRAWN.fetch_add(1, Ordering::Relaxed);
    scramble(time ^ u64::from(std::process::id()) << 48 ^ scramble(call)) >> 16
}

/// One step of SplitMix64, so that seeds which are close together make different cases.
fn scramble(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_one_test_of_one_target() {
        for (target, module, command) in [
            (
                "it",
                "it::fuzz",
                "TEST_SEED=7 cargo test -p punctual-domain --test it -- --exact fuzz::name",
            ),
            (
                "seeds",
                "seeds",
                "TEST_SEED=7 cargo test -p punctual-domain --test seeds -- --exact name",
            ),
            (
                "punctual_domain",
                "punctual_domain::a::tests",
                "TEST_SEED=7 cargo test -p punctual-domain --lib -- --exact a::tests::name",
            ),
        ] {
            let test = Test { package: "punctual-domain", target, module, name: "name" };
            assert_eq!(test.command(7), command);
        }
    }

    #[test]
    fn seeds_are_read_in_both_notations() {
        for (text, seed) in
            [("0", 0), ("18446744073709551615", u64::MAX), ("0x5eed_00ff", 0x5eed_00ff)]
        {
            assert_eq!(parse(text), seed);
        }
        let wrong = std::panic::catch_unwind(|| parse("7 ")).unwrap_err();
        let said = wrong.downcast::<String>().unwrap();
        assert_eq!(*said, "TEST_SEED is \"7 \": invalid digit found in string");
    }

    #[test]
    fn fresh_seeds_differ() {
        let drawn: std::collections::HashSet<u64> = (0..1_000).map(|_| draw()).collect();
        assert_eq!(drawn.len(), 1_000);
    }

    #[test]
    fn fixed_seeds_come_first() {
        if std::env::var_os(VARIABLE).is_some() {
            return;
        }
        let seeds = crate::this_test!("fixed_seeds_come_first").seeds(&[5, 3], 2);
        let fresh: Vec<bool> = seeds.iter().map(|seed| seed.is_fresh).collect();
        assert_eq!(fresh, [false, false, true, true]);
        assert_eq!((seeds[0].value, seeds[1].value), (5, 3));
        assert_ne!(seeds[2].value, seeds[3].value);
    }
}
