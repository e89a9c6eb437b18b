//! Simple fields of a job over REST: the table of job fields says how they are read, shown and
//! described.

use std::fmt;

use domain::job::{Definition, JobField, Policy, PolicyKind, PolicyValue, policies, policy_of_key};
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, forward_to_deserialize_any};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};

use super::duration::Seconds;

/// Simple fields with their values: those of a request, or those that a response shows.
#[derive(Clone, Debug, Default)]
pub struct Policies(Vec<(&'static JobField, &'static Policy, PolicyValue)>);

impl Policies {
    /// The fields that a response about a definition shows.
    pub fn of(definition: &Definition) -> Self {
        let default = Definition::default();
        let shown = |(field, policy): (&'static JobField, &'static Policy)| {
            Some((field, policy, policy.shown(definition, &default)?))
        };
        Policies(policies().filter_map(shown).collect())
    }

    /// Whether a key has a value.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(field, ..)| field.key() == key)
    }

    /// Gives a definition the values.
    pub fn apply(&self, definition: &mut Definition) {
        for (_, policy, value) in &self.0 {
            // The value was read as one of this kind.
            let _ = (policy.set)(definition, value.clone());
        }
    }
}

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (field, _, value) in &self.0 {
            let key = field.key();
            match value {
                PolicyValue::Absent => map.serialize_entry(key, &())?,
                PolicyValue::Word(word) => map.serialize_entry(key, word)?,
                PolicyValue::Duration(length) => map.serialize_entry(key, &Seconds(*length))?,
                PolicyValue::Count(count) => map.serialize_entry(key, count)?,
                PolicyValue::Text(text) => map.serialize_entry(key, text)?,
                PolicyValue::Flag(is_set) => map.serialize_entry(key, is_set)?,
                PolicyValue::List(words) => map.serialize_entry(key, words)?,
            }
        }
        map.end()
    }
}

/// Reads an object with simple fields and those of `T`, which refuses unknown fields.
pub fn read_with<'de, T, D>(deserializer: D) -> Result<(T, Policies), D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Both<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Both<T> {
        type Value = (T, Policies);

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let mut policies = Policies::default();
            let others = T::deserialize(Others { map, policies: &mut policies, known: &[] })?;
            Ok((others, policies))
        }
    }

    deserializer.deserialize_map(Both(std::marker::PhantomData))
}

/// The fields of an object that are not simple. Reading them reads the simple ones on the way.
struct Others<'p, A> {
    map: A,
    policies: &'p mut Policies,
    known: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Others<'_, A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(Others { known, ..self })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        loop {
            let (field, policy) = match self.map.next_key_seed(KeySeed(self.known))? {
                None => return Ok(None),
                Some(Key::Simple(field, policy)) => (field, policy),
                Some(Key::Other(key)) => {
                    let key: StringDeserializer<A::Error> = key.into_deserializer();
                    return seed.deserialize(key).map(Some);
                }
            };
            if self.policies.has(field.key()) {
                return Err(A::Error::duplicate_field(field.key()));
            }
            if let Some(value) = self.map.next_value_seed(ValueSeed(policy))? {
                self.policies.0.push((field, policy, value));
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

enum Key {
    Simple(&'static JobField, &'static Policy),
    Other(String),
}

/// Reads a key: that of a simple field, or one of these.
struct KeySeed(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
        if let Some((field, policy)) = policy_of_key(key) {
            return Ok(Key::Simple(field, policy));
        }
        if self.0.contains(&key) {
            return Ok(Key::Other(key.to_owned()));
        }
        let known = self.0.iter().copied().chain(policies().map(|(field, _)| field.key()));
        let known: Vec<String> = known.map(|key| format!("`{key}`")).collect();
        let text = format!("unknown field `{key}`, expected one of {}", known.join(", "));
        Err(E::custom(text))
    }
}

/// Reads a value of a policy; none for null, where null means that the field is absent.
struct ValueSeed(&'static Policy);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Option<PolicyValue>;

    fn deserialize<D: Deserializer<'de>>(self, given: D) -> Result<Self::Value, D::Error> {
        Ok(match self.0.kind {
            PolicyKind::Word(kind) => match Option::<String>::deserialize(given)? {
                None => None,
                Some(text) => {
                    let word = kind.words.iter().find(|word| **word == text);
                    let unknown = || D::Error::unknown_variant(&text, kind.words);
                    Some(PolicyValue::Word(word.ok_or_else(unknown)?))
                }
            },
            PolicyKind::Duration => {
                Option::<Seconds>::deserialize(given)?.map(|it| PolicyValue::Duration(it.0))
            }
            PolicyKind::Count(limit) if limit <= u8::MAX.into() => {
                Option::<u8>::deserialize(given)?.map(|it| PolicyValue::Count(it.into()))
            }
            PolicyKind::Count(_) => Option::deserialize(given)?.map(PolicyValue::Count),
            PolicyKind::Text => Option::deserialize(given)?.map(PolicyValue::Text),
            PolicyKind::Flag => Some(PolicyValue::Flag(bool::deserialize(given)?)),
            PolicyKind::List => Some(PolicyValue::List(Vec::deserialize(given)?)),
        })
    }
}

/// The description of a simple field.
pub fn schema(field: &JobField, policy: &Policy) -> RefOr<Schema> {
    let about = match field.absent {
        "" => format!("{}.", field.about),
        absent => format!("{}; {absent}.", field.about),
    };
    let or_null = |kind| SchemaType::Array(vec![kind, Type::Null]);
    let either = |name: &str| -> RefOr<Schema> {
        let mut named = Ref::from_schema_name(name);
        named.description.clone_from(&about);
        let null = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Null));
        OneOfBuilder::new().item(named).item(null).into()
    };
    let (least, most) = policy.range;
    match policy.kind {
        PolicyKind::Word(kind) => either(kind.name),
        PolicyKind::Duration => either("Seconds"),
        PolicyKind::Count(_) => ObjectBuilder::new()
            .schema_type(or_null(Type::Integer))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
            .description(Some(about))
            .minimum(Some(f64::from(least.unwrap_or(0))))
            .maximum(most.map(f64::from))
            .into(),
        PolicyKind::Text => {
            ObjectBuilder::new().schema_type(or_null(Type::String)).description(Some(about)).into()
        }
        PolicyKind::Flag => {
            ObjectBuilder::new().schema_type(Type::Boolean).description(Some(about)).into()
        }
        PolicyKind::List => ArrayBuilder::new()
            .items(String::schema())
            .description(Some(about))
            .max_items(most.map(|most| most as usize))
            .into(),
    }
}

/// The types of simple fields that the description of the API names.
pub fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    for (_, policy) in policies() {
        if let PolicyKind::Word(kind) = policy.kind {
            let words = ObjectBuilder::new()
                .schema_type(Type::String)
                .description(Some(kind.about))
                .enum_values(Some(kind.words.iter().copied()));
            schemas.push((kind.name.to_owned(), words.into()));
        }
    }
}
