//! Statements and their answers, whichever protocol they come by.

use std::collections::BTreeMap;

use bytes::BytesMut;
use domain::audit::{Event, Kind};
use engine::as_author;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use query::{Column, Row, Value};
use serde_json::json;
use sql::{Discard, Parsed, Statement};
use tokio::time::timeout;

use super::copy::Style;
use super::report::{self, Report, notice};
use super::session::{Over, Prepared, Step, Talk};
use super::value::{self, Format, size_of, type_of};
use crate::limit::KeyId;
use crate::problem::Code;
use crate::sql::{Answer, Shape, SqlError};

/// What clients are told of columns.
pub(super) fn row_description(columns: &[Column], formats: &[Format]) -> Out {
    let field = |(column, format): (&Column, &Format)| {
        let (name, code) = (column.name.replace('\0', "\u{fffd}"), format.code());
        FieldDescription::new(name, 0, 0, type_of(column.kind).oid(), size_of(column.kind), -1, code)
    };
    Out::RowDescription(RowDescription::new(columns.iter().zip(formats).map(field).collect()))
}

/// A row of an answer.
pub(super) fn data_row(
    columns: &[Column],
    row: &Row,
    formats: &[Format],
) -> Result<Out, Report> {
    let mut data = BytesMut::with_capacity(16 * row.len());
    for ((column, value), format) in columns.iter().zip(row).zip(formats) {
        value::put(&mut data, column.kind, value, *format)?;
    }
    let count = i16::try_from(columns.len());
    let count = count.map_err(|_| Report::new(report::TOO_MUCH, "a row has too many columns"))?;
    Ok(Out::DataRow(DataRow::new(data, count)))
}

