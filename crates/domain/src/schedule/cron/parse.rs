//! Text to [`Cron`]: five fields or a macro, with errors that point at the offending bytes.
//!
//! The input is capped before anything looks at it, every loop is bounded by the number of
//! values of a field, and an expression that can never fire is refused here, so that nothing
//! later has to search for a date that does not exist.

use std::ops::Range;

use super::field::{MONTHS, WEEKDAYS};
use super::{Cron, CronError, DayOfMonth, DayOfWeek, Field};

/// The longest expression that is looked at.
const LENGTH_MAX: usize = 256;

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

pub(super) fn parse(text: &str) -> Result<Cron, CronError> {
    refuse_foreign_bytes(text)?;
    let whole = Piece { text, at: 0 }.trimmed();
    if whole.text.starts_with('@') {
        let expansion = macro_expansion(whole)?;
        let mut cron = parse(expansion)?;
        cron.text = whole.text.into();
        return Ok(cron);
    }
    let [minute, hour, dom, month, dow] = five_fields(whole)?;
    let cron = Cron {
        text: whole.text.into(),
        minutes: set(Field::Minute, minute)?,
        hours: set(Field::Hour, hour)? as u32,
        months: set(Field::Month, month)? as u16,
        dom: day_of_month(dom)?,
        dow: day_of_week(dow)?,
    };
    if cron.never_fires() {
        return Err(never_fires_error(&cron, dom.at..dow.span().end));
    }
    Ok(cron)
}

/// A part of the input that remembers where it stands.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Piece<'a> {
    fn span(self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    fn trimmed(self) -> Self {
        let start = self.text.trim_ascii_start();
        Piece { text: start.trim_ascii_end(), at: self.at + self.text.len() - start.len() }
    }

    /// The bytes before and after position `i`, leaving out the byte at `i`.
    fn split_around(self, i: usize) -> (Self, Self) {
        let (left, right) = (&self.text[..i], &self.text[i + 1..]);
        (Piece { text: left, at: self.at }, Piece { text: right, at: self.at + i + 1 })
    }

    fn split_once(self, separator: char) -> Option<(Self, Self)> {
        self.text.find(separator).map(|i| self.split_around(i))
    }

    fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let here = rest?;
            match here.split_once(separator) {
                Some((item, after)) => {
                    rest = Some(after);
                    Some(item)
                }
                None => rest.take(),
            }
        })
    }

    /// Text before `suffix`, compared without regard to case.
    fn strip_suffix(self, suffix: &str) -> Option<Self> {
        let cut = self.text.len().checked_sub(suffix.len())?;
        let (text, end) = self.text.split_at(cut);
        end.eq_ignore_ascii_case(suffix).then_some(Piece { text, at: self.at })
    }

    fn is(self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }

    fn error(self, field: Option<Field>, problem: impl Into<String>) -> CronError {
        CronError { span: self.span(), field, problem: problem.into(), hint: None }
    }
}

