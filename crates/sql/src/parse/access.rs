//! Grants, users, roles and secrets.

use domain::access::{Privilege, QueueRight};
use sqlparser::tokenizer::Token;

use super::job::JOB;
use crate::reader::Reader;
use crate::statement::{
    Grant, Grantable, Grantee, GranteeKind, Hidden, RoleStatement, SecretScope, SecretStatement,
    Spanned, Statement, UserStatement, Verb,
};
use crate::syntax::Result;

pub(super) fn grant(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::Grant(given(reader, "TO")?))
}

pub(super) fn revoke(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::Revoke(given(reader, "FROM")?))
}

fn given(reader: &mut Reader<'_>, preposition: &str) -> Result<Grant> {
    let what = reader.list(|reader| {
        let privilege = Privilege::ALL.into_iter().find(|privilege| {
            let words: Vec<&str> = privilege.name().split(' ').collect();
            reader.eat(&words) || reader.eat(&[&words.join("_")])
        });
        if let Some(privilege) = privilege {
            return Ok(Grantable::Privilege(privilege));
        }
        if reader.eat(&["USE", "ON", "DATABASE"]) {
            return Ok(Grantable::Database(reader.name("the name of a database")?));
        }
        for right in QueueRight::ALL {
            if reader.eat(&[right.name(), "ON", "QUEUE"]) {
                return Ok(Grantable::Queue(right, reader.name("the name of a queue")?));
            }
        }
        reader.eat(&["ROLE"]);
        Ok(Grantable::Role(reader.name("a privilege or the name of a role")?))
    })?;
    if reader.is(&["ON"]) {
        let hint = "A privilege holds for all jobs of the tenant; RUN AS needs a grant of a role, \
                    a database USE ON DATABASE.";
        return Err(reader.unexpected(preposition).with_hint(hint));
    }
    if !reader.eat(&[preposition]) {
        // An unknown privilege that was parsed as the name of a role.
        let names = Privilege::ALL.map(Privilege::name).join(", ");
        let error = reader.unexpected_word(preposition, [preposition]);
        let is_role = matches!(what.last(), Some(Grantable::Role(_)));
        return Err(match error.hint.is_none() && is_role {
            true => error.with_hint(format!("The privileges are {names}.")),
            false => error,
        });
    }
    let whom = reader.list(|reader| {
        // A user may be named `user`.
        let has_name = reader.lexemes().get(1).is_some_and(|next| next.token != Token::Comma);
        let kind = if has_name && reader.eat(&["USER"]) {
            Some(GranteeKind::User)
        } else if has_name && reader.eat(&["ROLE"]) {
            Some(GranteeKind::Role)
        } else {
            None
        };
        Ok(Grantee { kind, name: reader.name("the name of a user or a role")? })
    })?;
    Ok(Grant { what, whom })
}

const USER: &str = "the name of a user";
const ROLE: &str = "the name of a role";
const SECRET: &str = "the name of a secret";

pub(super) fn new_verb(reader: &mut Reader<'_>) -> Verb {
    if reader.eat(&["IF", "NOT", "EXISTS"]) { Verb::CreateIfAbsent } else { Verb::Create }
}

pub(super) fn drop_verb(reader: &mut Reader<'_>) -> Verb {
    if reader.eat(&["IF", "EXISTS"]) { Verb::DropIfPresent } else { Verb::Drop }
}

pub(super) fn create_user(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    user(reader, verb)
}

pub(super) fn alter_user(reader: &mut Reader<'_>) -> Result<Statement> {
    user(reader, Verb::Alter)
}

pub(super) fn drop_user(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    let (name, rename) = (reader.name(USER)?, None);
    Ok(Statement::User(UserStatement { verb, name, rename, password: None, disabled: None }))
}

fn user(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let mut user = UserStatement {
        verb,
        name: reader.name(USER)?,
        rename: None,
        password: None,
        disabled: None,
    };
    reader.eat(&["WITH"]);
    while !reader.is_done() {
        if user.password.is_none() && reader.eat(&["PASSWORD"]) {
            let none = reader.eat_none();
            user.password = Some(if none {
                None
            } else {
                Some(Hidden(reader.text("a password in quotes")?.value))
            });
        } else if user.disabled.is_none() && (reader.eat(&["ENABLED"]) || reader.eat(&["LOGIN"])) {
            user.disabled = Some(false);
        } else if user.disabled.is_none() && (reader.eat(&["DISABLED"]) || reader.eat(&["NOLOGIN"]))
        {
            user.disabled = Some(true);
        } else if verb == Verb::Alter && user.rename.is_none() && reader.eat(&["RENAME", "TO"]) {
            user.rename = Some(reader.name(USER)?);
        } else {
            let known = ["PASSWORD", "ENABLED", "DISABLED", "RENAME"];
            let expected = "PASSWORD 'password', ENABLED, DISABLED or RENAME TO";
            return Err(reader.unexpected_word(expected, known));
        }
    }
    Ok(Statement::User(user))
}

