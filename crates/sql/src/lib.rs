//! SQL text to statements and back.

mod statement;
mod syntax;

pub use statement::{Parsed, Statement};
pub use syntax::SyntaxError;
