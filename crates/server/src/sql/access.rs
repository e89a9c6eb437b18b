//! Grants, users and roles.

use domain::access::{Award, Awarded, Deed, Entry, GrantText, Kind, Record, Role, User, Verifier};
use domain::id::{RoleId, UserId};
use engine::EngineError;
use sql::{
    Grant, Grantable, Grantee, GranteeKind, Hidden, RoleStatement, Spanned, Statement,
    UserStatement, Verb,
};
use uuid::Uuid;

use super::{Answer, Result, Session, SqlError};
use crate::login;
use crate::problem::{Code, Problem};
use crate::rest::entry::new_id;

impl Session {
    async fn entry(&self, kind: Kind, name: &Spanned<String>) -> Result<Record> {
        let found = self.app.engine.by(&self.actor).entry(kind, &name.value).await;
        found.map_err(|error| SqlError::from(error).or_at(name.at))
    }

    /// The entry, or none when it is not there.
    async fn entry_if(&self, kind: Kind, name: &Spanned<String>) -> Result<Option<Record>> {
        match self.app.engine.by(&self.actor).entry(kind, &name.value).await {
            Ok(record) => Ok(Some(record)),
            Err(EngineError::NotFound(_)) => Ok(None),
            Err(error) => Err(SqlError::from(error).or_at(name.at)),
        }
    }

    async fn grantee(&self, whom: &Grantee) -> Result<Uuid> {
        let kinds = match whom.kind {
            Some(GranteeKind::User) => [Some(Kind::User), None],
            Some(GranteeKind::Role) => [Some(Kind::Role), None],
            None => [Some(Kind::User), Some(Kind::Role)],
        };
        for kind in kinds.into_iter().flatten() {
            if let Some(record) = self.entry_if(kind, &whom.name).await? {
                return Ok(record.entry.id());
            }
        }
        let text = format!("there is no user or role {:?}", whom.name.value);
        Err(SqlError::new(Code::EntryNotFound, text).or_at(whom.name.at))
    }

    /// Gives or takes: one award after the other, each on its own.
    pub(super) async fn grant(&self, grant: &Grant, give: bool) -> Result<Answer> {
        let mut answer = Answer::done(if give { "GRANT" } else { "REVOKE" });
        for whom in &grant.whom {
            let to = self.grantee(whom).await?;
            for given in &grant.what {
                let what = match given {
                    Grantable::Privilege(privilege) => Awarded::Privilege(*privilege),
                    Grantable::Database(name) => Awarded::Database(name.value.clone()),
                    Grantable::Queue(right, name) => {
                        let text = GrantText::Queue(*right, name.value.clone());
                        let found = self.app.engine.by(&self.actor).granted(&text).await;
                        found.map_err(|error| SqlError::from(error).or_at(name.at))?
                    }
                    Grantable::Role(role) => {
                        Awarded::Role(RoleId(self.entry(Kind::Role, role).await?.entry.id()))
                    }
                };
                let award = Award { tenant: self.actor.tenant, to, what };
                let name = sql::quoted(&whom.name.value);
                let placed = |error: EngineError| SqlError::from(error).or_at(whom.name.at);
                if give {
                    let is_new = self.app.engine.by(&self.actor).award(award).await;
                    if !is_new.map_err(placed)? {
                        answer.notices.push(format!("{name} has it already"));
                    }
                } else {
                    match self.app.engine.by(&self.actor).revoke(award.id()).await {
                        Err(EngineError::NotFound(_)) => {
                            answer.notices.push(format!("{name} does not have it"));
                        }
                        done => done.map_err(placed)?,
                    }
                }
            }
        }
        Ok(answer)
    }

    pub(super) async fn user(&self, asked: &UserStatement) -> Result<Answer> {
        let tag = Statement::User(asked.clone()).tag();
        let Some(known) = self.known(Kind::User, asked.verb, &asked.name).await? else {
            return Ok(Answer::done(tag).with_notice(skipped("user", asked.verb, &asked.name)));
        };
        // Hashing costs a lot, so who may not do this does not get so far.
        let may = self.actor.may(Deed::ChangeAccess);
        may.map_err(|problem| SqlError::from(problem).or_at(asked.name.at))?;
        let id = match &known {
            Known::Yes(record) => UserId(record.entry.id()),
            Known::No => UserId(new_id(&self.app)),
        };
        let password = match &asked.password {
            None => None,
            Some(None) => Some((None, None)),
            Some(Some(Hidden(password))) => Some(self.kept(id, &asked.name, password).await?),
        };
        let name = asked.rename.as_ref().unwrap_or(&asked.name);
        let user = match known {
            Known::No => {
                let (password, scram) = password.unwrap_or_default();
                User {
                    id,
                    tenant: self.actor.tenant,
                    name: name.value.clone(),
                    password,
                    scram,
                    disabled: asked.disabled.unwrap_or(false),
                }
            }
            Known::Yes(record) => {
                let Entry::User(user) = record.entry.clone() else {
                    return Err(SqlError::internal());
                };
                let (password, scram) = password.unwrap_or((user.password, user.scram));
                let user = User {
                    name: asked.rename.as_ref().map_or(user.name, |name| name.value.clone()),
                    password,
                    scram,
                    disabled: asked.disabled.unwrap_or(user.disabled),
                    ..user
                };
                return self.changed(asked.verb, record, Entry::User(user), name.at, tag).await;
            }
        };
        self.put(Entry::User(user), None, name.at).await?;
        Ok(Answer::done(tag))
    }

