//! Durations: a number of seconds, or a text such as `PT1H30M` or `90s`.

use std::borrow::Cow;
use std::fmt;

use domain::schedule::parse_duration;
use jiff::SignedDuration;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The longest duration of a request: a hundred years.
const SECONDS_MAX: f64 = 3_155_760_000.0;

/// A duration, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub SignedDuration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => serializer.serialize_i64(self.0.as_secs()),
            _ => serializer.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsVisitor).map(Seconds)
    }
}

struct SecondsVisitor;

impl Visitor<'_> for SecondsVisitor {
    type Value = SignedDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of seconds or a duration such as \"PT1H30M\" or \"90s\"")
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<SignedDuration, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<SignedDuration, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<SignedDuration, E> {
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(E::custom(format!("must be 0 to {SECONDS_MAX} seconds, not {seconds}")));
        }
        // Microseconds are what a store keeps.
        let us = SignedDuration::from_micros((seconds * 1e6).round() as i64);
        Ok(us)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SignedDuration, E> {
        let duration = parse_duration(text).map_err(E::custom)?;
        self.visit_f64::<E>(duration.as_secs_f64())?;
        Ok(duration)
    }
}

impl PartialSchema for Seconds {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::Number))
            .minimum(Some(0.0))
            .maximum(Some(SECONDS_MAX));
        let text = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .description(Some("For example PT1H30M or 90s."));
        OneOfBuilder::new().item(number).item(text).into()
    }
}

impl ToSchema for Seconds {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Seconds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (json, answer) in [
            ("90", "90"),
            ("0", "0"),
            ("1.5", "1.5"),
            ("\"PT1M\"", "60"),
            ("\"250ms\"", "0.25"),
            ("-1", "must be 0 to 3155760000 seconds, not -1"),
            ("1e300", "must be 0 to 3155760000 seconds"),
            ("\"soon\"", "\"soon\" is not a duration"),
            ("\"99999999h\"", "must be 0 to"),
            ("null", "invalid type: null, expected a number of seconds or a duration"),
        ] {
            let got = match serde_json::from_str::<Seconds>(json) {
                Ok(seconds) => serde_json::to_string(&seconds).unwrap(),
                Err(error) => error.to_string(),
            };
            assert!(got.starts_with(answer), "{json}: {got}");
        }
    }
}
