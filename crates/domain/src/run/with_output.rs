//! A result with the output of its attempt, which is not part of its other form: agents send the
//! output apart from the result, and a store keeps both together.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::AttemptResult;

/// Serialises the result and the output behind it.
pub fn serialize<S: Serializer>(result: &AttemptResult, to: S) -> Result<S::Ok, S::Error> {
    (result, &result.output).serialize(to)
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<AttemptResult, D::Error> {
    let (result, output): (AttemptResult, Option<Vec<u8>>) = Deserialize::deserialize(from)?;
    Ok(AttemptResult { output, ..result })
}

/// The same for a result that may be absent.
pub mod optional {
    use super::*;

    /// Serialises the result and the output behind it.
    pub fn serialize<S: Serializer>(
        result: &Option<AttemptResult>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        result.as_ref().map(|result| (result, &result.output)).serialize(to)
    }

    /// Reads what [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<AttemptResult>, D::Error> {
        let found: Option<(AttemptResult, Option<Vec<u8>>)> = Deserialize::deserialize(from)?;
        Ok(found.map(|(result, output)| AttemptResult { output, ..result }))
    }
}
