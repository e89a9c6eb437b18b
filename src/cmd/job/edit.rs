//! `punctual job edit`: some fields by options, or the whole document in an editor.

use std::fs;
use std::io::IsTerminal;

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::flags::JobFlags;
use super::next::say_warnings;
use super::{Asking, name};
use crate::cli_error::CliError;
use crate::document;
use crate::exit::Failure;
use crate::output;

/// The job and what changes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual job edit nightly-report --cron '30 2 * * *'
  punctual job edit nightly-report --tag +reports --tag -old
  punctual job edit nightly-report

Without options the job opens in $VISUAL or $EDITOR.")]
pub struct EditArgs {
    /// Name or id of the job
    job: String,

    /// Rename it
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,

    #[command(flatten)]
    flags: JobFlags,

    #[command(flatten)]
    asking: Asking,
}

pub(super) fn run(args: EditArgs) -> Result<(), Failure> {
    let EditArgs { job, rename, flags, asking } = args;
    let mut fields = flags.fields()?;
    if let Some(name) = rename {
        fields.insert("name".into(), name.into());
    }
    let client = asking.client()?;
    let before = client.get(&["v1", "jobs", &job])?;
    if let Some(tags) = fields.get_mut("tags") {
        change_tags(tags, &before["tags"])?;
    }
    let id = before["job_id"].as_str().unwrap_or(&job);
    let version = before["version"].as_u64();
    let after = if fields.is_empty() {
        let Some(edited) = edit(&before)? else {
            asking.output.say("nothing was changed");
            return Ok(());
        };
        let call = client.call(Method::PUT, &["v1", "jobs", id]);
        call.if_version(version).json(&edited).send()?
    } else {
        let call = client.call(Method::PATCH, &["v1", "jobs", id]);
        call.if_version(version).json(&Value::Object(fields)).send()?
    };
    for change in document::diff(&described(&before), &described(&after)) {
        asking.output.say(&format!("  {change}"));
    }
    output::print_done(&asking.output, &after, "name", &format!("changed {}", name(&after)))?;
    say_warnings(&asking, &after);
    Ok(())
}

/// Tags with `+` and `-` in front are added to those of the job and taken from them; others
/// replace them.
fn change_tags(tags: &mut Value, before: &Value) -> Result<(), Failure> {
    let words = |list: &Value| -> Vec<String> {
        let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.map(str::to_owned).collect()
    };
    let given = words(tags);
    let signed = given.iter().filter(|tag| tag.starts_with(['+', '-'])).count();
    if signed == 0 {
        return Ok(());
    }
    if signed < given.len() {
        let error = CliError::new("--tag: cannot mix tags with and without a sign");
        return Err(error.hint("+TAG adds one, -TAG removes one, TAG alone replaces all").into());
    }
    let mut left = words(before);
    for tag in &given {
        let (sign, tag) = tag.split_at(1);
        left.retain(|known| known != tag);
        if sign == "+" {
            left.push(tag.to_owned());
        }
    }
    *tags = left.into();
    Ok(())
}

/// The document of a job, whose upstream jobs stay ids: both sides have the same.
fn described(job: &Value) -> Value {
    Value::Object(document::of_job(job, |_| None))
}

/// Opens the document in an editor; none when it is unchanged.
fn edit(job: &Value) -> Result<Option<Value>, Failure> {
    if !std::io::stdin().is_terminal() {
        let error = CliError::new("there is no terminal for an editor");
        return Err(error.hint("set fields with options, such as --cron").into());
    }
    let before = document::of_job(job, |_| None);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("job.yaml");
    fs::write(&file, document::to_yaml(std::slice::from_ref(&before))?)?;
    open_editor(&file)?;
    let path = file.to_string_lossy();
    let mut documents = document::read(&path)?;
    match documents.pop() {
        Some(after) if documents.is_empty() => {
            Ok((after.fields != before).then_some(Value::Object(after.fields)))
        }
        _ => Err(CliError::new("expected the document of one job").into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the person's own editor, at the person's word")]
fn open_editor(file: &std::path::Path) -> Result<(), Failure> {
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = named.unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_ascii_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = std::process::Command::new(program).args(words).arg(file).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format!("{editor} ended with {status}"))),
        Err(error) => Err(Failure::failed(format!("cannot start {editor}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_are_added_removed_or_replaced() {
        for (given, expected) in [
            (json!(["+c", "-a"]), Ok(json!(["b", "c"]))),
            (json!(["+b"]), Ok(json!(["a", "b"]))),
            (json!(["-x"]), Ok(json!(["a", "b"]))),
            (json!(["c"]), Ok(json!(["c"]))),
            (json!(["c", "+d"]), Err(())),
        ] {
            let mut tags = given.clone();
            let done = change_tags(&mut tags, &json!(["a", "b"])).map(|()| tags).map_err(drop);
            assert_eq!(done, expected, "{given}");
        }
    }
}
