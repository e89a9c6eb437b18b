//! Numbers.

use rusqlite::types::{Value as Inner, ValueRef};

use super::{Answer, Answers, Arguments, Scalar, Type};
use crate::error::{QueryError, State};
use crate::value::Kind;
use crate::vtab::Shared;

const FLOAT: Answers = Answers::Is(Type::Of(Kind::Float));

const fn scalar(
    name: &'static str,
    arguments: (usize, usize),
    answers: Answers,
    call: fn(&Shared, &Arguments<'_>) -> Answer,
) -> Scalar {
    Scalar { name, arguments, strict: true, answers, call }
}

pub(crate) const SCALARS: &[Scalar] = &[
    scalar("ceil", (1, 1), FLOAT, |_, arguments| Ok(arguments.float(0)?.ceil().into())),
    scalar("floor", (1, 1), FLOAT, |_, arguments| Ok(arguments.float(0)?.floor().into())),
    scalar("trunc", (1, 2), FLOAT, |_, arguments| {
        let places = if arguments.len() == 2 { arguments.int(1)?.clamp(-300, 300) } else { 0 };
        let factor = 10f64.powi(places as i32);
        Ok(((arguments.float(0)? * factor).trunc() / factor).into())
    }),
    scalar("sqrt", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.sqrt())),
    scalar("ln", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.ln())),
    scalar("log", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.log10())),
    scalar("exp", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.exp())),
    scalar("power", (2, 2), FLOAT, |_, arguments| {
        finite(arguments.float(0)?.powf(arguments.float(1)?))
    }),
    scalar("mod", (2, 2), Answers::Like(0), |_, arguments| {
        let (a, b) = (arguments.int(0)?, arguments.int(1)?);
        a.checked_rem(b).map(Inner::from).ok_or_else(by_zero)
    }),
    scalar("_divisor", (1, 1), Answers::Like(0), |_, arguments| match arguments.raw(0) {
        ValueRef::Integer(0) => Err(by_zero()),
        ValueRef::Real(0.0) => Err(by_zero()),
        value => Ok(super::own(value)),
    }),
];

fn by_zero() -> QueryError {
    QueryError::new(State::DivisionByZero, "division by zero")
}

fn finite(number: f64) -> Answer {
    if number.is_finite() {
        Ok(number.into())
    } else {
        Err(QueryError::new(State::InvalidValue, "the number has no such value"))
    }
}
