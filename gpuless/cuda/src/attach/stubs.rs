//! Machine code: jumps to functions, and functions that answer for missing ones.
use super::memory;
use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// `cudaErrorNotSupported`.
const NOT_SUPPORTED: u64 = 801;
/// The answer of functions that return a text.
const TEXT: &CStr = c"the CUDA runtime in software has no words for this";
/// The size of a jump in bytes.
pub(super) const JUMP: usize = 13;
/// The size of a stub in bytes.
const STUB: usize = 16;
/// The size of the code that all stubs share.
const SHARED: usize = 2 * STUB;

/// Receives calls of missing functions: the name, and `true` at the first call. A panic in it ends the process.
pub type Report = Box<dyn Fn(&str, bool) + Send + Sync>;

/// `mov r11, address; jmp r11`. No function expects anything in r11.
pub(super) fn jump(address: usize) -> [u8; JUMP] {
    let mut code = [0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3];
    code[2..10].copy_from_slice(&(address as u64).to_le_bytes());
    code
}

/// True for a jump made by [`jump`].
pub(super) fn is_jump(code: &[u8; JUMP]) -> bool {
    code.starts_with(&[0x49, 0xbb]) && code.ends_with(&[0x41, 0xff, 0xe3])
}

/// True if all bytes are padding that assemblers put between functions: zeros, traps, and instructions without an effect.
pub(super) fn is_padding(mut code: &[u8]) -> bool {
    while let Some((first, rest)) = code.split_first() {
        code = match first {
            0 | 0x90 | 0xcc => rest,
            // Prefixes, which belong to the instruction that follows.
            0x66 | 0x2e => rest,
            // A long nop: how many bytes follow depends on the next one. The last one may be cut.
            0x0f if rest.first() == Some(&0x1f) => match rest.get(1) {
                None => return true,
                Some(operand) => rest.get(2 + operands(*operand)..).unwrap_or_default(),
            },
            0x0f if rest.is_empty() => return true,
            _ => return false,
        };
    }
    true
}

/// Bytes after a nop's operand byte.
fn operands(operand: u8) -> usize {
    let index = usize::from(operand & 7 == 4 && operand >> 6 != 3);
    index + [0, 1, 4, 0][usize::from(operand >> 6)]
}

/// A function that the runtime does not have.
struct Missing {
    name: String,
    called: AtomicBool,
    answer: u64,
    /// True if calls are reported.
    reported: bool,
}

/// The data that the stubs of a library use.
struct Context {
    missing: Vec<Missing>,
    report: Report,
}

/// Creates a function for every name, which reports its call and returns `cudaErrorNotSupported`. Returns their addresses.
///
/// They stay as long as the process: a library calls some of them while the process ends.
pub(super) fn make(names: &[&str], report: Report) -> io::Result<Vec<usize>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let missing = names.iter().map(|name| Missing {
        name: (*name).to_owned(),
        called: AtomicBool::new(false),
        answer: match *name {
            "cudaGetErrorName" | "cudaGetErrorString" => TEXT.as_ptr() as u64,
            "__cudaUnregisterFatBinary" | "__cudaRegisterFatBinary" => 0,
            _ => NOT_SUPPORTED,
        },
        // Constructors and destructors call them, and kernels are found without them.
        reported: !name.starts_with("__cudaRegister") && *name != "__cudaUnregisterFatBinary",
    });
    let context: &'static Context = Box::leak(Box::new(Context { missing: missing.collect(), report }));
    let code =
        code(names.len(), std::ptr::from_ref(context) as u64, answer as extern "C" fn(_, _) -> _ as usize as u64);
    let start = memory::executable(&code)?;
    Ok((0..names.len()).map(|index| start + SHARED + index * STUB).collect())
}

/// The code of this many stubs, which call `answer` with `context` and their number. Code shared by all comes first.
fn code(count: usize, context: u64, answer: u64) -> Vec<u8> {
    let mut code = vec![0x48, 0xbf];
    code.extend(context.to_le_bytes()); // mov rdi, context
    code.extend([0x44, 0x89, 0xde]); // mov esi, r11d
    code.extend(jump(answer as usize));
    code.resize(SHARED, 0xcc);
    for index in 0..count {
        code.extend([0x41, 0xbb]);
        code.extend((index as u32).to_le_bytes()); // mov r11d, index
        code.push(0xe9); // jmp to the shared part
        let from = code.len() as i64 + 4;
        code.extend((-from as i32).to_le_bytes());
        code.resize(code.len().next_multiple_of(STUB), 0xcc);
    }
    code
}

/// Answers for a missing function.
extern "C" fn answer(context: &'static Context, index: u32) -> u64 {
    let Some(missing) = context.missing.get(index as usize) else { return NOT_SUPPORTED };
    let first = !missing.called.swap(true, Ordering::Relaxed);
    if missing.reported {
        (context.report)(&missing.name, first);
    }
    missing.answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_told_from_code() {
        let long = [0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert!(is_padding(&[]) && is_padding(&long) && is_padding(&[0x0f, 0x1f, 0x40, 0, 0x90, 0xcc, 0, 0x66, 0x90]));
        // A nop that extends beyond the bytes that are checked.
        assert!(is_padding(&long[..6]) && is_padding(&long[..5]) && is_padding(&long[..4]));
        assert!(is_padding(&[0x0f, 0x1f, 0x44, 0, 0, 0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0x0f, 0x1f, 0]));
        for code in [[0x90, 0xc3, 0x90], [0x55, 0x48, 0x89], [0x0f, 0x05, 0x90], [0x0f, 0x1f, 0xc0 - 0x80]] {
            assert_eq!(is_padding(&code), code == [0x0f, 0x1f, 0x40], "{code:x?}");
        }
    }

    #[test]
    fn a_jump_is_known_again() {
        assert!(is_jump(&jump(0x7fff_1234_5678_9abc)));
        assert!(!is_jump(&[0x90; JUMP]));
    }

    #[test]
    fn every_stub_jumps_to_the_shared_part() {
        let code = code(3, 0x1122_3344_5566_7788, 0x0102_0304_0506_0708);
        assert_eq!(code.len(), 2 * STUB + 3 * STUB);
        for index in 0..3 {
            let stub = &code[2 * STUB + index * STUB..];
            assert_eq!(stub[..7], [0x41, 0xbb, index as u8, 0, 0, 0, 0xe9]);
            let distance = i32::from_le_bytes(stub[7..11].try_into().unwrap());
            assert_eq!(distance as i64 + (2 * STUB + index * STUB + 11) as i64, 0);
        }
    }
}
