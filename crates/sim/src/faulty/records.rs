//! Records that no invariant is about: their transactions and queries are passed through like
//! everything else, and each can be lost on its way.

use store::Result;
use store::records::{RecordAnswer, Records, Row, Statement, Transaction};

use super::FaultyStore;

impl<S: Records> Records for FaultyStore<S> {
    through! {
        commit(transaction: Transaction) -> Option<Vec<RecordAnswer>>;
        query_each(statements: Vec<Statement>) -> Vec<Vec<Row>>;
    }
}
