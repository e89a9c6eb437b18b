//! Statements and their answers, whichever protocol they come by.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use query::{Column, Row, Value};
use sql::{Copy, Discard, Parsed, Spanned, Statement};
use tokio::time::timeout;

use super::copy::Style;
use super::portal::Rows;
use super::report::{self, Report, notice};
use super::session::{Over, Prepared, Step, Talk};
use super::value::{self, Format, size_of, type_of};
use super::watch::Watch;
use crate::limit::Asker;
use crate::sql::{Answer, Described, SqlError};

/// The message `RowDescription` of these columns.
pub(super) fn row_description(columns: &[Column], formats: &[Format]) -> Out {
    let field = |(column, format): (&Column, &Format)| {
        let (name, code) = (column.name.replace('\0', "\u{fffd}"), format.code());
        FieldDescription::new(
            name,
            0,
            0,
            type_of(column.kind).oid(),
            size_of(column.kind),
            -1,
            code,
        )
    };
    Out::RowDescription(RowDescription::new(columns.iter().zip(formats).map(field).collect()))
}

/// A row of an answer.
pub(super) fn data_row(columns: &[Column], row: &Row, formats: &[Format]) -> Result<Out, Report> {
    let mut data = BytesMut::with_capacity(16 * row.len());
    for ((column, value), format) in columns.iter().zip(row).zip(formats) {
        value::put(&mut data, column.kind, value, *format)?;
    }
    let count = i16::try_from(columns.len());
    let count = count.map_err(|_| Report::new(report::TOO_MUCH, "a row has too many columns"))?;
    Ok(Out::DataRow(DataRow::new(data, count)))
}

impl<'a> Talk<'a> {
    /// Settings that a client named when it began. Unknown ones are ignored.
    pub(super) fn adopt(&mut self, parameters: &BTreeMap<String, String>) {
        for (name, value) in parameters {
            if !matches!(name.as_str(), "user" | "database" | "options" | "replication") {
                let _ = self.sql.set(name, value);
            }
        }
    }

    /// The simple protocol: a text of any number of statements. The first that fails ends it.
    pub(super) async fn simple(&mut self, text: String) -> Result<(), Over> {
        match self.all_of(&text).await {
            Ok(()) => {}
            Err(Step::Over(over)) => return Err(over),
            Err(Step::Failed(report)) => {
                self.sql.fail();
                self.refuse(report).await?;
            }
        }
        Ok(self.ready().await?)
    }

