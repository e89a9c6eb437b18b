//! The stack of a child that shares its parent's memory.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::libc::c_void;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The size of the inaccessible guard below the stack: a stack overflow ends the child instead of
/// overwriting other memory. At least a page on every processor.
const GUARD_BYTES: usize = 64 << 10;

const BYTES: NonZeroUsize = NonZeroUsize::new(GUARD_BYTES + (512 << 10)).unwrap();

/// The stack of the child of [`spawn`](crate::spawn). It can be reused.
pub struct Stack(NonNull<c_void>);

impl Stack {
    /// Allocates a stack.
    #[expect(unsafe_code, reason = "memory that nothing else uses")]
    pub fn new() -> io::Result<Self> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK | MapFlags::MAP_NORESERVE;
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let stack = Stack(unsafe { mmap_anonymous(None, BYTES, access, flags) }?);
        // SAFETY: the pages belong to the mapping that was just made, and nothing points to them.
        unsafe { mprotect(stack.0, GUARD_BYTES, ProtFlags::PROT_NONE) }?;
        Ok(stack)
    }

    /// The usable memory.
    #[expect(unsafe_code, reason = "the part of the mapping that can be written")]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let length = BYTES.get() - GUARD_BYTES;
        // SAFETY: the mapping has this length, is zeroed by the kernel, lives as long as this
        // value, and is borrowed as long as the slice.
        unsafe {
            let begin = self.0.cast::<u8>().add(GUARD_BYTES);
            std::slice::from_raw_parts_mut(begin.as_ptr(), length)
        }
    }
}

impl Drop for Stack {
    #[expect(unsafe_code, reason = "the mapping was made by `new`")]
    fn drop(&mut self) {
        // SAFETY: nothing borrows it any more.
        let _ = unsafe { munmap(self.0, BYTES.get()) };
    }
}
