//! `punctual sql`: sends statements to a server's SQL interface, for scripts and machines without
//! psql.

mod connection;
mod editor;
mod repl;

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tokio::runtime::Builder;

use self::connection::{
    Credentials, ResultColumn, ServerMessage, SqlAddress, SqlConnection, address_of,
};
use crate::cli_error::{CliError, visible};
use crate::client::{Client, ServerArgs, data_folder};
use crate::data::SQL_FILE;
use crate::exit::{Exit, Failure};
use crate::{output, table};

/// The default port of the SQL interface.
const PORT_DEFAULT: u16 = 8632;

/// The statements, and the format of the output.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual sql -c \"CREATE JOB hello SCHEDULE CRON '* * * * *' AS HTTP 'GET https://example.com'\"
  punctual sql -c 'SELECT job_name, state FROM sys.jobs' -o csv
  punctual sql -f jobs.sql
  echo 'SHOW JOBS' | punctual sql

Without -c and -f the statements are typed, with history and completion, or come from stdin where
that is no terminal. They run one after the other, and the first that
fails ends the command. Rows are on stdout, everything else is on stderr. The server and the key are
found as with the other commands; psql does the same with
  psql \"host=127.0.0.1 port=8632 user=admin dbname=default\"")]
pub struct SqlArgs {
    /// Statements to run, as with --command
    #[arg(value_name = "SQL", conflicts_with_all = ["command", "file"])]
    statements: Option<String>,

    /// Statements to run; can be given several times
    #[arg(short, long, value_name = "SQL", conflicts_with = "file")]
    command: Vec<String>,

    /// File with statements; - for stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Form of the rows
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = RowFormat::Table)]
    output: RowFormat,

    /// Print no remarks on stderr, only errors
    #[arg(short, long)]
    quiet: bool,

    /// Address of the SQL interface [default: that of the data folder, or port 8632 of the server]
    #[arg(long, value_name = "ADDR")]
    pg: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

/// A form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RowFormat {
    Table,
    Json,
    Csv,
}

/// Runs the statements.
pub fn run(args: SqlArgs) -> Result<(), Failure> {
    let is_typed = args.command.is_empty()
        && args.statements.is_none()
        && args.file.is_none()
        && io::stdin().is_terminal()
        && io::stdout().is_terminal();
    let texts = if is_typed { Vec::new() } else { texts(&args)? };
    let client = Client::new(&args.server)?;
    let address = find(&args, &client)?;
    let me = client.get(&["v1", "whoami"])?;
    let (user, tenant) = (output::text(&me, "user"), output::text(&me, "tenant"));
    let secret = client.place().token().unwrap_or_default().to_owned();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let credentials = Credentials { user: &user, secret: &secret, tenant: &tenant };
        let mut connection = SqlConnection::open(&address, &credentials).await?;
        if is_typed {
            return repl::run(&mut connection, &args).await;
        }
        for text in &texts {
            show(&mut connection, text, &args).await?;
        }
        Ok(())
    })
}

fn texts(args: &SqlArgs) -> Result<Vec<String>, Failure> {
    if !args.command.is_empty() || args.statements.is_some() {
        return Ok(args.statements.iter().chain(&args.command).cloned().collect());
    }
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::failed(format!("{} cannot be read: {error}", file.display()))
        })?;
        return Ok(vec![text]);
    }
    if io::stdin().is_terminal() && !args.quiet {
        let _ = writeln!(io::stderr(), "Type statements and end them with Ctrl-D:");
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(vec![text])
}

/// Where the server answers SQL.
fn find(args: &SqlArgs, client: &Client) -> Result<SqlAddress, Failure> {
    let url = client.place().url();
    let tls = url.scheme() == "https";
    if let Some(text) = &args.pg {
        return address_of(text, tls).ok_or_else(|| {
            CliError::new(format!("--pg: {text:?} is not an address"))
                .hint("an address looks like 127.0.0.1:8632")
                .into()
        });
    }
    let folder = data_folder(&args.server);
    let written = std::fs::read_to_string(folder.join(crate::data::URL_FILE)).unwrap_or_default();
    // The folder has the address of its own server only.
    if written.trim().trim_end_matches('/') == url.as_str().trim_end_matches('/') {
        let text = std::fs::read_to_string(folder.join(SQL_FILE)).unwrap_or_default();
        return address_of(text.trim(), tls).ok_or_else(|| {
            let text = format!("the server of {} does not answer SQL", folder.display());
            let hint = "the SQL interface is disabled: start the server with --pg 127.0.0.1:8632";
            Failure::Ended(Exit::Unreachable, CliError::new(text).hint(hint))
        });
    }
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(SqlAddress { host, port: PORT_DEFAULT, tls })
}

