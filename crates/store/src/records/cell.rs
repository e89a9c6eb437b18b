//! Rows of both databases, and the values in them.

use jiff::Timestamp;
use uuid::Uuid;

use crate::{Result, StoreError};

/// A value of a row. Times and truth values are numbers, ids are bytes, as in SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// No value.
    Null,
    /// A number, a time in microseconds, or a truth value (0 or 1).
    Int(i64),
    /// A text value.
    Text(String),
    /// Bytes, or an id.
    Bytes(Vec<u8>),
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<Cell>);

impl Row {
    /// A row of these values.
    pub fn new(cells: Vec<Cell>) -> Self {
        Row(cells)
    }

    /// The value of a column, counted from 0.
    pub fn get<T: FromCell>(&self, column: usize) -> Result<T> {
        let cell = self.0.get(column).cloned().unwrap_or(Cell::Null);
        T::from_cell(cell).map_err(|cell| {
            let wanted = std::any::type_name::<T>();
            StoreError::Unreadable(format!("column {column} is {cell:?}, not {wanted}"))
        })
    }
}

/// A type that a column can hold.
pub trait FromCell: Sized {
    /// The value; the cell itself if it is of another type.
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell>;
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        match cell {
            Cell::Null => Ok(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

impl FromCell for i64 {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        match cell {
            Cell::Int(number) => Ok(number),
            other => Err(other),
        }
    }
}

impl FromCell for bool {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for u64 {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        i64::from_cell(cell).map(i64::cast_unsigned)
    }
}

impl FromCell for u32 {
    /// PostgreSQL keeps such numbers in a signed column of the same size.
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        let number = i64::from_cell(cell)?;
        let signed = || i32::try_from(number).map(i32::cast_unsigned);
        u32::try_from(number).or_else(|_| signed()).map_err(|_| Cell::Int(number))
    }
}

impl FromCell for u16 {
    /// Like [`u32`].
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        let number = i64::from_cell(cell)?;
        let signed = || i16::try_from(number).map(i16::cast_unsigned);
        u16::try_from(number).or_else(|_| signed()).map_err(|_| Cell::Int(number))
    }
}

impl FromCell for u8 {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        let number = i64::from_cell(cell)?;
        u8::try_from(number).map_err(|_| Cell::Int(number))
    }
}

impl FromCell for Timestamp {
    /// A time past the calendar's end, which a long delay can make, is its end.
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        let us = i64::from_cell(cell)?;
        let end = if us < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Ok(Timestamp::from_microsecond(us).unwrap_or(end))
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        match cell {
            Cell::Text(text) => Ok(text),
            other => Err(other),
        }
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        match cell {
            Cell::Bytes(bytes) => Ok(bytes),
            other => Err(other),
        }
    }
}

impl FromCell for Uuid {
    fn from_cell(cell: Cell) -> std::result::Result<Self, Cell> {
        let bytes = Vec::<u8>::from_cell(cell)?;
        Uuid::from_slice(&bytes).map_err(|_| Cell::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_read_as_its_type_and_as_no_other() {
        let id = Uuid::from_u128(7);
        let row = Row::new(vec![
            Cell::Null,
            Cell::Int(-1),
            Cell::Text("a".into()),
            Cell::Bytes(id.as_bytes().to_vec()),
            Cell::Int(i64::MAX),
        ]);
        assert_eq!(row.get::<Option<i64>>(0), Ok(None));
        assert_eq!(row.get::<u32>(1), Ok(u32::MAX));
        assert_eq!(row.get::<u16>(1), Ok(u16::MAX));
        assert_eq!(row.get::<bool>(1), Ok(true));
        assert_eq!(row.get::<Option<String>>(2), Ok(Some("a".into())));
        assert_eq!(row.get::<Uuid>(3), Ok(id));
        assert_eq!(row.get::<Timestamp>(4), Ok(Timestamp::MAX));
        for wrong in [
            row.get::<i64>(0).map(drop),
            row.get::<u8>(1).map(drop),
            row.get::<Uuid>(2).map(drop),
            row.get::<String>(3).map(drop),
            row.get::<u32>(4).map(drop),
            row.get::<i64>(5).map(drop),
        ] {
            assert!(matches!(wrong, Err(StoreError::Unreadable(_))), "{wrong:?}");
        }
    }
}
