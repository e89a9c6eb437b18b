//! Procedures and functions.

use serde_json::{Value, json};

use super::bed::{Bed, assignment, call, column, with};

const ROUTINES: &str = r#"
    CREATE TABLE log (line text);
    CREATE PROCEDURE note(line text) LANGUAGE sql AS $$ INSERT INTO log VALUES (line) $$;
    CREATE PROCEDURE halve(IN n int, OUT half int, OUT rest int) LANGUAGE plpgsql AS
        $$ BEGIN half := n / 2; rest := n % 2; END $$;
    CREATE PROCEDURE double(INOUT n int) LANGUAGE plpgsql AS $$ BEGIN n := n * 2; END $$;
    CREATE PROCEDURE batches() LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO log VALUES ('first'); COMMIT;
        INSERT INTO log VALUES (current_setting('punctual.fence')); COMMIT;
        INSERT INTO log VALUES ('third'); RAISE 'enough';
    END $$;
    CREATE FUNCTION add(a int, b int DEFAULT 10) RETURNS int LANGUAGE sql AS $$ SELECT a + b $$;
    CREATE FUNCTION many(n int) RETURNS TABLE (id int, name text) LANGUAGE sql AS
        $$ SELECT g, 'n' || g FROM generate_series(1, n) g $$;
    CREATE FUNCTION nothing() RETURNS void LANGUAGE sql AS $$ INSERT INTO log VALUES ('void') $$;
    CREATE FUNCTION pair() RETURNS record LANGUAGE sql AS $$ SELECT 1, 'x'::text $$;
    CREATE FUNCTION total(VARIADIC n int[]) RETURNS bigint LANGUAGE sql AS
        $$ SELECT sum(x) FROM unnest(n) x $$;
    CREATE SCHEMA "Odd";
    CREATE PROCEDURE "Odd"."Na""me"(a jsonb, b int[]) LANGUAGE sql AS
        $$ INSERT INTO log VALUES (a::text || b::text) $$;
    CREATE FUNCTION breaks() RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO log VALUES ('broken'); RAISE 'it broke'; END $$;
"#;

async fn furnished() -> Bed {
    let bed = Bed::postgres().await;
    bed.beside().await.batch_execute(ROUTINES).await.unwrap();
    bed
}

#[tokio::test]
async fn what_routines_give_out_is_the_result() {
    let bed = furnished().await;
    for (name, arguments, expected) in [
        ("note", json!(["hello"]), Value::Null),
        ("halve", json!([7]), json!([{"half": 3, "rest": 1}])),
        ("halve", json!([7, null, null]), json!([{"half": 3, "rest": 1}])),
        ("double", json!([21]), column("n", &[json!(42)])),
        ("add", json!([1, 2]), column("add", &[json!(3)])),
        ("ADD", json!([1]), column("add", &[json!(11)])),
        ("public.Many", json!([2]), json!([{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}])),
        ("nothing", json!([]), column("nothing", &[Value::Null])),
        ("total", json!([1, 2, 3]), column("total", &[json!(6)])),
        ("\"Odd\".\"Na\"\"me\"", json!([{"k": 1}, [1, 2]]), Value::Null),
    ] {
        let ran = bed.call(name, arguments.clone()).await.done();
        assert_eq!(ran.rows(), expected, "{name} {arguments}");
    }
    assert!(bed.call("pair", json!([])).await.done().rows()[0]["pair"].is_string());
    assert_eq!(
        bed.ask("SELECT string_agg(line, '|') FROM log").await,
        "hello|void|{\"k\": 1}{1,2}"
    );
}

#[tokio::test]
async fn arguments_may_be_parameters_and_secrets() {
    let bed = furnished().await;
    let run =
        with(assignment(call("note", json!([":line"]))), json!({"line": "'; DROP TABLE log;"}));
    bed.run(run).await.done();
    bed.call("note", json!(["key ${secrets.KEY}"])).await.done();
    assert_eq!(
        bed.ask("SELECT string_agg(line, '|') FROM log").await,
        "'; DROP TABLE log;|key gr'ün;--"
    );
    let ran = bed.call("note", json!([":missing"])).await;
    assert_eq!(ran.code(), "MISSING_PARAMETER");
    let ran = bed.call("halve", json!(["many"])).await;
    assert_eq!(
        ran.error(),
        (
            "BAD_PARAMETER".to_owned(),
            "the parameter \"argument 1\": invalid input syntax for type integer: \"many\""
        )
    );
}

#[tokio::test]
async fn a_procedure_may_commit_and_a_function_is_one_transaction() {
    let bed = furnished().await;
    let ran = bed.call("batches", json!([])).await;
    assert_eq!(ran.code(), "SQLSTATE_P0001");
    assert_eq!(bed.ask("SELECT string_agg(line, '|') FROM log").await, "first|42");
    let ran = bed.call("breaks", json!([])).await;
    assert_eq!(ran.code(), "SQLSTATE_P0001");
    assert_eq!(bed.ask("SELECT count(*) FROM log").await, "2");
    // In a script it cannot, and the error has a hint.
    let ran = bed.sql("CALL batches()").await;
    let (code, message) = ran.error();
    assert_eq!(code, "SQLSTATE_2D000");
    assert!(message.contains("can be called by a PROCEDURE job"), "{message}");
}

#[tokio::test]
async fn names_that_mean_nothing() {
    let bed = furnished().await;
    for (name, arguments, code, said) in [
        ("missing", json!([1]), "SQLSTATE_42883", "procedure missing(unknown) does not exist"),
        ("Odd.name", json!([]), "SQLSTATE_3F000", "schema \"odd\" does not exist"),
        ("add", json!([1, 2, 3]), "SQLSTATE_42883", "add("),
        ("note('x'); DROP TABLE log; --", json!([]), "BAD_NAME", "cannot follow"),
        ("a.b.c", json!([]), "BAD_NAME", "write name or schema.name"),
    ] {
        let ran = bed.call(name, arguments).await;
        let (found, message) = ran.error();
        assert_eq!(found, code, "{name}: {message}");
        assert!(message.contains(said), "{name}: {message}");
        // A missing procedure may be created later.
        assert!(!ran.result.error.unwrap().is_refusal(), "{name}");
    }
}
