//! What the tests of the agent start.

fn main() {}
