//! System information functions of PostgreSQL.

use rusqlite::types::Value as Inner;

use super::{Answer, Arguments, BOOL, INT, Scalar, TEXT, loose, strict};
use crate::catalog;
use crate::error::{QueryError, State};
use crate::vtab::Shared;

const fn yes(name: &'static str) -> Scalar {
    loose(name, (0, 4), BOOL, |_, _| Ok(true.into()))
}

const fn no(name: &'static str) -> Scalar {
    loose(name, (0, 4), BOOL, |_, _| Ok(false.into()))
}

const fn nothing(name: &'static str) -> Scalar {
    loose(name, (0, 4), TEXT, |_, _| Ok(Inner::Null))
}

const fn zero(name: &'static str) -> Scalar {
    loose(name, (0, 4), INT, |_, _| Ok(0.into()))
}

fn user(shared: &Shared, _: &Arguments<'_>) -> Answer {
    Ok(shared.source.session().user.into())
}

fn database(shared: &Shared, _: &Arguments<'_>) -> Answer {
    Ok(shared.source.session().database.into())
}

fn schema(_: &Shared, _: &Arguments<'_>) -> Answer {
    Ok("sys".to_owned().into())
}

fn no_fields() -> QueryError {
    QueryError::new(State::NotSupported, "composite values are not supported")
}