pub(super) fn create_role(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    role(reader, verb)
}

pub(super) fn alter_role(reader: &mut Reader<'_>) -> Result<Statement> {
    role(reader, Verb::Alter)
}

pub(super) fn drop_role(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    let (name, rename) = (reader.name(ROLE)?, None);
    Ok(Statement::Role(RoleStatement { verb, name, rename, description: None, run_as: None }))
}

fn role(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let mut role = RoleStatement {
        verb,
        name: reader.name(ROLE)?,
        rename: None,
        description: None,
        run_as: None,
    };
    reader.eat(&["WITH"]);
    while !reader.is_done() {
        if role.description.is_none() && reader.eat(&["DESCRIPTION"]) {
            reader.eat_sign(&Token::Eq);
            let none = reader.eat_none();
            role.description =
                Some(if none { None } else { Some(reader.text("a text in quotes")?.value) });
        } else if role.run_as.is_none() && reader.eat(&["RUN", "AS"]) {
            role.run_as = Some(true);
        } else if role.run_as.is_none() && reader.eat(&["NO", "RUN", "AS"]) {
            role.run_as = Some(false);
        } else if verb == Verb::Alter && role.rename.is_none() && reader.eat(&["RENAME", "TO"]) {
            role.rename = Some(reader.name(ROLE)?);
        } else {
            let error = reader.unexpected_word(
                "DESCRIPTION 'text', RUN AS, NO RUN AS or RENAME TO",
                ["DESCRIPTION", "RUN", "NO", "RENAME"],
            );
            let hint = error.hint.clone();
            let hint =
                hint.unwrap_or("To log in, create a user: CREATE USER … PASSWORD '…'.".into());
            return Err(error.with_hint(hint));
        }
    }
    Ok(Statement::Role(role))
}

pub(super) fn create_secret(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = new_verb(reader);
    secret(reader, verb)
}

pub(super) fn create_or_alter_secret(reader: &mut Reader<'_>) -> Result<Statement> {
    secret(reader, Verb::CreateOrAlter)
}

pub(super) fn alter_secret(reader: &mut Reader<'_>) -> Result<Statement> {
    secret(reader, Verb::Alter)
}

pub(super) fn drop_secret(reader: &mut Reader<'_>) -> Result<Statement> {
    let verb = drop_verb(reader);
    secret(reader, verb)
}

/// `name [FOR JOB job | FOR TENANT | FOR CLUSTER] [SET] VALUE 'value'`, in any order.
fn secret(reader: &mut Reader<'_>, verb: Verb) -> Result<Statement> {
    let name = as_written(reader)?;
    let is_drop = matches!(verb, Verb::Drop | Verb::DropIfPresent);
    let (mut scope, mut value) = (None, None);
    while !reader.is_done() {
        if scope.is_none() && reader.eat(&["FOR"]) {
            scope = Some(if reader.eat(&["JOB"]) {
                SecretScope::Job(reader.name(JOB)?)
            } else {
                let words =
                    [("TENANT", SecretScopeWord::Tenant), ("CLUSTER", SecretScopeWord::Cluster)];
                match reader.one_of(&words)?.value {
                    SecretScopeWord::Tenant => SecretScope::Tenant,
                    SecretScopeWord::Cluster => SecretScope::Cluster,
                }
            });
        } else if !is_drop && value.is_none() && (reader.is(&["SET"]) || reader.is(&["VALUE"])) {
            reader.eat(&["SET"]);
            reader.expect(&["VALUE"])?;
            reader.eat_sign(&Token::Eq);
            value = Some(Hidden(reader.text("a value in quotes")?.value));
        } else if is_drop {
            return Err(reader.unexpected_word("FOR JOB, FOR TENANT or FOR CLUSTER", ["FOR"]));
        } else {
            return Err(reader.unexpected_word("VALUE 'value' or FOR JOB", ["VALUE", "FOR"]));
        }
    }
    if value.is_none() && !is_drop {
        return Err(reader.unexpected("VALUE 'value'"));
    }
    let scope = scope.unwrap_or(SecretScope::Tenant);
    Ok(Statement::Secret(SecretStatement { verb, name, scope, value }))
}

#[derive(Clone, Copy)]
enum SecretScopeWord {
    Tenant,
    Cluster,
}

/// The name of a secret keeps its case: it is used as `${secrets.NAME}`.
fn as_written(reader: &mut Reader<'_>) -> Result<Spanned<String>> {
    let word = reader.word_at(0);
    let name = reader.name(SECRET)?;
    Ok(Spanned { value: word.map_or(name.value, str::to_owned), at: name.at })
}