    /// The hash and the SCRAM verifier that are stored of a password.
    async fn kept(
        &self,
        user: UserId,
        name: &Spanned<String>,
        password: &str,
    ) -> Result<(Option<String>, Option<Box<Verifier>>)> {
        // psql's \password sends what PostgreSQL keeps, and not the password.
        if password.starts_with("SCRAM-SHA-256$") || password.starts_with("md5") {
            let text = "a password that is hashed already cannot be taken";
            let error = SqlError::new(Code::NotSupported, text).or_at(name.at);
            return Err(error.with_hint("Send the password itself, over TLS."));
        }
        let kept = login::kept(&self.app, user, &name.value, password.to_owned()).await;
        kept.map_err(|problem: Problem| SqlError::from(problem).or_at(name.at))
    }

    pub(super) async fn role(&self, asked: &RoleStatement) -> Result<Answer> {
        let tag = Statement::Role(asked.clone()).tag();
        let Some(known) = self.known(Kind::Role, asked.verb, &asked.name).await? else {
            return Ok(Answer::done(tag).with_notice(skipped("role", asked.verb, &asked.name)));
        };
        let name = asked.rename.as_ref().unwrap_or(&asked.name);
        let role = match known {
            Known::No => Role {
                id: RoleId(new_id(&self.app)),
                tenant: self.actor.tenant,
                name: name.value.clone(),
                description: asked.description.clone().flatten(),
                run_as: asked.run_as.unwrap_or(false),
            },
            Known::Yes(record) => {
                let Entry::Role(role) = record.entry.clone() else {
                    return Err(SqlError::internal());
                };
                let role = Role {
                    name: asked.rename.as_ref().map_or(role.name, |name| name.value.clone()),
                    description: asked.description.clone().unwrap_or(role.description),
                    run_as: asked.run_as.unwrap_or(role.run_as),
                    ..role
                };
                return self.changed(asked.verb, record, Entry::Role(role), name.at, tag).await;
            }
        };
        self.put(Entry::Role(role), None, name.at).await?;
        Ok(Answer::done(tag))
    }

    /// The target of a statement: a new entry, or an existing one. None if it does not exist and
    /// `IF EXISTS` was given.
    async fn known(&self, kind: Kind, verb: Verb, name: &Spanned<String>) -> Result<Option<Known>> {
        Ok(match verb {
            Verb::Create | Verb::CreateOrAlter => Some(Known::No),
            Verb::CreateIfAbsent => match self.entry_if(kind, name).await? {
                Some(_) => None,
                None => Some(Known::No),
            },
            Verb::Alter | Verb::Drop => Some(Known::Yes(Box::new(self.entry(kind, name).await?))),
            Verb::DropIfPresent => {
                self.entry_if(kind, name).await?.map(|it| Known::Yes(Box::new(it)))
            }
        })
    }

    /// Changes an entry that is there, or removes it.
    async fn changed(
        &self,
        verb: Verb,
        known: Box<Record>,
        entry: Entry,
        at: usize,
        tag: &str,
    ) -> Result<Answer> {
        match verb {
            Verb::Drop | Verb::DropIfPresent => {
                let done = self.app.engine.by(&self.actor).remove_entry(&known.entry, None).await;
                done.map_err(|error| SqlError::from(error).or_at(at))?;
            }
            _ => self.put(entry, Some(known.version), at).await?,
        }
        Ok(Answer::done(tag))
    }

    async fn put(&self, entry: Entry, expected: Option<u32>, at: usize) -> Result<()> {
        let done = self.app.engine.by(&self.actor).put_entry(entry, expected).await;
        done.map(drop).map_err(|error| SqlError::from(error).or_at(at))
    }
}

enum Known {
    No,
    Yes(Box<Record>),
}

fn skipped(kind: &str, verb: Verb, name: &Spanned<String>) -> String {
    let name = sql::quoted(&name.value);
    match verb {
        Verb::CreateIfAbsent => format!("{kind} {name} already exists, skipping"),
        _ => format!("{kind} {name} does not exist, skipping"),
    }
}
