//! The memory of a statement, counted in SQLite's allocator.
//!
//! SQLite has one allocator for the whole process and no limit for one connection. This allocator
//! counts the allocations of each thread, and returns "out of memory" when the statement that runs
//! on the thread exceeds its limit. Threads without a statement, such as those of a store, have no
//! limit. A statement runs on one thread from its beginning to its end.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi;

/// The size of an allocation is stored in front of it. This length keeps every alignment.
const HEAD: usize = 16;

/// Requests up to this size are always granted, so that an error message or a plan can be allocated
/// at the limit. [`held`] is checked between steps, so many small requests end a statement too.
const ALWAYS_GRANTED: i64 = 16 << 10;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static HELD_MAX: Cell<i64> = const { Cell::new(i64::MAX) };
}

/// Starts a statement with this memory limit on this thread.
pub(crate) fn begin(max: u64) {
    HELD.set(0);
    HELD_MAX.set(i64::try_from(max).unwrap_or(i64::MAX));
}

/// Ends the statement of this thread.
pub(crate) fn end() {
    HELD_MAX.set(i64::MAX);
}

/// The bytes that the statement of this thread holds. Negative if it freed memory of earlier
/// statements.
pub(crate) fn held() -> i64 {
    HELD.get()
}

/// Whether the statement of this thread exceeds its limit.
pub(crate) fn is_exceeded() -> bool {
    HELD.get() > HELD_MAX.get()
}

/// Adds bytes outside of SQLite to the memory of the statement; a negative number releases them.
pub(crate) fn count(bytes: i64) {
    HELD.set(HELD.get().saturating_add(bytes));
}

/// Makes SQLite count the memory of its statements, in the whole process. It must be called before
/// anything else uses SQLite, including the store; returns false if it was too late. Without it,
/// the memory of a statement inside SQLite is not limited.
pub fn count_memory() -> bool {
    static COUNTED: OnceLock<bool> = OnceLock::new();
    *COUNTED.get_or_init(install)
}

#[expect(
    unsafe_code,
    reason = "the functions below are a correct allocator, and SQLite refuses \
                                another one once it was used"
)]
fn install() -> bool {
    let methods = ffi::sqlite3_mem_methods {
        xMalloc: Some(allocate),
        xFree: Some(free),
        xRealloc: Some(reallocate),
        xSize: Some(size),
        xRoundup: Some(round_up),
        xInit: Some(start),
        xShutdown: Some(stop),
        pAppData: std::ptr::null_mut(),
    };
    let off: c_int = 0;
    // SAFETY: SQLite copies the methods. Its own statistics are disabled, because they would make
    // every allocation of the process wait for one lock: a query could delay the store.
    unsafe {
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) == ffi::SQLITE_OK
            && ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, off) == ffi::SQLITE_OK
    }
}

/// Whether this thread may allocate this many more bytes.
fn grants(more: i64) -> bool {
    more <= ALWAYS_GRANTED || HELD.get().saturating_add(more) <= HELD_MAX.get()
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    let Ok(wanted) = usize::try_from(bytes) else { return std::ptr::null_mut() };
    if !grants(i64::from(bytes)) {
        return std::ptr::null_mut();
    }
    // SAFETY: the result of malloc is large enough for the header, and is aligned for it.
    unsafe {
        let base = libc::malloc(wanted + HEAD).cast::<u8>();
        if base.is_null() {
            return std::ptr::null_mut();
        }
        base.cast::<usize>().write(wanted);
        count(i64::from(bytes));
        base.add(HEAD).cast()
    }
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn free(memory: *mut c_void) {
    // SAFETY: SQLite passes a result of `allocate` or `reallocate`, or null.
    unsafe {
        if !memory.is_null() {
            count(-i64::from(size(memory)));
            libc::free(memory.cast::<u8>().sub(HEAD).cast());
        }
    }
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn reallocate(memory: *mut c_void, bytes: c_int) -> *mut c_void {
    let Ok(wanted) = usize::try_from(bytes) else { return std::ptr::null_mut() };
    // SAFETY: as above. SQLite passes neither null nor zero, which would be valid too.
    unsafe {
        if memory.is_null() {
            return allocate(bytes);
        }
        let more = i64::from(bytes) - i64::from(size(memory));
        if !grants(more) {
            return std::ptr::null_mut();
        }
        let base = memory.cast::<u8>().sub(HEAD);
        let base = libc::realloc(base.cast(), wanted + HEAD).cast::<u8>();
        if base.is_null() {
            return std::ptr::null_mut();
        }
        base.cast::<usize>().write(wanted);
        count(more);
        base.add(HEAD).cast()
    }
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn size(memory: *mut c_void) -> c_int {
    if memory.is_null() {
        return 0;
    }
    // SAFETY: the size is stored in front of the allocation, and was passed as a c_int.
    unsafe { memory.cast::<u8>().sub(HEAD).cast::<usize>().read() as c_int }
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn round_up(bytes: c_int) -> c_int {
    bytes.saturating_add(7) & !7
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn start(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn stop(_: *mut c_void) {}
