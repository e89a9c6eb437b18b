//! Output on a terminal.

use agent::output::printable;

#[test]
fn nothing_reaches_a_terminal_that_could_command_it() {
    for (bytes, shown) in [
        (&b"plain\ttext\n"[..], "plain\ttext\n"),
        ("größer 日本 🎉".as_bytes(), "größer 日本 🎉"),
        (b"\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        (b"over\rwritten\x08", "over␍written␈"),
        (b"\x1b]0;title\x07", "␛]0;title␇"),
        ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
        ("a\u{202e}b\u{2066}c\u{200f}".as_bytes(), "a\\u{202e}b\\u{2066}c\\u{200f}"),
        ("zero\u{200b}width\u{feff}".as_bytes(), "zero\\u{200b}width\\u{feff}"),
        (b"\xff\xfe\0\x7f", "\\xff\\xfe␀␡"),
        (b"cut \xe2\x82", "cut \\xe2\\x82"),
    ] {
        assert_eq!(printable(bytes), shown);
    }
}
