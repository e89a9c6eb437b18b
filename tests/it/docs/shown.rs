//! Whether something is printed as a page shows it.

/// Compares word by word: ids and times match any others, `…` matches the rest of its line, and a
/// line of its own with `…` any lines.
pub fn agrees(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    lines_agree(&lines(shown), &lines(printed))
}

fn lines_agree(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=printed.len()).any(|from| lines_agree(rest, &printed[from..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, more)| line_agrees(first, line) && lines_agree(rest, more)),
    }
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    let mut printed = printed.split_whitespace();
    for word in shown.split_whitespace() {
        if word == "…" {
            return true;
        }
        let Some(other) = printed.next() else { return false };
        let both = |is: fn(&str) -> bool| is(word) && is(other);
        if word != other && !both(is_id) && !both(is_time) {
            return false;
        }
    }
    printed.next().is_none()
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

fn is_id(word: &str) -> bool {
    let word = bare(word);
    let fits = |(i, c): (usize, char)| {
        if [8, 13, 18, 23].contains(&i) { c == '-' } else { c.is_ascii_hexdigit() }
    };
    word.len() == 36 && word.chars().enumerate().all(fits)
}

fn is_time(word: &str) -> bool {
    bare(word).parse::<jiff::Timestamp>().is_ok()
}

#[test]
fn ids_and_times_are_any_and_the_rest_is_not() {
    let id = "01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11";
    let line = |id: &str, time: &str| format!("{id}  COMPLETED  {time}\n");
    let shown = line(id, "2026-01-01T00:00:00Z");
    let other = "01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c12";
    assert!(agrees(&shown, &line(other, "2027-02-02T02:02:02.5Z")));
    assert!(!agrees(&shown, &line("hello", "2027-02-02T02:02:02Z")));
    assert!(!agrees(&shown, &shown.replace("COMPLETED", "FAILED")));
    assert!(!agrees(&shown, &format!("{shown}{shown}")));
    assert!(agrees(&format!("…\n{shown}"), &format!("a\nb\n{shown}")));
    assert!(agrees("took …", "took 3 s") && !agrees("took …", "gave 3 s"));
}