impl Talk<'_> {
    /// Settings that a client named when it began. What is unknown is no reason to send it away.
    pub(super) async fn adopt(&mut self, parameters: &BTreeMap<String, String>) {
        for (name, value) in parameters {
            if !matches!(name.as_str(), "user" | "database" | "options" | "replication") {
                self.sql.adopt(name, value);
            }
        }
    }

    /// The simple protocol: a text of any number of statements. The first that fails ends it.
    pub(super) async fn simple(&mut self, text: String) -> Result<(), Over> {
        match self.all_of(&text).await {
            Ok(()) => {}
            Err(Step::Over(over)) => return Err(over),
            Err(Step::Failed(report)) => {
                self.sql.failed();
                self.wire.send(report.error()).await?;
            }
        }
        Ok(self.ready().await?)
    }

    async fn all_of(&mut self, text: &str) -> Result<(), Step> {
        let statements = sql::parse(text).map_err(|error| Report::syntax(error, text))?;
        if statements.is_empty() {
            self.wire.send(Out::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
        }
        for statement in &statements {
            if self.does_itself(text, statement).await? {
                continue;
            }
            let Answer { columns, rows, tag, .. } = self.run(text, statement, &[]).await?;
            if !columns.is_empty() {
                let formats = vec![Format::Text; columns.len()];
                self.wire.send(row_description(&columns, &formats)).await?;
                for row in rows {
                    self.wire.send(data_row(&columns, &row, &formats)?).await?;
                }
            }
            self.wire.send(Out::CommandComplete(CommandComplete::new(tag))).await?;
        }
        Ok(())
    }

    /// Does what is about the session itself; false for everything else.
    pub(super) async fn does_itself(
        &mut self,
        text: &str,
        parsed: &Parsed,
    ) -> Result<bool, Step> {
        let statement = &parsed.statement;
        self.sql.may_run(statement).map_err(|error| Report::of(error, text))?;
        match statement {
            Statement::Listen(channel) => {
                let actor = self.sql.actor().clone();
                if let Some(warning) = self.channels.add(&channel.value, &actor) {
                    self.wire.send(notice(&warning)).await?;
                }
            }
            Statement::Unlisten(channel) => {
                self.channels.remove(channel.as_ref().map(|channel| channel.value.as_str()));
            }
            Statement::Deallocate(Some(name)) => {
                if !self.statements.remove(&name.value) {
                    let text = format!("there is no prepared statement {:?}", name.value);
                    return Err(Report::new(report::NO_STATEMENT, text).into());
                }
            }
            Statement::Deallocate(None) => self.statements.clear(),
            Statement::Close(Some(name)) => {
                if !self.portals.remove(&name.value) {
                    let text = format!("there is no portal {:?}", name.value);
                    return Err(Report::new(report::NO_PORTAL, text).into());
                }
            }
            Statement::Close(None) => self.portals.clear(),
            Statement::Discard(Discard::All) => {
                self.statements.clear();
                self.channels.remove(None);
                // The session forgets the rest.
                return Ok(false);
            }
            Statement::Copy(copy) => {
                let style =
                    Style { csv: copy.csv, delimiter: copy.delimiter, null: &copy.null };
                let answer = self.run(text, parsed, &[]).await?;
                self.copy_out(style, copy.header, answer).await?;
                return Ok(true);
            }
            _ => return Ok(false),
        }
        let tag = statement.tag().to_owned();
        self.wire.send(Out::CommandComplete(CommandComplete::new(tag))).await?;
        Ok(true)
    }

    async fn copy_out(
        &mut self,
        style: Style<'_>,
        header: bool,
        answer: Answer,
    ) -> Result<(), Step> {
        let Answer { columns, rows, .. } = answer;
        let count = i16::try_from(columns.len()).unwrap_or(i16::MAX);
        let formats = vec![0; columns.len()];
        self.wire.send(Out::CopyOutResponse(CopyOutResponse::new(0, count, formats))).await?;
        if header {
            let line = style.line(columns.iter().map(|column| Some(column.name.clone())));
            self.wire.send(Out::CopyData(CopyData::new(line.into()))).await?;
        }
        let tag = format!("COPY {}", rows.len());
        for row in rows {
            let line = style.line(row.iter().map(value::text_of));
            self.wire.send(Out::CopyData(CopyData::new(line.into()))).await?;
        }
        self.wire.send(Out::CopyDone(CopyDone::new())).await?;
        self.wire.send(Out::CommandComplete(CommandComplete::new(tag))).await?;
        Ok(())
    }

    /// What a statement takes and answers.
    pub(super) async fn shape_of(
        &mut self,
        prepared: &Prepared,
        parsed: &Parsed,
    ) -> Result<Shape, Report> {
        let shape = self.sql.describe(&parsed.statement).await;
        shape.map_err(|error| Report::of(error, &prepared.text))
    }

    /// Runs a statement in the name of whoever asks, as long as they may, the statement takes no
    /// more time than it has, and nobody wants it to end. A change is not given up half-way.
    pub(super) async fn run(
        &mut self,
        text: &str,
        parsed: &Parsed,
        values: &[Value],
    ) -> Result<Answer, Step> {
        let kind = parsed.statement.tag();
        self.look_again().await?;
        self.may_ask().await?;
        let done = match parsed.statement.changes() {
            true => Ok(self.in_own_name(parsed, values).await),
            false => self.patiently(parsed, values).await,
        };
        let metrics = &self.door.app.metrics;
        match done {
            Ok(Ok(answer)) => {
                metrics.sql_statement(kind, "done");
                for text in &answer.notices {
                    self.wire.send(notice(text)).await?;
                }
                Ok(answer)
            }
            Ok(Err(error)) => {
                metrics.sql_statement(kind, "failed");
                if error.problem.code == Code::Forbidden {
                    self.record_refusal(kind, &error).await?;
                }
                Err(Report::of(error, text).into())
            }
            Err(step) => {
                metrics.sql_statement(kind, "cancelled");
                Err(step)
            }
        }
    }

    async fn in_own_name(&mut self, parsed: &Parsed, values: &[Value]) -> Result<Answer, SqlError> {
        let name = self.sql.actor().name.clone();
        as_author(name, self.sql.run(&parsed.statement, values)).await
    }

    /// Runs a question, which can be given up at any time.
    async fn patiently(
        &mut self,
        parsed: &Parsed,
        values: &[Value],
    ) -> Result<Result<Answer, SqlError>, Step> {
        let (wish, door, guest) = (self.registered.wish(), self.door, self.guest.clone());
        let patience = self.sql.statement_timeout(door.terms.statement_timeout);
        let watch = async {
            let mut look = tokio::time::interval(super::session::LOOK);
            loop {
                look.tick().await;
                if let Err(report) = super::session::actor_of(door, &guest).await {
                    return report;
                }
            }
        };
        let run = timeout(patience, self.in_own_name(parsed, values));
        tokio::select! {
            done = run => done.map_err(|_| {
                let text = "the statement took longer than it may";
                let hint = "ask for less, or SET statement_timeout";
                Report::new(report::CANCELLED, text).hint(hint).into()
            }),
            () = wish => {
                let text = "the statement was cancelled by its user";
                Err(Report::new(report::CANCELLED, text).into())
            }
            report = watch => Err(Over::Fatal(report).into()),
        }
    }

    /// Nobody asks more often than their tenant may.
    async fn may_ask(&self) -> Result<(), Report> {
        let app = &self.door.app;
        let actor = self.sql.actor();
        let rate = crate::actor::rate_of(app, actor).await?;
        let whose = match actor.key {
            Some(key) => KeyId(key.text()),
            None => KeyId(actor.user.0.to_string()),
        };
        self.door.limits.admit(&whose, rate, app.now())?;
        Ok(())
    }

    /// Whoever was refused has tried: an answer that cannot be recorded is not given.
    async fn record_refusal(&self, kind: &str, error: &SqlError) -> Result<(), Report> {
        let actor = self.sql.actor();
        let details = json!({ "statement": kind, "problem": error.problem.message });
        let event = Event {
            tenant: actor.tenant,
            actor: actor.name.clone(),
            kind: Kind::Denied,
            job: None,
            run: None,
            outcome: "DENIED".to_owned(),
            details: details.to_string(),
        };
        let recorded = self.door.app.scheduler.record(event).await;
        recorded.map_err(|error| crate::problem::Problem::from(error).into())
    }
}