/// Asks a text and prints the answers.
async fn show(connection: &mut SqlConnection, text: &str, args: &SqlArgs) -> Result<(), Failure> {
    let say = |text: &str| {
        if !args.quiet {
            // When stderr is gone, there is no other place to report it.
            let _ = writeln!(io::stderr(), "{}", visible(text));
        }
    };
    connection.ask(text).await?;
    let (mut columns, mut rows, mut failure) = (None, Vec::new(), None);
    loop {
        match connection.next().await? {
            ServerMessage::Columns(named) => columns = Some(named),
            ServerMessage::Row(row) => rows.push(row),
            ServerMessage::Lines(lines) => print_lines(&lines)?,
            ServerMessage::Notice(text) => say(&format!("notice: {text}")),
            ServerMessage::Done(tag) => match columns.take() {
                Some(columns) => {
                    print(args.output, &columns, &std::mem::take(&mut rows))?;
                }
                None => say(&tag),
            },
            ServerMessage::Failed(trouble) => failure = Some(trouble.failure(Some(text))),
            ServerMessage::Ready => return failure.map_or(Ok(()), Err),
        }
    }
}

fn print(
    format: RowFormat,
    columns: &[ResultColumn],
    rows: &[Vec<Option<String>>],
) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match format {
        RowFormat::Table => {
            let names: Vec<String> = columns.iter().map(|column| visible(&column.name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let cells = |row: &Vec<Option<String>>| {
                row.iter().map(|value| visible(value.as_deref().unwrap_or_default())).collect()
            };
            table::print(&mut out, "", &names, rows.iter().map(cells))?;
        }
        RowFormat::Json => {
            let objects: Vec<Value> = rows.iter().map(|row| object(columns, row)).collect();
            writeln!(out, "{}", output::json(&objects, true))?;
        }
        RowFormat::Csv => {
            let names = columns.iter().map(|column| Some(column.name.as_str()));
            writeln!(out, "{}", csv(names))?;
            for row in rows {
                writeln!(out, "{}", csv(row.iter().map(Option::as_deref)))?;
            }
        }
    }
    out.flush()
}

/// Lines that a server wrote go to a file as they are, and to a terminal without what acts on it.
fn print_lines(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        return out.write_all(lines);
    }
    String::from_utf8_lossy(lines).lines().try_for_each(|line| writeln!(out, "{}", visible(line)))
}

/// A row as JSON: numbers, truth and JSON are what they are, everything else is text.
fn object(columns: &[ResultColumn], row: &[Option<String>]) -> Value {
    let value = |column: &ResultColumn, value: &Option<String>| {
        let Some(text) = value else { return Value::Null };
        let read = match column.oid {
            16 => Some(Value::Bool(text == "t")),
            20 | 21 | 23 | 114 | 700 | 701 | 1700 | 3802 => serde_json::from_str(text).ok(),
            _ => None,
        };
        read.unwrap_or_else(|| Value::String(text.clone()))
    };
    let fields =
        columns.iter().zip(row).map(|(column, text)| (column.name.clone(), value(column, text)));
    Value::Object(Map::from_iter(fields))
}

/// A line of CSV (RFC 4180).
fn csv<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    let quoted = |value: Option<&str>| match value {
        None => String::new(),
        // An empty text is not nothing.
        Some(text) if text.is_empty() || text.contains([',', '"', '\n', '\r']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Some(text) => text.to_owned(),
    };
    values.map(quoted).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_types_in_json() {
        let column = |name: &str, oid| ResultColumn { name: name.to_owned(), oid };
        let columns = [
            column("n", 20),
            column("yes", 16),
            column("text", 25),
            column("json", 114),
            column("none", 20),
        ];
        let row = ["7", "t", "7", "{\"a\":1}"].map(|text| Some(text.to_owned()));
        let row: Vec<_> = row.into_iter().chain([None]).collect();
        let expected = serde_json::json!({
            "n": 7, "yes": true, "text": "7", "json": {"a": 1}, "none": null,
        });
        assert_eq!(object(&columns, &row), expected);
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let line = csv([Some("a,b"), None, Some(""), Some("say \"x\""), Some("plain")].into_iter());
        assert_eq!(line, "\"a,b\",,\"\",\"say \"\"x\"\"\",plain");
    }
}
