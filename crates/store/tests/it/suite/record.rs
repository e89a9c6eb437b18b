//! Portable statements: one text, two databases, one commit.

use store::records::{Param, Records, Row, Statement, Transaction};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::Lab;

const INSERT: &str =
    "INSERT INTO settings (name, value, version, changed_at) VALUES ($1, $2, $3, {now})";

fn insert(name: &str, version: u32) -> Statement {
    Statement::new(INSERT, vec![name.into(), "1".into(), version.into()])
}

/// The names and versions of all settings.
async fn settings<B: Bench>(lab: &Lab<B>) -> Vec<(String, u32)> {
    let select = Statement::new("SELECT name, version FROM settings ORDER BY name", Vec::new());
    let rows = lab.store.query(select).await.unwrap();
    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect()
}

pub async fn a_statement_that_writes_other_rows_than_expected_undoes_all<B: Bench>(lab: &Lab<B>) {
    let update = |version: u32, expected| {
        let sql = "UPDATE settings SET version = version + 1 WHERE version = $1 RETURNING name";
        Statement::new(sql, vec![version.into()]).expect_rows(expected)
    };
    let taken = || {
        let sql = "INSERT INTO settings (name, value, version, changed_at) \
                   VALUES ($1, '', 1, 1) RETURNING name";
        Statement::new(sql, vec!["a".into()]).expect_row()
    };
    let before = [insert("a", 1), insert("b", 1)];
    lab.store.commit(before.to_vec().into()).await.unwrap().unwrap();
    let as_before = [("a".to_owned(), 1), ("b".to_owned(), 1)];
    for (name, statements) in [
        ("none instead of one, first", vec![update(7, 1), insert("c", 1)]),
        ("none instead of one, last", vec![insert("c", 1), update(7, 1)]),
        ("none instead of one, alone", vec![update(7, 1)]),
        ("two instead of one", vec![update(1, 1), insert("c", 1)]),
        ("one instead of two", vec![insert("c", 9), update(9, 2)]),
        ("a unique violation", vec![insert("c", 1), taken()]),
        ("a unique violation, alone", vec![taken()]),
    ] {
        let committed = lab.store.commit(Transaction::from(statements)).await.unwrap();
        assert!(committed.is_none(), "{name}");
        assert_eq!(settings(lab).await, as_before, "{name}");
    }
    let statements = vec![insert("c", 1), update(1, 3)];
    let answers = lab.store.commit(Transaction::from(statements)).await.unwrap().unwrap();
    let affected: Vec<_> = answers.iter().map(|answer| answer.affected).collect();
    assert_eq!(affected, [1, 3]);
    assert_eq!(answers[1].rows.len(), 3);
    assert_eq!(settings(lab).await.iter().map(|(_, version)| *version).sum::<u32>(), 6);
}

pub async fn a_statement_that_fails_writes_nothing<B: Bench>(lab: &Lab<B>) {
    let broken = Statement::new("INSERT INTO settings (name) VALUES ($1)", vec!["b".into()]);
    let failed = lab.store.commit(vec![insert("a", 1), broken].into()).await;
    assert!(failed.is_err(), "a column without a value");
    let twice = lab.store.commit(vec![insert("a", 1), insert("a", 1)].into()).await;
    assert!(twice.is_err(), "a unique violation that nothing expects");
    assert!(settings(lab).await.is_empty());
}

pub async fn parameters_have_a_type_also_when_they_are_null<B: Bench>(lab: &Lab<B>) {
    let id = Uuid::from_u128(7);
    let values = [
        Param::Int(Some(-5)),
        Param::Bool(Some(true)),
        Param::Text(Some("\u{2714}".into())),
        Param::Bytes(Some(vec![0, 255])),
        Param::Uuid(Some(id)),
    ];
    let nulls = [
        Param::Int(None),
        Param::Bool(None),
        Param::Text(None),
        Param::Bytes(None),
        Param::Uuid(None),
    ];
    // Only the parameter itself has a type.
    let sql = "SELECT $1, $2, $3, $4, $5 WHERE $1 IS NULL OR $1 < {now}";
    let read = async |params: &[Param]| -> Row {
        lab.store.query(Statement::new(sql, params.to_vec())).await.unwrap().remove(0)
    };
    let row = read(&values).await;
    assert_eq!(row.get::<i64>(0), Ok(-5));
    assert_eq!(row.get::<bool>(1), Ok(true));
    assert_eq!(row.get::<String>(2).as_deref(), Ok("\u{2714}"));
    assert_eq!(row.get::<Vec<u8>>(3), Ok(vec![0, 255]));
    assert_eq!(row.get::<Uuid>(4), Ok(id));
    let row = read(&nulls).await;
    assert_eq!(row.get::<Option<i64>>(0), Ok(None));
    assert_eq!(row.get::<Option<Uuid>>(4), Ok(None));
}

pub async fn many_rows_are_written_by_few_statements<B: Bench>(lab: &Lab<B>) {
    let now = lab.now().await;
    let sql = "INSERT INTO settings (name, value, version, changed_at) VALUES {rows}
               ON CONFLICT (name) DO UPDATE SET version = settings.version + excluded.version";
    let rows = |version: u32| -> Vec<Vec<Param>> {
        let row = |n: u32| vec![format!("{n:03}").into(), "1".into(), version.into(), now.into()];
        (0..60).map(row).collect()
    };
    for version in [1, 2] {
        let statements: Vec<_> = Statement::of_rows(sql, rows(version)).collect();
        assert!(statements.len() < 20, "{} statements", statements.len());
        lab.store.commit(statements.into()).await.unwrap().unwrap();
    }
    let found = settings(lab).await;
    assert_eq!(found.len(), 60);
    assert!(found.iter().all(|(_, version)| *version == 3), "{found:?}");
}

pub async fn the_time_is_the_stores<B: Bench>(lab: &Lab<B>) {
    let before = lab.now().await;
    lab.store.execute(insert("a", 1)).await.unwrap();
    let sql = "SELECT changed_at, {now} FROM settings";
    let rows = lab.store.query(Statement::new(sql, Vec::new())).await.unwrap();
    let (written, read) = (rows[0].get(0).unwrap(), rows[0].get(1).unwrap());
    assert!(before <= written && written <= read, "{before} {written} {read}");
}
