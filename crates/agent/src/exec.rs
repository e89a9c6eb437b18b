//! One module for each kind of action.

pub(crate) mod external;
pub(crate) mod http;
pub(crate) mod sql;
