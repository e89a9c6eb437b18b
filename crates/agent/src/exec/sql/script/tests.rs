use super::*;

/// The statements, each followed by the names of its parameters.
fn shown(script: &str) -> String {
    match read(script) {
        Ok(statements) => statements
            .iter()
            .map(|statement| format!("{} <{}>", statement.text, statement.parameters.join(",")))
            .collect::<Vec<_>>()
            .join(" | "),
        Err(Positional(what)) => format!("positional {what}"),
    }
}

#[test]
fn scripts() {
    for (script, expected) in [
        ("", ""),
        (" ;; -- nothing\n /* at all */ ;", ""),
        ("SELECT 1", "SELECT 1 <>"),
        ("SELECT 1;SELECT 2;", "SELECT 1 <> | SELECT 2 <>"),
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1 <a,b>"),
        ("SELECT :a; SELECT :b", "SELECT $1 <a> | SELECT $1 <b>"),
        ("SELECT :a::int, x::text", "SELECT $1::int, x::text <a>"),
        (":a", "$1 <a>"),
        ("SELECT :größe", "SELECT $1 <größe>"),
        ("WHERE t>:a AND t<=:b", "WHERE t>$1 AND t<=$2 <a,b>"),
        ("IN (:a,:b)", "IN ($1,$2) <a,b>"),
        // Placeholders in quoted text.
        ("SELECT ':a;', \":b;\"", "SELECT ':a;', \":b;\" <>"),
        ("SELECT 'it''s :a', :b", "SELECT 'it''s :a', $1 <b>"),
        ("SELECT 'a\\', :b", "SELECT 'a\\', $1 <b>"),
        ("SELECT E'a\\'; :a', :b", "SELECT E'a\\'; :a', $1 <b>"),
        ("SELECT e'a'';:a\\\\', :b", "SELECT e'a'';:a\\\\', $1 <b>"),
        ("SELECT date'2026-01-01', :b", "SELECT date'2026-01-01', $1 <b>"),
        ("SELECT U&'d\\0061t:a'", "SELECT U&'d\\0061t:a' <>"),
        ("SELECT \"a\"\"; :b\", :c", "SELECT \"a\"\"; :b\", $1 <c>"),
        ("SELECT 'open :a; ", "SELECT 'open :a;  <>"),
        // Placeholders in dollar-quoted text.
        ("DO $$ BEGIN :a; END $$; SELECT :b", "DO $$ BEGIN :a; END $$ <> | SELECT $1 <b>"),
        ("DO $x$ $$ ; $y$ :a $x$", "DO $x$ $$ ; $y$ :a $x$ <>"),
        ("SELECT a$b$c, :d", "SELECT a$b$c, $1 <d>"),
        ("SELECT $1", "positional $1"),
        ("SELECT '$1', $$ $1 $$", "SELECT '$1', $$ $1 $$ <>"),
        ("DO $$ open ; :a", "DO $$ open ; :a <>"),
        ("SELECT ${secrets.KEY}, :a", "SELECT $1, $2 <${secrets.KEY},a>"),
        // Placeholders in comments.
        ("SELECT 1 -- :a;\n, :b", "SELECT 1 -- :a;\n, $1 <b>"),
        ("SELECT /* :a; /* ; */ :b */ :c", "SELECT /* :a; /* ; */ :b */ $1 <c>"),
        ("SELECT 1 /* open ; :a", "SELECT 1 /* open ; :a <>"),
        // Colons that are no parameters.
        ("SELECT a[1:2], a[lo:hi], a[:n]", "SELECT a[1:2], a[lo:hi], a[$1] <n>"),
        ("SELECT a[:lo: :hi]", "SELECT a[$1: $2] <lo,hi>"),
        ("SELECT json_object('k':v, 'l': :w)", "SELECT json_object('k':v, 'l': $1) <w>"),
        ("CALL p(a := :b)", "CALL p(a := $1) <b>"),
        ("SELECT ARRAY[:a,:b]", "SELECT ARRAY[$1,$2] <a,b>"),
        ("SELECT 1 : 2", "SELECT 1 : 2 <>"),
        ("SELECT 1:", "SELECT 1: <>"),
        // Semicolons that end nothing.
        (
            "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3",
            "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2) <> | SELECT 3 <>",
        ),
        (
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END <> | SELECT 3 <>",
        ),
    ] {
        assert_eq!(shown(script), expected, "{script}");
    }
}

#[test]
fn words_are_those_outside_of_parentheses() {
    let statements =
        read("with a as (delete from t returning *) insert into u select 'x', \"Y\" from a");
    let words = &statements.unwrap()[0].words;
    assert_eq!(words.join(" "), "WITH A AS INSERT INTO U SELECT FROM A");
}

#[test]
fn places_are_those_of_the_script() {
    let script = "SELECT 1;\n  SELECT :größe,\n :b frm";
    let statements = read(script).unwrap();
    assert_eq!(statements[1].text, "SELECT $1,\n $2 frm");
    // The server counts characters: the S, the comma after $1, the f.
    for (position, place) in [(1, (2, 3)), (8, (2, 10)), (10, (2, 16)), (16, (3, 5))] {
        assert_eq!(statements[1].place(script, position), Some(place), "{position}");
    }
    assert_eq!(statements[1].place(script, 0), None);
    assert_eq!(statements[1].place(script, 99), None);
}

/// Whatever the text is, nothing of it is lost and nothing panics.
#[test]
fn every_cut_of_a_script_is_read() {
    let script =
        "SELECT 'a''b', E'\\'', $x$ ; $x$, \"é\", :é /* /* */ */ -- x\n; a[1:2]::int; ${secrets.K}";
    for end in (0..=script.len()).filter(|end| script.is_char_boundary(*end)) {
        let cut = &script[..end];
        let statements = read(cut).unwrap();
        let length: usize = statements.iter().map(|statement| statement.text.len()).sum();
        assert!(length <= cut.len() + 2, "{cut}");
    }
}