impl CronError {
    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Length, bytes outside ASCII and control characters, before any of them can confuse a reader.
fn refuse_foreign_bytes(text: &str) -> Result<(), CronError> {
    if text.len() > LENGTH_MAX {
        let problem = format!(
            "the expression is {} bytes long; at most {LENGTH_MAX} are allowed",
            text.len()
        );
        return Err(Piece { text, at: 0 }.error(None, problem));
    }
    let Some((at, c)) =
        text.char_indices().find(|(_, c)| !c.is_ascii_graphic() && !c.is_ascii_whitespace())
    else {
        return Ok(());
    };
    let piece = Piece { text: &text[at..at + c.len_utf8()], at };
    let code = format!("U+{:04X}", u32::from(c));
    Err(if c.is_whitespace() && !c.is_ascii() {
        piece
            .error(None, format!("{code} is a blank that cron does not know"))
            .hint("use a plain space between the fields")
    } else if c.is_numeric() {
        piece
            .error(None, format!("{code} is not a digit that cron knows"))
            .hint("use the digits 0 to 9")
    } else if c.is_control() {
        piece.error(None, format!("the control character {code} is not allowed"))
    } else {
        piece.error(None, format!("the character {code} is not allowed"))
    })
}

fn macro_expansion(piece: Piece<'_>) -> Result<&'static str, CronError> {
    let name = piece.text.split_ascii_whitespace().next().unwrap_or(piece.text);
    if name.len() < piece.text.len() && !name.eq_ignore_ascii_case("@every") {
        let rest = piece.text[name.len()..].trim_ascii_start();
        let rest = Piece { text: rest, at: piece.span().end - rest.len() };
        return Err(rest.error(None, format!("nothing may follow the macro {name}")));
    }
    if let Some((_, expansion)) = MACROS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
    {
        return Ok(expansion);
    }
    let error = piece.error(None, format!("{name} is not a macro"));
    if name.eq_ignore_ascii_case("@reboot") {
        return Err(error.hint(
            "a schedule is a matter of time, not of restarts: let the service manager start what must run at boot",
        ));
    }
    if name.eq_ignore_ascii_case("@every") {
        return Err(
            error.hint("for a fixed interval use an EVERY schedule, for example EVERY 5 minutes")
        );
    }
    let lower = name.to_ascii_lowercase();
    let known = MACROS.iter().map(|(known, _)| *known);
    let nearest = known.min_by_key(|known| strsim::damerau_levenshtein(known, &lower));
    Err(match nearest.filter(|known| strsim::damerau_levenshtein(known, &lower) <= 2) {
        Some(known) => error.hint(format!("did you mean {known}?")),
        None => error.hint(
            "the macros are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly",
        ),
    })
}

fn five_fields(whole: Piece<'_>) -> Result<[Piece<'_>; 5], CronError> {
    let mut fields = Vec::with_capacity(5);
    let mut rest = whole;
    while !rest.text.is_empty() {
        let length = rest.text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.text.len());
        let (field, after) = rest.text.split_at(length);
        fields.push(Piece { text: field, at: rest.at });
        rest = Piece { text: after, at: rest.at + length }.trimmed();
    }
    fields.try_into().map_err(|fields: Vec<Piece<'_>>| {
        let problem = format!(
            "Expected 5 fields (minute, hour, day of month, month, day of week), found {}",
            fields.len()
        );
        let prefix = fields.first().filter(|field| field.text.contains('='));
        if let Some(prefix) = prefix {
            let error = prefix.error(None, format!("{} is not a field", prefix.text));
            return error.hint("the time zone of a schedule is a setting of its own, not part of the expression");
        }
        match fields.len() {
            0..=4 => whole.error(None, problem),
            6 => Piece { text: fields[5].text, at: fields[5].at }.error(None, problem).hint(
                "there is no field for seconds or years; for less than a minute use an EVERY schedule, for example EVERY 10 seconds",
            ),
            _ => {
                let extra = fields[5].at - whole.at;
                Piece { text: &whole.text[extra..], at: fields[5].at }.error(None, problem)
            }
        }
    })
}

/// The values of a field that has no extensions.
fn set(field: Field, piece: Piece<'_>) -> Result<u64, CronError> {
    let mut values = 0;
    for item in piece.split(',') {
        values |= values_of(field, item)?;
    }
    Ok(values)
}

fn day_of_month(piece: Piece<'_>) -> Result<DayOfMonth, CronError> {
    let field = Field::DayOfMonth;
    let mut dom = DayOfMonth {
        starred: is_starred(piece),
        stepped: is_stepped(piece),
        ..DayOfMonth::default()
    };
    if piece.is("?") {
        dom.days = every_value(field) as u32;
        return Ok(dom);
    }
    for item in piece.split(',') {
        if item.is("L") {
            dom.last = true;
        } else if item.is("LW") {
            dom.last_weekday = true;
        } else if let Some(day) = item.strip_suffix("W") {
            let day = match day.text {
                "" => {
                    return Err(item.error(Some(field), "W needs a day in front of it").hint(
                        "15W is the weekday nearest to day 15, LW the last weekday of the month",
                    ));
                }
                text if text.contains(['-', '/', '*']) => {
                    return Err(item.error(
                        Some(field),
                        "W goes with a single day, not with a range or a step",
                    ));
                }
                _ => value(field, day)?,
            };
            dom.nearest |= 1 << day;
        } else {
            dom.days |= values_of(field, item)? as u32;
        }
    }
    Ok(dom)
}

