//! The memory that a statement holds, counted where SQLite asks for it.
//!
//! SQLite has one allocator for the whole process and no limit for one connection. So the allocator
//! here adds up what its thread holds, and answers "out of memory" when a statement that runs on
//! this thread has more than it may. Threads without a statement, such as those of a store, have no
//! limit. A statement runs on one thread from its beginning to its end.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi;

/// In front of each allocation stands its size. This keeps what follows aligned for everything.
const HEAD: usize = 16;

/// Requests up to this size are always granted, so that an error message or a plan can be made
/// when nothing is left. [`held`] is looked at between steps, so many of them end a statement too.
const ALWAYS_GRANTED: i64 = 16 << 10;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static HELD_MAX: Cell<i64> = const { Cell::new(i64::MAX) };
}

/// A statement begins on this thread, which may hold so many bytes.
pub(crate) fn begin(max: u64) {
    HELD.set(0);
    HELD_MAX.set(i64::try_from(max).unwrap_or(i64::MAX));
}

/// The statement of this thread has ended.
pub(crate) fn end() {
    HELD_MAX.set(i64::MAX);
}

/// How many bytes the statement of this thread holds. Below zero, if it gave back what was there
/// before it.
pub(crate) fn held() -> i64 {
    HELD.get()
}

/// Whether the statement of this thread holds more than it may.
pub(crate) fn is_exceeded() -> bool {
    HELD.get() > HELD_MAX.get()
}

/// Counts bytes outside of SQLite that the statement of this thread holds from now on; gives them
/// back if there are fewer than none.
pub(crate) fn count(bytes: i64) {
    HELD.set(HELD.get().saturating_add(bytes));
}

/// Makes SQLite count the memory of its statements, in the whole process. It must be called before
/// anything else uses SQLite, the store included; answers false if that was too late. Without it
/// there is no limit to what a statement holds inside of SQLite.
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
    // SAFETY: SQLite copies the methods. Its own statistics are switched off, which would make every
    // allocation of the process wait for one lock: a query could hold up the store.
    unsafe {
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) == ffi::SQLITE_OK
            && ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, off) == ffi::SQLITE_OK
    }
}

/// Whether this thread may hold so many bytes more.
fn grants(more: i64) -> bool {
    more <= ALWAYS_GRANTED || HELD.get().saturating_add(more) <= HELD_MAX.get()
}

#[expect(unsafe_code, reason = "an allocator of C")]
unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    let Ok(wanted) = usize::try_from(bytes) else { return std::ptr::null_mut() };
    if !grants(i64::from(bytes)) {
        return std::ptr::null_mut();
    }
    // SAFETY: what malloc answers has room for the head, and is aligned for it.
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
    // SAFETY: SQLite gives back what `allocate` or `reallocate` answered, or null.
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
    // SAFETY: as above. SQLite calls it with neither null nor zero, which would be right too.
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
    // SAFETY: in front of what was allocated stands its size, which came as a c_int.
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