pub(crate) const SCALARS: &[Scalar] = &[
    loose("version", (0, 0), TEXT, |shared, _| Ok(shared.source.session().version.into())),
    loose("current_database", (0, 0), TEXT, database),
    loose("current_catalog", (0, 0), TEXT, database),
    loose("current_schema", (0, 0), TEXT, schema),
    loose("current_schemas", (1, 1), TEXT, |_, arguments| {
        let all = arguments.int(0)? != 0;
        Ok(if all { "{pg_catalog,sys}" } else { "{sys}" }.to_owned().into())
    }),
    loose("current_user", (0, 0), TEXT, user),
    loose("session_user", (0, 0), TEXT, user),
    loose("user", (0, 0), TEXT, user),
    loose("current_role", (0, 0), TEXT, user),
    loose("pg_backend_pid", (0, 0), INT, |shared, _| {
        Ok(i64::from(shared.source.session().backend).into())
    }),
    loose("pg_get_userbyid", (1, 1), TEXT, |shared, arguments| {
        let owner = arguments.int(0).is_ok_and(|oid| oid == catalog::OWNER);
        Ok(if owner { "punctual".into() } else { shared.source.session().user }.into())
    }),
    loose("pg_encoding_to_char", (1, 1), TEXT, |_, _| Ok("UTF8".to_owned().into())),
    loose("pg_client_encoding", (0, 0), TEXT, |_, _| Ok("UTF8".to_owned().into())),
    loose("getdatabaseencoding", (0, 0), TEXT, |_, _| Ok("UTF8".to_owned().into())),
    loose("format_type", (2, 2), TEXT, |_, arguments| {
        if arguments.is_null(0) {
            return Ok(Inner::Null);
        }
        Ok(catalog::type_name(arguments.int(0)?).to_owned().into())
    }),
    loose("pg_table_is_visible", (1, 1), BOOL, |shared, arguments| {
        let schema =
            catalog::schema_of(shared.source.as_ref(), arguments.int(0).unwrap_or_default());
        Ok(matches!(schema, Some("sys" | "pg_catalog")).into())
    }),
    yes("pg_type_is_visible"),
    yes("pg_function_is_visible"),
    yes("pg_operator_is_visible"),
    yes("pg_collation_is_visible"),
    yes("pg_opclass_is_visible"),
    yes("has_table_privilege"),
    yes("has_column_privilege"),
    yes("has_any_column_privilege"),
    yes("has_schema_privilege"),
    yes("has_database_privilege"),
    no("has_function_privilege"),
    no("has_sequence_privilege"),
    no("has_tablespace_privilege"),
    no("has_type_privilege"),
    no("pg_has_role"),
    no("row_security_active"),
    no("pg_is_in_recovery"),
    no("pg_is_wal_replay_paused"),
    no("pg_relation_is_publishable"),
    no("pg_is_other_temp_schema"),
    no("pg_stat_get_live_tuples"),
    loose("obj_description", (1, 2), TEXT, |shared, arguments| {
        let oid = arguments.int(0).unwrap_or_default();
        let text = catalog::comment(shared.source.as_ref(), oid, 0);
        Ok(text.map_or(Inner::Null, |text| text.to_owned().into()))
    }),
    loose("col_description", (2, 2), TEXT, |shared, arguments| {
        let (oid, number) =
            (arguments.int(0).unwrap_or_default(), arguments.int(1).unwrap_or_default());
        let text = catalog::comment(shared.source.as_ref(), oid, number);
        Ok(text.map_or(Inner::Null, |text| text.to_owned().into()))
    }),
    nothing("shobj_description"),
    nothing("pg_get_expr"),
    nothing("pg_get_constraintdef"),
    nothing("pg_get_indexdef"),
    nothing("pg_get_viewdef"),
    nothing("pg_get_triggerdef"),
    nothing("pg_get_ruledef"),
    nothing("pg_get_partkeydef"),
    nothing("pg_get_statisticsobjdef"),
    nothing("pg_get_statisticsobjdef_columns"),
    nothing("pg_get_serial_sequence"),
    nothing("pg_get_function_sqlbody"),
    nothing("pg_tablespace_location"),
    nothing("inet_client_addr"),
    nothing("inet_server_addr"),
    nothing("inet_server_port"),
    nothing("inet_client_port"),
    nothing("txid_current"),
    nothing("pg_postmaster_start_time"),
    loose("pg_get_function_result", (1, 1), TEXT, |_, _| Ok("text".to_owned().into())),
    loose("pg_get_function_arguments", (1, 1), TEXT, |_, _| Ok(String::new().into())),
    loose("pg_get_function_identity_arguments", (1, 1), TEXT, |_, _| Ok(String::new().into())),
    zero("pg_relation_size"),
    zero("pg_total_relation_size"),
    zero("pg_table_size"),
    zero("pg_indexes_size"),
    zero("pg_database_size"),
    zero("pg_my_temp_schema"),
    zero("pg_stat_get_numscans"),
    loose("pg_size_pretty", (1, 1), TEXT, |_, arguments| {
        Ok(format!("{} bytes", arguments.int(0)?).into())
    }),
    loose("pg_typeof", (1, 1), TEXT, |_, arguments| {
        use rusqlite::types::ValueRef;
        Ok(match arguments.raw(0) {
            ValueRef::Null => "unknown",
            ValueRef::Integer(_) => "bigint",
            ValueRef::Real(_) => "double precision",
            ValueRef::Text(_) => "text",
            ValueRef::Blob(_) => "bytea",
        }
        .to_owned()
        .into())
    }),
    loose("current_setting", (1, 2), TEXT, |shared, arguments| {
        let name = arguments.text(0).to_lowercase();
        let value = catalog::setting(shared.source.as_ref(), &name);
        match value {
            Some(value) => Ok(value.into()),
            None if arguments.len() == 2 => Ok(Inner::Null),
            None => {
                let text = format!("there is no setting {name:?}");
                Err(QueryError::new(State::InvalidValue, text))
            }
        }
    }),
    loose("set_config", (3, 3), TEXT, |_, arguments| Ok(arguments.text(1).into())),
    // Composite values come from keys of tables, and no table has keys.
    strict("pg_expandarray", (1, 1), INT, |_, _| Err(no_fields())),
    strict("_field", (2, 2), INT, |_, _| Err(no_fields())),
    loose("_regclass", (1, 1), INT, |shared, arguments| {
        if arguments.is_null(0) {
            return Ok(Inner::Null);
        }
        if let Ok(oid) = arguments.int(0) {
            return Ok(oid.into());
        }
        let name = arguments.text(0);
        catalog::oid_of(shared.source.as_ref(), &name)
            .map(Inner::from)
            .ok_or_else(|| QueryError::new(State::NoTable, format!("there is no table {name:?}")))
    }),
    loose("to_regclass", (1, 1), INT, |shared, arguments| {
        let oid = catalog::oid_of(shared.source.as_ref(), &arguments.text(0));
        Ok(oid.map_or(Inner::Null, Inner::from))
    }),
    strict("to_regtype", (1, 1), INT, |_, arguments| {
        Ok(catalog::type_oid(&arguments.text(0)).map_or(Inner::Null, Inner::from))
    }),
    loose("_regclass_text", (1, 1), TEXT, |shared, arguments| {
        if arguments.is_null(0) {
            return Ok(Inner::Null);
        }
        let oid = arguments.int(0).unwrap_or_default();
        Ok(catalog::name_of(shared.source.as_ref(), oid).into())
    }),
    loose("_regtype", (1, 1), INT, |_, arguments| {
        if arguments.is_null(0) {
            return Ok(Inner::Null);
        }
        if let Ok(oid) = arguments.int(0) {
            return Ok(oid.into());
        }
        let name = arguments.text(0);
        catalog::type_oid(&name).map(Inner::from).ok_or_else(|| {
            QueryError::new(State::InvalidValue, format!("there is no type {name:?}"))
        })
    }),
    // An unknown function has no oid.
    strict("_regproc", (1, 1), INT, |_, arguments| {
        if let Ok(oid) = arguments.int(0) {
            return Ok(oid.into());
        }
        let name = arguments.text(0);
        let is_it = name.trim_start_matches("pg_catalog.") == catalog::READS_ARRAYS.0;
        Ok(if is_it { catalog::READS_ARRAYS.1.into() } else { Inner::Null })
    }),
    loose("_regtype_text", (1, 1), TEXT, |_, arguments| {
        if arguments.is_null(0) {
            return Ok(Inner::Null);
        }
        Ok(catalog::type_name(arguments.int(0)?).to_owned().into())
    }),
];
