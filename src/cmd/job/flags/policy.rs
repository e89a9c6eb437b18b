//! Flags of simple job fields: the table of job fields says which there are.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use domain::job::{Definition, JobField, Policy, PolicyKind, PolicyValue, policies};
use serde_json::{Map, Value};

use super::{Seconds, seconds};

/// The fields that flags gave, by their REST keys.
#[derive(Default)]
pub struct PolicyFlags(pub Map<String, Value>);

/// The fields that have a flag of this table, with its name.
fn flags() -> impl Iterator<Item = (&'static str, &'static JobField, &'static Policy)> {
    let with_flag = |(field, policy): (&'static JobField, _)| {
        Some((field.flags().next()?, field, policy)).filter(|_| !field.has_own_flag)
    };
    policies().filter_map(with_flag)
}

/// A word as flags spell it: `cancel-previous`.
fn spelled(word: &str) -> String {
    word.to_ascii_lowercase().replace('_', "-")
}

fn arg((flag, field, policy): (&'static str, &'static JobField, &'static Policy)) -> Arg {
    let arg = Arg::new(flag).long(flag).help_heading("Policies").help(help(field, policy));
    match policy.kind {
        PolicyKind::Word(kind) => {
            let words: Vec<&'static str> =
                kind.words.iter().map(|word| &*spelled(word).leak()).collect();
            arg.value_name("RULE").value_parser(PossibleValuesParser::new(words))
        }
        PolicyKind::Duration => arg.value_name("DURATION").value_parser(seconds),
        PolicyKind::Count(limit) => {
            arg.value_name("N").value_parser(value_parser!(u32).range(..=i64::from(limit)))
        }
        PolicyKind::Text => arg.value_name("TEXT"),
        PolicyKind::Flag => arg.action(ArgAction::SetTrue),
        PolicyKind::List => arg.value_name("WORD").value_delimiter(',').action(ArgAction::Append),
    }
}

/// The meaning of a field, and its default.
fn help(field: &JobField, policy: &Policy) -> String {
    let about = field.about.replace('`', "").replace('\n', " ");
    let default = match (policy.default_words, (policy.get)(&Definition::default())) {
        (Some(words), _) => words.to_owned(),
        (None, PolicyValue::Word(word)) => spelled(word),
        (None, PolicyValue::Duration(length)) if length.is_zero() => return about,
        (None, value @ (PolicyValue::Duration(_) | PolicyValue::Count(_))) => value.to_string(),
        _ => return about,
    };
    format!("{about} [default: {default}]")
}

impl FromArgMatches for PolicyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut fields = Map::new();
        for (flag, field, policy) in flags() {
            let value = match policy.kind {
                PolicyKind::Word(_) => matches
                    .get_one::<String>(flag)
                    .map(|word| word.to_ascii_uppercase().replace('-', "_").into()),
                PolicyKind::Duration => matches.get_one::<Seconds>(flag).map(|it| it.0.clone()),
                PolicyKind::Count(_) => matches.get_one::<u32>(flag).map(|it| (*it).into()),
                PolicyKind::Text => matches.get_one::<String>(flag).map(|it| it.clone().into()),
                PolicyKind::Flag => matches.get_flag(flag).then_some(Value::Bool(true)),
                PolicyKind::List => matches
                    .get_many::<String>(flag)
                    .map(|words| words.cloned().map(Value::from).collect()),
            };
            fields.extend(value.map(|value| (field.key().to_owned(), value)));
        }
        Ok(PolicyFlags(fields))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for PolicyFlags {
    fn augment_args(command: Command) -> Command {
        command.args(flags().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
