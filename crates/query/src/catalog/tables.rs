//! The catalog tables, as data. Columns that no known client queries are omitted.

use crate::table::{Field, Keys, Table};
use crate::value::Kind;

macro_rules! catalog {
    ($($schema:ident . $name:ident $(($arguments:literal))? { $($kind:ident: $($column:ident $($keys:ident)?),*;)* })*) => {
        /// Every table.
        pub(crate) const TABLES: &[Table] = &[$(Table {
            schema: stringify!($schema),
            name: stringify!($name),
            comment: "",
            fields: &[$($(Field {
                name: stringify!($column),
                kind: Kind::$kind,
                keys: catalog!(@keys $($keys)?),
                comment: "",
            },)*)*],
            orders: &[],
            arguments: catalog!(@arguments $($arguments)?),
        },)*];
    };
    (@keys) => { Keys::None };
    (@keys $keys:ident) => { Keys::$keys };
    (@arguments) => { 0 };
    (@arguments $arguments:literal) => { $arguments };
}

catalog! {
    pg_catalog.generate_series(4) {
        Int: generate_series, start Equal, stop Equal, step Equal, ordinality;
    }
    pg_catalog._generate_time_series(4) {
        Time: generate_series, start Equal, stop Equal;
        Text: step Equal;
        Int: ordinality;
    }
    pg_catalog.generate_subscripts(3) {
        Int: generate_subscripts; Text: list Equal; Int: dimension Equal, ordinality;
    }
    pg_catalog.unnest(2) {
        Text: unnest, list Equal; Int: ordinality;
    }
    pg_catalog.pg_get_keywords {
        Text: word, catcode; Bool: barelabel; Text: catdesc, baredesc;
    }
    pg_catalog.pg_namespace { Int: oid; Text: nspname; Int: nspowner; Text: nspacl; }
    pg_catalog.pg_class {
        Int: oid; Text: relname;
        Int: relnamespace, reltype, reloftype, relowner, relam, relfilenode, reltablespace, relpages, reltuples,
            relallvisible, reltoastrelid;
        Bool: relhasindex, relisshared;
        Text: relpersistence, relkind;
        Int: relnatts, relchecks;
        Bool: relhasrules, relhastriggers, relhassubclass, relrowsecurity, relforcerowsecurity, relispopulated;
        Text: relreplident;
        Bool: relispartition;
        Int: relrewrite, relfrozenxid;
        Text: relacl, reloptions, relpartbound;
        Bool: relhasoids;
    }
    pg_catalog.pg_attribute {
        Int: attrelid; Text: attname;
        Int: atttypid, attstattarget, attlen, attnum, attndims, attcacheoff, atttypmod;
        Bool: attbyval;
        Text: attalign, attstorage, attcompression;
        Bool: attnotnull, atthasdef, atthasmissing;
        Text: attidentity, attgenerated;
        Bool: attisdropped, attislocal;
        Int: attinhcount, attcollation;
        Text: attacl, attoptions, attfdwoptions;
    }
    pg_catalog.pg_type {
        Int: oid; Text: typname;
        Int: typnamespace, typowner, typlen;
        Bool: typbyval;
        Text: typtype, typcategory;
        Bool: typispreferred, typisdefined;
        Text: typdelim;
        Int: typrelid, typelem, typarray, typinput, typoutput, typreceive, typsend;
        Text: typalign, typstorage;
        Bool: typnotnull;
        Int: typbasetype, typtypmod, typndims, typcollation;
        Text: typdefault, typacl;
    }
    pg_catalog.pg_database {
        Int: oid; Text: datname;
        Int: datdba, encoding;
        Text: datlocprovider;
        Bool: datistemplate, datallowconn;
        Int: datconnlimit, datlastsysoid, datfrozenxid, dattablespace;
        Text: datcollate, datctype, daticulocale, datcollversion, datacl;
    }
    pg_catalog.pg_roles {
        Int: oid; Text: rolname;
        Bool: rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls;
        Int: rolconnlimit;
        Text: rolpassword;
        Time: rolvaliduntil;
        Text: rolconfig;
    }
    pg_catalog.pg_authid {
        Int: oid; Text: rolname; Bool: rolsuper, rolcanlogin;
    }
    pg_catalog.pg_user {
        Text: usename; Int: usesysid; Bool: usecreatedb, usesuper, userepl, usebypassrls; Text: passwd;
        Time: valuntil; Text: useconfig;
    }
    pg_catalog.pg_auth_members { Int: oid, roleid, member, grantor; Bool: admin_option; }
    pg_catalog.pg_description { Int: objoid, classoid, objsubid; Text: description; }
    pg_catalog.pg_shdescription { Int: objoid, classoid; Text: description; }
    pg_catalog.pg_index {
        Int: indexrelid, indrelid, indnatts, indnkeyatts;
        Bool: indisunique, indisprimary, indisexclusion, indimmediate, indisclustered, indisvalid, indisready,
            indislive, indisreplident, indnullsnotdistinct;
        Text: indkey, indcollation, indclass, indoption, indexprs, indpred;
    }
    pg_catalog.pg_settings {
        Text: name, setting, unit, category, short_desc, extra_desc, context, vartype, source, min_val, max_val,
            enumvals, boot_val, reset_val, sourcefile;
        Int: sourceline; Bool: pending_restart;
    }
    pg_catalog.pg_tables {
        Text: schemaname, tablename, tableowner, tablespace;
        Bool: hasindexes, hasrules, hastriggers, rowsecurity;
    }
    pg_catalog.pg_views { Text: schemaname, viewname, viewowner, definition; }
    pg_catalog.pg_matviews { Text: schemaname, matviewname, matviewowner, definition; }
    pg_catalog.pg_indexes { Text: schemaname, tablename, indexname, tablespace, indexdef; }
    pg_catalog.pg_proc {
        Int: oid; Text: proname;
        Int: pronamespace, proowner, prolang, provariadic;
        Text: prokind;
        Bool: prosecdef, proleakproof, proisstrict, proretset;
        Text: provolatile, proparallel;
        Int: pronargs, pronargdefaults, prorettype;
        Text: proargtypes, proallargtypes, proargmodes, proargnames, prosrc, proacl, proconfig;
    }
    pg_catalog.pg_stat_activity {
        Int: datid; Text: datname; Int: pid, usesysid; Text: usename, application_name, client_addr,
            client_hostname;
        Int: client_port;
        Time: backend_start, xact_start, query_start, state_change;
        Text: wait_event_type, wait_event, state, query, backend_type;
    }
    pg_catalog.pg_stat_user_tables {
        Int: relid; Text: schemaname, relname; Int: seq_scan, n_live_tup, n_dead_tup;
    }
    pg_catalog.pg_stat_database { Int: datid; Text: datname; Int: numbackends, xact_commit, xact_rollback; }
    pg_catalog.pg_am { Int: oid; Text: amname; Int: amhandler; Text: amtype; }
    pg_catalog.pg_attrdef { Int: oid, adrelid, adnum; Text: adbin; }
    pg_catalog.pg_collation {
        Int: oid; Text: collname; Int: collnamespace, collowner; Text: collprovider; Int: collencoding;
        Text: collcollate, collctype;
    }
    pg_catalog.pg_policy {
        Int: oid; Text: polname; Int: polrelid; Text: polcmd; Bool: polpermissive;
        Text: polroles, polqual, polwithcheck;
    }
    pg_catalog.pg_statistic_ext {
        Int: oid, stxrelid; Text: stxname; Int: stxnamespace, stxowner, stxstattarget; Text: stxkeys, stxkind;
    }
    pg_catalog.pg_publication {
        Int: oid; Text: pubname; Int: pubowner;
        Bool: puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot;
    }
    pg_catalog.pg_publication_namespace { Int: oid, pnpubid, pnnspid; }
    pg_catalog.pg_publication_rel { Int: oid, prpubid, prrelid; Text: prqual, prattrs; }
    pg_catalog.pg_inherits { Int: inhrelid, inhparent, inhseqno; Bool: inhdetachpending; }
    pg_catalog.pg_partitioned_table { Int: partrelid; Text: partstrat; Int: partnatts; Text: partattrs; }
    pg_catalog.pg_constraint {
        Int: oid; Text: conname; Int: connamespace; Text: contype; Bool: condeferrable, condeferred, convalidated;
        Int: conrelid, contypid, conindid, conparentid, confrelid;
        Text: confupdtype, confdeltype, confmatchtype;
        Bool: conislocal; Int: coninhcount; Bool: connoinherit;
        Text: conkey, confkey, conbin;
    }
    pg_catalog.pg_trigger {
        Int: oid, tgrelid, tgparentid; Text: tgname; Int: tgfoid, tgtype; Text: tgenabled; Bool: tgisinternal;
        Int: tgconstraint; Bool: tgdeferrable, tginitdeferred;
    }
    pg_catalog.pg_rewrite { Int: oid; Text: rulename; Int: ev_class; Text: ev_type, ev_enabled; Bool: is_instead; }
    pg_catalog.pg_depend { Int: classid, objid, objsubid, refclassid, refobjid, refobjsubid; Text: deptype; }
    pg_catalog.pg_shdepend { Int: dbid, classid, objid, objsubid, refclassid, refobjid; Text: deptype; }
    pg_catalog.pg_tablespace { Int: oid; Text: spcname; Int: spcowner; Text: spcacl, spcoptions; }
    pg_catalog.pg_extension {
        Int: oid; Text: extname; Int: extowner, extnamespace; Bool: extrelocatable; Text: extversion;
    }
    pg_catalog.pg_available_extensions { Text: name, default_version, installed_version, comment; }
    pg_catalog.pg_enum { Int: oid, enumtypid; Float: enumsortorder; Text: enumlabel; }
    pg_catalog.pg_range { Int: rngtypid, rngsubtype, rngmultitypid, rngcollation, rngsubopc; }
    pg_catalog.pg_language { Int: oid; Text: lanname; Int: lanowner; Bool: lanispl, lanpltrusted; }
    pg_catalog.pg_sequence {
        Int: seqrelid, seqtypid, seqstart, seqincrement, seqmax, seqmin, seqcache; Bool: seqcycle;
    }
    pg_catalog.pg_sequences { Text: schemaname, sequencename, sequenceowner; }
    pg_catalog.pg_foreign_table { Int: ftrelid, ftserver; Text: ftoptions; }
    pg_catalog.pg_foreign_server { Int: oid; Text: srvname; Int: srvowner, srvfdw; Text: srvoptions; }
    pg_catalog.pg_foreign_data_wrapper { Int: oid; Text: fdwname; Int: fdwowner; }
    pg_catalog.pg_event_trigger { Int: oid; Text: evtname, evtevent; Int: evtowner; Text: evtenabled; }
    pg_catalog.pg_operator { Int: oid; Text: oprname; Int: oprnamespace, oprleft, oprright, oprresult; }
    pg_catalog.pg_opclass {
        Int: oid, opcmethod; Text: opcname; Int: opcnamespace, opcowner, opcfamily, opcintype;
        Bool: opcdefault; Int: opckeytype;
    }
    pg_catalog.pg_cast { Int: oid, castsource, casttarget, castfunc; Text: castcontext, castmethod; }
    pg_catalog.pg_aggregate { Int: aggfnoid; Text: aggkind; }
    pg_catalog.pg_locks { Text: locktype; Int: database, relation, pid; Text: mode; Bool: granted; }
    pg_catalog.pg_prepared_xacts { Int: transaction; Text: gid; }
    pg_catalog.pg_timezone_names { Text: name, abbrev, utc_offset; Bool: is_dst; }
    information_schema.schemata { Text: catalog_name, schema_name, schema_owner; }
    information_schema.tables {
        Text: table_catalog, table_schema, table_name, table_type, self_referencing_column_name,
            reference_generation, is_insertable_into, is_typed, commit_action;
    }
    information_schema.views { Text: table_catalog, table_schema, table_name, view_definition; }
    information_schema.columns {
        Text: table_catalog, table_schema, table_name, column_name;
        Int: ordinal_position;
        Text: column_default, is_nullable, data_type;
        Int: character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix,
            numeric_scale, datetime_precision;
        Text: interval_type, character_set_name, collation_name, domain_name, udt_catalog, udt_schema, udt_name,
            is_identity, identity_generation, is_generated, generation_expression, is_updatable;
    }
    information_schema.table_constraints {
        Text: constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name,
            constraint_type;
    }
    information_schema.key_column_usage {
        Text: constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name,
            column_name;
        Int: ordinal_position, position_in_unique_constraint;
    }
    information_schema.constraint_column_usage {
        Text: table_catalog, table_schema, table_name, column_name, constraint_schema, constraint_name;
    }
    information_schema.referential_constraints {
        Text: constraint_schema, constraint_name, unique_constraint_schema, unique_constraint_name, update_rule,
            delete_rule;
    }
    information_schema.routines { Text: specific_schema, specific_name, routine_schema, routine_name, routine_type; }
    information_schema.table_privileges {
        Text: grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable;
    }
}
