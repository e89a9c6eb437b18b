//! Functions of numbers.

use rusqlite::types::{Value as Inner, ValueRef};

use super::{Answer, Answers, FLOAT, Scalar, strict};
use crate::error::{QueryError, State};

pub(crate) const SCALARS: &[Scalar] = &[
    strict("ceil", (1, 1), FLOAT, |_, arguments| Ok(arguments.float(0)?.ceil().into())),
    strict("floor", (1, 1), FLOAT, |_, arguments| Ok(arguments.float(0)?.floor().into())),
    strict("trunc", (1, 2), FLOAT, |_, arguments| {
        let places = if arguments.len() == 2 { arguments.int(1)?.clamp(-300, 300) } else { 0 };
        let factor = 10f64.powi(places as i32);
        Ok(((arguments.float(0)? * factor).trunc() / factor).into())
    }),
    strict("sqrt", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.sqrt())),
    strict("ln", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.ln())),
    strict("log", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.log10())),
    strict("exp", (1, 1), FLOAT, |_, arguments| finite(arguments.float(0)?.exp())),
    strict("power", (2, 2), FLOAT, |_, arguments| {
        finite(arguments.float(0)?.powf(arguments.float(1)?))
    }),
    strict("mod", (2, 2), Answers::Like(0), |_, arguments| {
        let (a, b) = (arguments.int(0)?, arguments.int(1)?);
        a.checked_rem(b).map(Inner::from).ok_or_else(by_zero)
    }),
    strict("_divisor", (1, 1), Answers::Like(0), |_, arguments| match arguments.raw(0) {
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
        Err(QueryError::new(State::InvalidValue, "value out of range"))
    }
}
