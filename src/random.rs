//! Randomness, from the machine.

/// Random bytes from the operating system.
#[expect(clippy::disallowed_methods, reason = "the one place that draws random bytes")]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // A machine without randomness cannot make keys: there is nothing sensible to go on with.
    getrandom::fill(&mut bytes).expect("the machine has no randomness");
    bytes
}

/// 128 bits that do not repeat.
pub fn number() -> u128 {
    u128::from_be_bytes(bytes())
}
