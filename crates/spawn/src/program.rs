//! A program, its arguments and its environment in the form of `execve`.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::ptr;

/// A program with its arguments and its environment.
#[derive(Debug)]
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// A program. The first argument is its name, and variables are `NAME=value`. Fails if one of
    /// the strings contains a zero byte.
    pub fn new(
        path: &str,
        arguments: impl IntoIterator<Item: Into<Vec<u8>>>,
        environment: impl IntoIterator<Item: Into<Vec<u8>>>,
    ) -> io::Result<Self> {
        Ok(Program {
            path: CString::new(path)?,
            arguments: strings(arguments)?,
            environment: strings(environment)?,
        })
    }

    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// Pointers to the arguments, and a null pointer.
    pub(crate) fn arguments(&self) -> Vec<*const c_char> {
        pointers(&self.arguments)
    }

    /// Pointers to the variables, and a null pointer.
    pub(crate) fn environment(&self) -> Vec<*const c_char> {
        pointers(&self.environment)
    }
}

fn strings(of: impl IntoIterator<Item: Into<Vec<u8>>>) -> io::Result<Vec<CString>> {
    Ok(of.into_iter().map(CString::new).collect::<Result<_, _>>()?)
}

fn pointers(to: &[CString]) -> Vec<*const c_char> {
    to.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}
