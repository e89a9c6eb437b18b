//! Errors as numbers, for catalogs whose error column is an integer.

/// Errors that have only a name get numbers from here on.
const NAMED: u32 = 100_000_000;

/// The number of an error by its name. The number that is in the name, if there is one: `EXIT_3` is
/// 3, `HTTP_502` is 502, `SQLSTATE_23505` is 23505. A signal is 128 and its number, as in a shell.
/// An SQLSTATE with letters is read in base 36. Every other error has a number that is made of its
/// name and never changes.
///
/// ```
/// use punctual_domain::run::error_number;
/// assert_eq!(error_number("HTTP_502"), 502);
/// ```
pub fn error_number(name: &str) -> i32 {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<i32>().ok();
    let of_kind = number("EXIT_")
        .or_else(|| number("HTTP_"))
        .or_else(|| Some(number("SIGNAL_")?.saturating_add(128)))
        .or_else(|| number("SQLSTATE_"))
        .or_else(|| i32::from_str_radix(name.strip_prefix("SQLSTATE_")?, 36).ok());
    of_kind.unwrap_or_else(|| {
        // FNV-1a: the same on every machine and in every release.
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        (NAMED + hash % 1_000_000_000).cast_signed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors() {
        for (name, number) in [
            ("EXIT_3", 3),
            ("EXIT_-1", -1),
            ("SIGNAL_9", 137),
            ("HTTP_502", 502),
            ("SQLSTATE_23505", 23_505),
            ("SQLSTATE_40P01", 6_750_865),
        ] {
            assert_eq!(error_number(name), number, "{name}");
        }
        // Released numbers must not change.
        assert_eq!(error_number("TIMEOUT"), error_number("TIMEOUT"));
        for name in ["TIMEOUT", "DNS", "", "HTTP_", "LOST"] {
            assert!(error_number(name) >= 100_000_000, "{name}");
        }
        assert_ne!(error_number("DNS"), error_number("TLS"));
    }
}
