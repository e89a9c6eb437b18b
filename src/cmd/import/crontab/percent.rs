//! The `%` of crontabs: the first one ends the command, the others are line feeds of its input.

/// The command, and what is written to it when a `%` follows it. `\%` is a plain `%`.
pub fn split(command: &str) -> (String, Option<String>) {
    let (mut text, mut input) = (String::new(), None::<String>);
    let mut chars = command.trim_end_matches(['\n', '\r']).chars().peekable();
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' if chars.next_if_eq(&'%').is_some() => '%',
            '%' if input.is_none() => {
                input = Some(String::new());
                continue;
            }
            '%' => '\n',
            c => c,
        };
        input.as_mut().unwrap_or(&mut text).push(c);
    }
    (text, input)
}

/// A script that gives the command its input, for a shell of the Bourne family.
pub fn here_document(command: &str, input: &str) -> String {
    let mut word = "END_OF_INPUT".to_owned();
    while input.lines().any(|line| line == word) {
        word.push('_');
    }
    let input = input.strip_suffix('\n').unwrap_or(input);
    format!("{{ {command}\n}} <<'{word}'\n{input}\n{word}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs() {
        for (text, command, input) in [
            ("date", "date", None),
            (r"date +\%F", "date +%F", None),
            ("mail -s x root%Dear%you\\%%", "mail -s x root", Some("Dear\nyou%\n")),
            ("cat%", "cat", Some("")),
            (r"echo a\b", r"echo a\b", None),
        ] {
            let got = split(text);
            assert_eq!(got, (command.to_owned(), input.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn the_end_of_input_is_no_line_of_it() {
        assert_eq!(
            here_document("cat", "a\nEND_OF_INPUT\n"),
            "{ cat\n} <<'END_OF_INPUT_'\na\nEND_OF_INPUT\nEND_OF_INPUT_\n"
        );
    }
}
