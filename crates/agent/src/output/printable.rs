//! Output on a terminal.

use std::fmt::Write as _;

/// The text of some output with everything made visible that could move the cursor, change
/// colours, reorder the line or hide: control characters, escape sequences, marks of direction,
/// invisible characters, and bytes that are no text. Lines and tabs stay.
pub fn printable(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for piece in bytes.utf8_chunks() {
        for character in piece.valid().chars() {
            match character {
                '\n' | '\t' => shown.push(character),
                '\0'..='\x1f' => {
                    // The pictures of the control characters stand in the same order.
                    shown.push(char::from_u32(0x2400 + character as u32).unwrap_or('?'));
                }
                '\x7f' => shown.push('\u{2421}'),
                _ if is_hidden(character) => {
                    let _ = write!(shown, "\\u{{{:x}}}", character as u32);
                }
                _ => shown.push(character),
            }
        }
        for byte in piece.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// Whether a character has no picture of its own and changes how others look.
fn is_hidden(character: char) -> bool {
    matches!(character,
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}