fn day_of_week(piece: Piece<'_>) -> Result<DayOfWeek, CronError> {
    let field = Field::DayOfWeek;
    let mut dow = DayOfWeek {
        starred: is_starred(piece),
        stepped: is_stepped(piece),
        ..DayOfWeek::default()
    };
    if piece.is("?") {
        dow.days = every_value(field) as u8;
        return Ok(dow);
    }
    for item in piece.split(',') {
        if item.is("L") {
            return Err(item
                .error(Some(field), "L needs a weekday in front of it")
                .hint("5L is the last Friday of the month; SAT is every Saturday"));
        }
        if let Some((day, nth)) = item.split_once('#') {
            if day.text.is_empty() {
                let hash = Piece { text: "#", at: item.at };
                let error = hash.error(Some(field), "# needs a weekday in front of it");
                return Err(error.hint("FRI#2 is the second Friday of the month"));
            }
            let day = value(field, day)? % 7;
            let n = match nth.text.as_bytes() {
                [n @ b'1'..=b'5'] => usize::from(n - b'0'),
                _ => {
                    return Err(nth_or_item(nth, item)
                        .error(Some(field), "after # stands which one of the month, 1 to 5")
                        .hint(format!(
                            "{}#2 is the second one, {}L the last",
                            WEEKDAYS[day as usize], WEEKDAYS[day as usize]
                        )));
                }
            };
            dow.nth[n - 1] |= 1 << day;
        } else if let Some(day) = item.strip_suffix("L").filter(|day| !day.text.is_empty()) {
            if day.text.contains(['-', '/', '*']) {
                return Err(item.error(
                    Some(field),
                    "L goes with a single weekday, not with a range or a step",
                ));
            }
            dow.last |= 1 << (value(field, day)? % 7);
        } else {
            dow.days |= values_of(field, item)? as u8;
        }
    }
    Ok(dow)
}

/// An empty piece cannot be pointed at, so its item is.
fn nth_or_item<'a>(nth: Piece<'a>, item: Piece<'a>) -> Piece<'a> {
    if nth.text.is_empty() { item } else { nth }
}

/// Whether the Vixie rule counts a day field as unrestricted: a question of its text.
fn is_starred(piece: Piece<'_>) -> bool {
    piece.text.starts_with('*') || piece.text == "?"
}

/// Whether the field begins with `*/n` for an n that leaves something out.
fn is_stepped(piece: Piece<'_>) -> bool {
    let first = piece.text.split(',').next().unwrap_or_default();
    first.strip_prefix("*/").is_some_and(|step| step.trim_start_matches('0') != "1")
}

fn every_value(field: Field) -> u64 {
    spread(field, field.min(), field.max(), 1)
}

/// The bits `from`, `from + step`, … up to `to`, with 7 written as Sunday's 0.
fn spread(field: Field, from: u32, to: u32, step: u32) -> u64 {
    let mut values = 0;
    let mut value = from;
    while value <= to {
        values |= 1 << if field == Field::DayOfWeek { value % 7 } else { value };
        value += step;
    }
    values
}

/// One element of a list: `*`, a value, a range, each with an optional step.
fn values_of(field: Field, item: Piece<'_>) -> Result<u64, CronError> {
    if item.text.is_empty() {
        return Err(empty_element(field, item));
    }
    let (base, step) = match item.split_once('/') {
        Some((base, step)) => (base, Some(step_of(field, item, step)?)),
        None => (item, None),
    };
    if base.text.is_empty() {
        let slash = Piece { text: &item.text[..1], at: item.at };
        let error = slash.error(Some(field), "nothing stands before the step");
        return Err(error.hint("write */n for every n-th value, or a/n to begin at a"));
    }
    if base.text == "*" {
        return Ok(spread(field, field.min(), field.max(), step.unwrap_or(1)));
    }
    if base.text.contains('*') {
        return Err(base
            .error(Some(field), "* stands alone or before a step")
            .hint("write *, or */n for every n-th value"));
    }
    if base.text.contains('?') {
        let hint = if field.is_day() {
            "? stands alone in a day field"
        } else {
            "? is known in the two day fields only; write *"
        };
        return Err(base.error(Some(field), "? is not a value").hint(hint));
    }
    let (from, to) = match base.split_once('-') {
        Some((from, to)) => range(field, base, from, to)?,
        None => {
            let from = value(field, base)?;
            // A single value with a step runs to the end of the field.
            (from, if step.is_some() { from.max(field.max()) } else { from })
        }
    };
    Ok(spread(field, from, to, step.unwrap_or(1)))
}

fn empty_element(field: Field, item: Piece<'_>) -> CronError {
    // Point at the comma that begs for a value: there is one on at least one side.
    CronError {
        span: item.at.saturating_sub(1)..item.at + usize::from(item.at == 0),
        field: Some(field),
        problem: "an element of the list is empty".into(),
        hint: Some("remove the comma, or write a value on both sides of it".into()),
    }
}

