//! The extended protocol: a statement is prepared, bound to values, described and executed in
//! messages of their own.

use std::sync::Arc;

use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended, TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use postgres_types::Type;
use query::Value;
use sql::{Parsed, Statement};

use super::answer::row_description;
use super::portal::{Rows, formats};
use super::report::{self, Report};
use super::session::{Portal, Prepared, Step, Talk};
use super::value::{self, Format};

type Done = Result<(), Step>;

impl Talk<'_> {
    /// Keeps a statement.
    pub(super) async fn parse(&mut self, parse: Parse) -> Done {
        let Parse { name, query: text, type_oids, .. } = parse;
        let mut statements = self.read(&text).await?;
        if statements.len() > 1 {
            let text = "a prepared statement is one statement";
            return Err(Report::new("42601", text).into());
        }
        let statement = statements.pop();
        let type_of = |oid: &u32| Type::from_oid(*oid).unwrap_or(Type::UNKNOWN);
        let types = type_oids.iter().map(type_of).collect();
        let name = name.unwrap_or_default();
        // Portals that are bound to the old statement are closed with it.
        if name.is_empty() {
            self.portals.remove("");
        }
        let bytes = text.len() + name.len();
        let prepared = Arc::new(Prepared { text, statement, types });
        self.statements.put(&name, prepared, bytes)?;
        self.wire.send(Out::ParseComplete(ParseComplete::new())).await?;
        Ok(())
    }

    /// Binds values to a statement.
    pub(super) async fn bind(&mut self, bind: Bind) -> Done {
        let name = bind.statement_name.unwrap_or_default();
        let prepared = Arc::clone(self.statements.get(&name)?);
        let types = self.types_of(&prepared).await?;
        if bind.parameters.len() != types.len() {
            let (given, needed) = (bind.parameters.len(), types.len());
            let text = format!("the statement takes {needed} values and was given {given}");
            return Err(Report::new(report::PROTOCOL, text).into());
        }
        let formats = formats(&bind.parameter_format_codes, types.len())?;
        let mut values = Vec::with_capacity(types.len());
        for (place, (kind, bytes)) in types.iter().zip(&bind.parameters).enumerate() {
            values.push(value::read(place + 1, kind, bytes.as_deref(), formats[place])?);
        }
        let portal = Portal {
            prepared,
            values,
            formats: bind.result_column_format_codes,
            rows: None,
            is_done: false,
        };
        self.portals.put(&bind.portal_name.unwrap_or_default(), portal, 0)?;
        self.wire.send(Out::BindComplete(BindComplete::new())).await?;
        Ok(())
    }

    /// The types of a statement's parameters: those that the client declared, or else those that
    /// the statement needs.
    async fn types_of(&mut self, prepared: &Prepared) -> Result<Vec<Type>, Report> {
        let Some(statement) = &prepared.statement else { return Ok(Vec::new()) };
        let shape = self.shape_of(prepared, statement).await?;
        let said = |place: usize| {
            prepared.types.get(place).filter(|kind| **kind != Type::UNKNOWN).cloned()
        };
        let types = shape.parameters.iter().enumerate();
        Ok(types.map(|(place, kind)| said(place).unwrap_or(value::type_of(*kind))).collect())
    }

    /// Tells what a statement takes and answers, or what a portal does.
    pub(super) async fn describe(&mut self, describe: Describe) -> Done {
        let name = describe.name.unwrap_or_default();
        let (prepared, codes) = match describe.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let prepared = Arc::clone(self.statements.get(&name)?);
                let types = self.types_of(&prepared).await?;
                let oids = types.iter().map(Type::oid).collect();
                self.wire.send(Out::ParameterDescription(ParameterDescription::new(oids))).await?;
                (prepared, Vec::new())
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let portal = self.portals.get(&name)?;
                (Arc::clone(&portal.prepared), portal.formats.clone())
            }
            other => return Err(neither(other).into()),
        };
        let columns = match &prepared.statement {
            // COPY sends no rows.
            Some(Parsed { statement: Statement::Copy(_), .. }) | None => Vec::new(),
            Some(statement) => self.shape_of(&prepared, statement).await?.columns,
        };
        let message = if columns.is_empty() {
            Out::NoData(NoData::new())
        } else {
            row_description(&columns, &formats(&codes, columns.len())?)
        };
        self.wire.send(message).await?;
        Ok(())
    }

    /// Sends the next rows of a portal. The first call executes its statement.
    pub(super) async fn execute(&mut self, execute: Execute) -> Done {
        let name = execute.name.unwrap_or_default();
        let portal = self.portals.get(&name)?;
        let prepared = Arc::clone(&portal.prepared);
        let Some(statement) = &prepared.statement else {
            self.wire.send(Out::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
            return Ok(());
        };
        if portal.is_done {
            let text = format!("the portal {name:?} has given all that it had");
            return Err(Report::new("55000", text).into());
        }
        if portal.rows.is_none() {
            let values: Vec<Value> = portal.values.clone();
            let answer = self.run(&prepared.text, statement, &values).await?;
            if let Statement::Copy(copy) = &statement.statement {
                self.copy_out(&prepared.text, copy, answer).await?;
                return self.end_portal(&name);
            }
            let rows = Rows::from(answer);
            if rows.columns.is_empty() {
                self.wire.send(Out::CommandComplete(CommandComplete::new(rows.tag()))).await?;
                return self.end_portal(&name);
            }
            self.portals.get(&name)?.rows = Some(rows);
        }
        self.give(&name, usize::try_from(execute.max_rows).unwrap_or(0)).await
    }

    /// A statement that answers no rows is done once. It may have closed its own portal.
    fn end_portal(&mut self, name: &str) -> Done {
        if let Ok(portal) = self.portals.get(name) {
            portal.is_done = true;
        }
        Ok(())
    }

    /// Gives so many rows of a portal; all when 0.
    async fn give(&mut self, name: &str, limit: usize) -> Done {
        let mut watch = self.watch();
        let Talk { portals, wire, .. } = self;
        let portal = portals.get(name)?;
        let prepared = Arc::clone(&portal.prepared);
        let codes = std::mem::take(&mut portal.formats);
        let Some(rows) = &mut portal.rows else { return Ok(()) };
        let formats: Vec<Format> = formats(&codes, rows.columns.len())?;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut given = 0;
        while given < limit
            && let Some(row) = rows.next(&mut watch, &prepared.text).await?
        {
            wire.send(super::answer::data_row(&rows.columns, &row, &formats)?).await?;
            given += 1;
        }
        let is_more = given == limit && rows.is_more(&mut watch, &prepared.text).await?;
        let was_begun = std::mem::replace(&mut rows.is_begun, true);
        let message = if is_more {
            portal.formats = codes;
            Out::PortalSuspended(PortalSuspended::new())
        } else {
            portal.is_done = true;
            let rows = portal.rows.take();
            let tag = rows.map(|rows| rows.tag()).unwrap_or_default();
            // If the client fetched the rows in parts, the tag has the count of the last part.
            let tag = match tag.strip_prefix("SELECT ") {
                Some(_) if was_begun => format!("SELECT {given}"),
                _ => tag,
            };
            Out::CommandComplete(CommandComplete::new(tag))
        };
        wire.send(message).await?;
        Ok(())
    }

    /// Forgets a statement or a portal.
    pub(super) async fn close(&mut self, close: Close) -> Done {
        let name = close.name.unwrap_or_default();
        match close.target_type {
            TARGET_TYPE_BYTE_STATEMENT => self.statements.remove(&name),
            TARGET_TYPE_BYTE_PORTAL => self.portals.remove(&name),
            other => return Err(neither(other).into()),
        };
        self.wire.send(Out::CloseComplete(CloseComplete::new())).await?;
        Ok(())
    }
}

fn neither(kind: u8) -> Report {
    Report::new(report::PROTOCOL, format!("{kind:#04x} is neither a statement nor a portal"))
}
