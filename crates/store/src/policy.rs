//! Rules of the domain as lists of stored numbers, for statements.

use domain::run::{Origin, Wait};

/// The numbers of waits with a property.
pub(crate) fn waits(has: fn(Wait) -> bool) -> Vec<i16> {
    Wait::ALL.into_iter().filter(|wait| has(*wait)).map(|wait| i16::from(wait as u8)).collect()
}

/// The numbers of origins of runs that are children of other runs.
pub(crate) fn children() -> Vec<i16> {
    let children = Origin::ALL.into_iter().filter(|origin| origin.is_child());
    children.map(|origin| i16::from(origin as u8)).collect()
}

/// Numbers in the text of a statement, for a database without lists as parameters.
pub(crate) fn list(numbers: &[i16]) -> String {
    numbers.iter().map(i16::to_string).collect::<Vec<_>>().join(", ")
}