    async fn all_of(&mut self, text: &str) -> Result<(), Step> {
        let statements = self.read(text).await?;
        if statements.is_empty() {
            self.wire.send(Out::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
        }
        for statement in &statements {
            let answer = self.run(text, statement, &[]).await?;
            if let Statement::Copy(copy) = &statement.statement {
                self.copy_out(text, copy, answer).await?;
                continue;
            }
            let mut rows = Rows::from(answer);
            if !rows.columns.is_empty() {
                let mut watch = self.watch();
                let formats = vec![Format::Text; rows.columns.len()];
                self.wire.send(row_description(&rows.columns, &formats)).await?;
                while let Some(row) = rows.next(&mut watch, text).await? {
                    self.wire.send(data_row(&rows.columns, &row, &formats)?).await?;
                }
            }
            self.wire.send(Out::CommandComplete(CommandComplete::new(rows.tag()))).await?;
        }
        Ok(())
    }

    /// The statements of a text. One that cannot be read counts like one that is run.
    pub(super) async fn read(&mut self, text: &str) -> Result<Vec<Parsed>, Report> {
        match sql::parse(text) {
            Ok(statements) => Ok(statements),
            Err(error) => {
                self.may_ask()?;
                Err(Report::syntax(error, text))
            }
        }
    }

    /// Applies a statement to the connection itself.
    async fn apply(&mut self, statement: &Statement) -> Result<(), Step> {
        let gone = |sqlstate, what: &str, name: &Spanned<String>| {
            Report::new(sqlstate, format!("there is no {what} {:?}", name.value))
        };
        match statement {
            Statement::Listen(channel) => {
                if let Some(warning) = self.channels.add(&channel.value, self.sql.actor()) {
                    self.wire.send(notice(&warning)).await?;
                }
            }
            Statement::Unlisten(channel) => {
                self.channels.remove(channel.as_ref().map(|channel| channel.value.as_str()));
            }
            Statement::Deallocate(Some(name)) if !self.statements.remove(&name.value) => {
                return Err(gone(report::NO_STATEMENT, "prepared statement", name).into());
            }
            Statement::Deallocate(None) => self.statements.clear(),
            Statement::Close(Some(name)) if !self.portals.remove(&name.value) => {
                return Err(gone(report::NO_PORTAL, "portal", name).into());
            }
            Statement::Close(None) => self.portals.clear(),
            Statement::Discard(Discard::All) => {
                self.statements.clear();
                self.channels.remove(None);
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes an answer out.
    pub(super) async fn copy_out(
        &mut self,
        text: &str,
        copy: &Copy,
        answer: Answer,
    ) -> Result<(), Step> {
        let style = Style { csv: copy.csv, delimiter: copy.delimiter, null: &copy.null };
        let (mut rows, mut watch) = (Rows::from(answer), self.watch());
        let columns = &rows.columns;
        let count = i16::try_from(columns.len()).unwrap_or(i16::MAX);
        let formats = vec![0; columns.len()];
        self.wire.send(Out::CopyOutResponse(CopyOutResponse::new(0, count, formats))).await?;
        if copy.header {
            let line = style.line(columns.iter().map(|column| Some(column.name.clone())));
            self.wire.send(Out::CopyData(CopyData::new(line.into()))).await?;
        }
        while let Some(row) = rows.next(&mut watch, text).await? {
            let line = style.line(row.iter().map(value::text_of));
            self.wire.send(Out::CopyData(CopyData::new(line.into()))).await?;
        }
        self.wire.send(Out::CopyDone(CopyDone::new())).await?;
        self.wire.send(Out::CommandComplete(CommandComplete::new(rows.tag()))).await?;
        Ok(())
    }

    /// The parameters and columns of a statement.
    pub(super) async fn shape_of(
        &mut self,
        prepared: &Prepared,
        parsed: &Parsed,
    ) -> Result<Described, Report> {
        let described = self.sql.describe(&parsed.statement).await;
        described.map_err(|error| Report::of(error, &prepared.text))
    }

    /// Runs a statement in the name of the actor, as long as they may, the statement takes no
    /// more time than it has, and it is not cancelled. A change is not given up half-way.
    pub(super) async fn run(
        &mut self,
        text: &str,
        parsed: &Parsed,
        values: &[Value],
    ) -> Result<Answer, Step> {
        let kind = parsed.statement.tag();
        self.look_again().await?;
        self.may_ask()?;
        let done = match parsed.statement.changes() {
            true => Ok(self.sql.run(&parsed.statement, values).await),
            false => self.patiently(parsed, values).await,
        };
        let metrics = &self.listener.app.metrics;
        match done {
            Ok(Ok(answer)) => {
                metrics.sql_statement(kind, "done");
                for text in &answer.notices {
                    self.wire.send(notice(text)).await?;
                }
                self.apply(&parsed.statement).await?;
                self.report_settings().await?;
                Ok(answer)
            }
            Ok(Err(error)) => {
                metrics.sql_statement(kind, "failed");
                Err(Report::of(error, text).into())
            }
            Err(step) => {
                metrics.sql_statement(kind, "cancelled");
                Err(step)
            }
        }
    }

    /// Runs a question, which can be given up at any time.
    async fn patiently(
        &mut self,
        parsed: &Parsed,
        values: &[Value],
    ) -> Result<Result<Answer, SqlError>, Step> {
        let (patience, mut watch) = (self.patience(), self.watch());
        let run = timeout(patience, self.sql.run(&parsed.statement, values));
        tokio::select! {
            done = run => done.map_err(|_| {
                let text = format!("statement timeout exceeded ({patience:?})");
                let hint = "ask for less, or SET statement_timeout; \
                            no longer than sql.statement_timeout";
                Report::new(report::CANCELLED, text).hint(hint).into()
            }),
            step = watch.ended() => Err(step),
        }
    }

    /// Watches whether the client may still be here, and wants its answer.
    pub(super) fn watch(&self) -> Watch<'a> {
        Watch::new(self.listener, self.login.clone(), self.registered.wish())
    }

    /// The statement timeout: that of the session, and at most that of the listener.
    fn patience(&self) -> Duration {
        let most = self.listener.terms.statement_timeout;
        self.sql.statement_timeout().map_or(most, |wish| wish.min(most))
    }

    /// The rate limit of the tenant.
    fn may_ask(&self) -> Result<(), Report> {
        let app = &self.listener.app;
        let actor = self.sql.actor();
        let rate = crate::actor::rate_of(app, actor);
        let whose = Asker(actor.key.map_or(actor.user.0, |key| key.0));
        self.listener.limits.admit(&whose, rate, app.now())?;
        Ok(())
    }
}