fn range(
    field: Field,
    base: Piece<'_>,
    from: Piece<'_>,
    to: Piece<'_>,
) -> Result<(u32, u32), CronError> {
    if from.text.is_empty() || to.text.is_empty() || to.text.contains('-') {
        return Err(base.error(Some(field), "a range is two values with one - between them"));
    }
    let low = value(field, from)?;
    let mut high = value(field, to)?;
    if field == Field::DayOfWeek && to.is("SUN") && low > 0 {
        high = 7;
    }
    if low <= high {
        return Ok((low, high));
    }
    let error = base.error(
        Some(field),
        format!("the range runs backwards: {} comes after {}", from.text, to.text),
    );
    Err(if field == Field::DayOfWeek && low == 7 {
        error.hint(format!("Sunday is 0 at the beginning of a range: 0-{}", to.text))
    } else if field == Field::DayOfWeek && high == 0 {
        error.hint(format!("write {}-7, where 7 is Sunday", from.text))
    } else {
        let (first, last) = match field.names().first() {
            Some(_) if from.text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let names = field.names();
                (names[0].to_owned(), names[names.len() - 1].to_owned())
            }
            _ => (field.min().to_string(), field.max().to_string()),
        };
        error.hint(format!("write it as two: {}-{last},{first}-{}", from.text, to.text))
    })
}

fn step_of(field: Field, item: Piece<'_>, step: Piece<'_>) -> Result<u32, CronError> {
    let digits = !step.text.is_empty() && step.text.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        let at = if step.text.is_empty() { item } else { step };
        return Err(at
            .error(Some(field), "a step is a whole number after one /")
            .hint("for example */15 or 10-50/20"));
    }
    match number(step.text) {
        0 => Err(step
            .error(Some(field), "a step of 0 never advances")
            .hint("the smallest step is 1")),
        n if n > field.size() => Err(step.error(
            Some(field),
            format!("the step {n} is larger than the field, which has {} values", field.size()),
        )),
        n => Ok(n),
    }
}

fn value(field: Field, piece: Piece<'_>) -> Result<u32, CronError> {
    if !piece.text.is_empty() && piece.text.bytes().all(|b| b.is_ascii_digit()) {
        let n = number(piece.text);
        if n < field.min() || n > field.written_max() {
            return Err(piece.error(
                Some(field),
                format!("{} is out of range {}-{}", piece.text, field.min(), field.written_max()),
            ));
        }
        return Ok(n);
    }
    if let Some(i) = field.names().iter().position(|name| piece.is(name)) {
        return Ok(i as u32 + field.min());
    }
    Err(unknown_value(field, piece))
}

/// A number of digits; so many that they do not fit is as wrong as too large.
fn number(digits: &str) -> u32 {
    digits.parse().unwrap_or(u32::MAX)
}

fn unknown_value(field: Field, piece: Piece<'_>) -> CronError {
    let error = piece.error(Some(field), format!("{} is not a value of this field", piece.text));
    let upper = piece.text.to_ascii_uppercase();
    let numbers = format!("{}-{}", field.min(), field.written_max());
    if let Some(name) = field.names().iter().find(|name| upper.starts_with(**name)) {
        return error.hint(format!("names have three letters: {name}"));
    }
    let near = |name: &&&str| strsim::damerau_levenshtein(name, &upper) <= 1;
    if let Some(name) = field.names().iter().find(near) {
        return error.hint(format!("did you mean {name}?"));
    }
    if field != Field::DayOfWeek && WEEKDAYS.contains(&upper.as_str()) {
        return error.hint(format!(
            "{upper} is a weekday, which belongs in the fifth field; here stands {numbers}"
        ));
    }
    if field != Field::Month && MONTHS.contains(&upper.as_str()) {
        return error.hint(format!(
            "{upper} is a month, which belongs in the fourth field; here stands {numbers}"
        ));
    }
    if field == Field::DayOfWeek && upper == "W"
        || field != Field::DayOfMonth && upper.ends_with('W')
    {
        return error.hint("W belongs in the day of month, the third field");
    }
    match field.names() {
        [] => error.hint(format!("here stands a number, {numbers}")),
        names => error.hint(format!(
            "here stands a number, {numbers}, or a name, {} to {}",
            names[0],
            names[names.len() - 1]
        )),
    }
}

fn never_fires_error(cron: &Cron, span: Range<usize>) -> CronError {
    const FEBRUARY: u16 = 1 << 2;
    const THIRTY: u16 = 1 << 4 | 1 << 6 | 1 << 9 | 1 << 11;
    // Only numbered days can be refuted by the length of a month.
    let first_day = (cron.dom.days | cron.dom.nearest).trailing_zeros();
    let plain = !cron.dom.last && !cron.dom.last_weekday;
    let hint = if plain && cron.months == FEBRUARY && first_day > 29 {
        Some("February has at most 29 days".to_owned())
    } else if plain && cron.months & !(FEBRUARY | THIRTY) == 0 && first_day > 30 {
        Some("none of these months has 31 days".to_owned())
    } else {
        None
    };
    CronError {
        span,
        field: None,
        problem: "No match found: no date of the calendar's 400-year cycle fits these day and month fields".into(),
        hint,
    }
}
